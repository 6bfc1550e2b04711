/* SPDX-License-Identifier: Apache-2.0 */
/* tar(1) is the judge. */
#include "sides.h"

#include <sys/wait.h>

#include "base/str.h"
#include "workspace/copy/tarball.h"

/* tar OPTIONS -f archive.tar, in host/: its standard output, or NULL if it failed. */
static char *tar(const struct sides *s, const char *options) {
    struct buf b = BUF_INIT(1024 * 1024);
    char part[4096];
    int p[2], status = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        if (fchdir(s->host) < 0 || dup2(p[1], 1) < 0)
            _exit(125);
        execlp("tar", "tar", "--quoting-style=escape", options, "-f", "../archive.tar", (char *)NULL);
        _exit(126);
    }
    closep(&p[1]);
    while ((n = fd_read_some(p[0], part, sizeof part)) > 0)
        buf_add(&b, part, (size_t)n);
    closep(&p[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        buf_done(&b);
        return NULL;
    }
    return buf_take(&b);
}

static struct tarball begin(const struct sides *s) {
    return (struct tarball){.fd = openat(s->top_fd, "archive.tar", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
                            .mtime = 1000000000};
}

static void end(struct tarball *t) {
    assert_int_equal(tarball_end(t), 0);
    closep(&t->fd);
}

static void test_tar_reads_it(void **state) {
    struct sides *s = *state;
    struct tarball t = begin(s);
    struct stat st = {.st_mode = S_IFDIR | 0750, .st_mtime = 1}, file;
    char *list;
    int fd;

    sides_write(s, "content", "from a file");
    fd = openat(s->top_fd, "content", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(tarball_bytes(&t, "a", "text", 4), 0);
    assert_int_equal(tarball_bytes(&t, "empty", NULL, 0), 0);
    assert_int_equal(tarball_folder(&t, "d", &st), 0);
    assert_int_equal(tarball_file(&t, "d/-rf\nx", fd, &file), 0);
    assert_int_equal(tarball_link(&t, "d/link", "../a", &st), 0);
    end(&t);
    closep(&fd);
    list = tar(s, "-t");
    assert_string_equal(list, "a\nempty\nd\nd/-rf\\nx\nd/link\n");
    free(list);
    free(tar(s, "-x"));
    sides_expect(s, "host/a", "text");
    sides_expect(s, "host/d/-rf\nx", "from a file");
    assert_int_equal(sides_stat(s, "host/d").st_mode, S_IFDIR | 0750);
    assert_true(S_ISLNK(sides_stat(s, "host/d/link").st_mode));
}

static void test_long_and_odd_names(void **state) {
    struct sides *s = *state;
    struct tarball t = begin(s);
    char name[600] = "", line[700];
    char *list;

    for (int i = 0; i < 50; i++)
        snprintf(name + 10 * (size_t)i, 11, "%s", "abcdefghi/");
    name[499] = 0;
    snprintf(line, sizeof line, "%s\nx\\377y\n", name);
    assert_int_equal(tarball_bytes(&t, name, "1", 1), 0);
    assert_int_equal(tarball_bytes(&t, "x\377y", "2", 1), 0);
    end(&t);
    list = tar(s, "-t");
    assert_non_null(list);
    assert_string_equal(list, line);
    free(list);
}

static void test_names_that_would_lead_out(void **state) {
    static const char *const bad[] = {"", "/", "/a", "..", "../a", "a/..", "a/../b", "./a", "a//b", "a/./b", "."};
    struct sides *s = *state;
    struct tarball t = begin(s);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (tarball_bytes(&t, bad[i], "x", 1) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(lseek(t.fd, 0, SEEK_CUR), 0);
    assert_int_equal(tarball_bytes(&t, "...", "x", 1), 0);
    assert_int_equal(tarball_bytes(&t, "-rf", "x", 1), 0);
    end(&t);
}

static void test_a_file_that_shrinks_or_grows(void **state) {
    struct sides *s = *state;
    struct tarball t = begin(s);
    struct stat st;
    char *list;
    int fd;

    sides_write(s, "content", "0123456789");
    fd = openat(s->top_fd, "content", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    st.st_size = 4;
    assert_int_equal(tarball_file(&t, "grown", fd, &st), 0);
    st.st_size = 1000;
    assert_int_equal(tarball_file(&t, "cut", fd, &st), 0);
    assert_int_equal(tarball_bytes(&t, "after", "x", 1), 0);
    end(&t);
    closep(&fd);
    list = tar(s, "-t");
    assert_string_equal(list, "grown\ncut\nafter\n");
    free(list);
    free(tar(s, "-x"));
    sides_expect(s, "host/grown", "0123");
    assert_int_equal(sides_stat(s, "host/cut").st_size, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tar_reads_it, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_long_and_odd_names, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_names_that_would_lead_out, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_shrinks_or_grows, sides_setup, sides_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
