/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the host's files and links reach the sandbox's /etc/ssl/certs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "broker/ca/folder.h"
#include "os/fd.h"
#include "os/remove.h"

struct scene {
    char top[64], from[80];
    int from_fd, to_fd, top_fd;
};

static void put(int dirfd, const char *name, const char *text, mode_t mode) {
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void make_scene(struct scene *s) {
    snprintf(s->top, sizeof s->top, "/tmp/bawn-folder-XXXXXX");
    assert_ptr_equal(mkdtemp(s->top), s->top);
    snprintf(s->from, sizeof s->from, "%s/from", s->top);
    s->top_fd = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(s->top_fd, "from", 0755) + mkdirat(s->top_fd, "to", 0755), 0);
    s->from_fd = openat(s->top_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->to_fd = openat(s->top_fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void end_scene(struct scene *s) {
    assert_int_equal(remove_tree(AT_FDCWD, s->top), 0);
    close(s->from_fd);
    close(s->to_fd);
    close(s->top_fd);
}

/* "-> target" for a link, the content of a file, NULL for nothing. */
static const char *seen(const struct scene *s, const char *name, char out[static 300]) {
    ssize_t n = readlinkat(s->to_fd, name, out + 3, 290);

    if (n >= 0) {
        memcpy(out, "-> ", 3);
        out[3 + n] = 0;
        return out;
    }
    return fd_read_file_at(s->to_fd, name, out, 300) < 0 ? NULL : out;
}

static void test_files_and_links(void **state) {
    static const char *const skip[] = {"bundle.crt", NULL};
    char text[300], elsewhere[128];
    struct err err = {0};
    struct stat st;
    struct scene s;

    make_scene(&s);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", s.top);
    put(s.top_fd, "elsewhere", "outside", 0644);
    put(s.from_fd, "plain.pem", "plain", 0664);
    put(s.from_fd, "secret.pem", "secret", 0600);
    put(s.from_fd, "bundle.crt", "bundle", 0644);
    assert_int_equal(symlinkat("plain.pem", s.from_fd, "11111111.0"), 0);
    assert_int_equal(symlinkat(elsewhere, s.from_fd, "elsewhere.pem"), 0);
    assert_int_equal(symlinkat("../elsewhere", s.from_fd, "relative.pem"), 0);
    assert_int_equal(symlinkat("/usr/bin/env", s.from_fd, "usr.pem"), 0);
    assert_int_equal(symlinkat("/usr/../etc/passwd", s.from_fd, "dots.pem"), 0);
    assert_int_equal(symlinkat("/nonexistent", s.from_fd, "dangling.pem"), 0);
    assert_int_equal(mkdirat(s.from_fd, "folder", 0755), 0);
    assert_int_equal(mkfifoat(s.from_fd, "fifo", 0644), 0);

    assert_int_equal(folder_copy_certs(s.from, s.to_fd, -1, skip, &err), 0);
    assert_string_equal(seen(&s, "plain.pem", text), "plain");
    assert_int_equal(fstatat(s.to_fd, "plain.pem", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_string_equal(seen(&s, "11111111.0", text), "-> plain.pem");
    assert_string_equal(seen(&s, "elsewhere.pem", text), "outside");
    assert_string_equal(seen(&s, "relative.pem", text), "outside");
    assert_string_equal(seen(&s, "usr.pem", text), "-> /usr/bin/env");
    assert_int_equal(readlinkat(s.to_fd, "dots.pem", text, sizeof text), -1);
    assert_null(seen(&s, "secret.pem", text));
    assert_null(seen(&s, "bundle.crt", text));
    assert_null(seen(&s, "dangling.pem", text));
    assert_null(seen(&s, "folder", text));
    assert_null(seen(&s, "fifo", text));
    end_scene(&s);
}

/* Links that are the same have one inode, which cannot be changed; files, and links that lead elsewhere by now, have their own. */
static void test_like_another(void **state) {
    static const char *const skip[] = {NULL};
    static const struct {
        const char *name;
        bool shared;
    } rows[] = {{"same.0", true}, {"moved.0", false}, {"plain.pem", false}, {"new.0", false}};
    CLEANUP(closep) int like = -1;
    struct stat was, is;
    char text[300];
    struct err err = {0};
    struct scene s;

    make_scene(&s);
    assert_int_equal(mkdirat(s.top_fd, "like", 0755), 0);
    like = openat(s.top_fd, "like", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(s.from_fd, "plain.pem", "plain", 0644);
    put(s.from_fd, "other.pem", "other", 0644);
    assert_int_equal(symlinkat("plain.pem", s.from_fd, "same.0") + symlinkat("plain.pem", s.from_fd, "moved.0"), 0);
    assert_int_equal(folder_copy_certs(s.from, like, -1, skip, &err), 0);
    assert_int_equal(unlinkat(s.from_fd, "moved.0", 0) + symlinkat("other.pem", s.from_fd, "moved.0"), 0);
    assert_int_equal(symlinkat("other.pem", s.from_fd, "new.0"), 0);

    assert_int_equal(folder_copy_certs(s.from, s.to_fd, like, skip, &err), 0);
    assert_string_equal(seen(&s, "same.0", text), "-> plain.pem");
    assert_string_equal(seen(&s, "moved.0", text), "-> other.pem");
    assert_string_equal(seen(&s, "new.0", text), "-> other.pem");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool there = fstatat(like, rows[i].name, &was, AT_SYMLINK_NOFOLLOW) == 0;

        assert_int_equal(fstatat(s.to_fd, rows[i].name, &is, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(there && was.st_ino == is.st_ino, rows[i].shared);
    }
    end_scene(&s);
}

static void test_no_folder_is_no_failure(void **state) {
    static const char *const skip[] = {NULL};
    struct err err = {0};

    assert_int_equal(folder_copy_certs("/nonexistent", -1, -1, skip, &err), 0);
}

static void test_stamp(void **state) {
    char before[TRUST_STAMP_SIZE], after[TRUST_STAMP_SIZE], path[128];
    struct trust_source from;
    struct scene s;

    make_scene(&s);
    put(s.from_fd, "mine.pem", "one", 0644);
    snprintf(path, sizeof path, "%s/mine.pem", s.from);
    trust_find(path, &from);
    assert_string_equal(from.bundle, path);
    from.folder = s.from;
    trust_stamp(&from, before);
    trust_stamp(&from, after);
    assert_string_equal(before, after);
    put(s.from_fd, "mine.pem", "three", 0644);
    trust_stamp(&from, after);
    assert_string_not_equal(before, after);
    trust_find("/nonexistent/mine.pem", &from);
    assert_string_not_equal(from.bundle, "/nonexistent/mine.pem");
    trust_find("relative.pem", &from);
    assert_string_not_equal(from.bundle, "relative.pem");
    end_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_and_links),
        cmocka_unit_test(test_like_another),
        cmocka_unit_test(test_no_folder_is_no_failure),
        cmocka_unit_test(test_stamp),
    };

    umask(022);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
