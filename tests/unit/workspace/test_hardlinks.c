/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: visible names of hidden files are found, of files in hidden folders too, and nothing else. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/remove.h"
#include "workspace/copy/hardlinks.h"
#include "workspace/hide/ignore.h"

static const char rules[] = ".env\n.env2\nsecret/\n";

static char folder[32];

static int make_tree(void) {
    int dir, fd;

    snprintf(folder, sizeof folder, "%s", "/tmp/bawn-links-XXXXXX");
    assert_non_null(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "secret", 0700), 0);
    assert_int_equal(mkdirat(dir, "src", 0700), 0);
    static const char *const names[] = {".env", "secret/key", "src/own", "empty"};

    for (size_t i = 0; i < 4; i++) {
        fd = openat(dir, names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "x", i < 3), i < 3);
        close(fd);
    }
    return dir;
}

static void link_to(int dir, const char *from, const char *to) {
    assert_int_equal(linkat(dir, from, dir, to, 0), 0);
}

static void visible_names_are_found(void **state) {
    static char a[] = ".env", b[] = "secret", c[] = ".env2";
    char *v[] = {a, b, c, NULL};
    struct strv hidden = {.v = v, .len = 3}, found = {0};
    struct ignore *ig = ignore_new();
    struct err err = {0};
    int dir = make_tree();

    (void)state;
    assert_int_equal(ignore_add_file(ig, "", "test", rules, sizeof rules - 1, &err), 0);
    link_to(dir, ".env", ".env2"); /* hidden itself */
    link_to(dir, "src/own", "src/other");
    assert_int_equal(hardlinks_of_hidden(dir, &hidden, ig, &found, &err), 0);
    assert_int_equal(found.len, 0);
    link_to(dir, ".env", "src/copy");
    link_to(dir, "secret/key", "plain");
    assert_int_equal(hardlinks_of_hidden(dir, &hidden, ig, &found, &err), 0);
    assert_int_equal(found.len, 2);
    assert_true(strv_has(&found, "src/copy"));
    assert_true(strv_has(&found, "plain"));
    strv_done(&found);
    ignore_free(ig);
    close(dir);
    assert_int_equal(remove_tree(AT_FDCWD, folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(visible_names_are_found)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
