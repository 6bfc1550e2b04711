/* SPDX-License-Identifier: Apache-2.0 */
/* The project's file where openat2 is missing (Linux < 5.6, or a filter that hides it): the same answers. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "scene.h"

#include "config/load/project.h"

static void test_plain(void **state) {
    CLEANUP(project_done) struct project p = {0};
    struct scene *sc = *state;

    assert_int_equal(project_read(sc->workspace, &p, &sc->err), 0);
    scene_write(sc, PROJECT, "{}");
    assert_int_equal(project_read(sc->workspace, &p, &sc->err), 1);
    assert_string_equal(p.workspace, sc->workspace);
    assert_string_equal(p.hash, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

static void refused(struct scene *sc, const char *part) {
    CLEANUP(project_done) struct project p = {0};

    assert_int_equal(project_read(sc->workspace, &p, &sc->err), -EINVAL);
    has_text(sc->err.msg, part);
    assert_null(p.doc.root);
}

static void test_symlinks(void **state) {
    struct scene *sc = *state;
    char folder[128], file[160], target[128];

    scene_write(sc, "elsewhere/config.json", "{}");
    snprintf(target, sizeof target, "%s/elsewhere", sc->top);
    snprintf(folder, sizeof folder, "%s/.bawn", sc->workspace);
    snprintf(file, sizeof file, "%s/config.json", folder);
    assert_int_equal(symlink(target, folder), 0);
    refused(sc, "a symbolic link is not followed");
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink("../../elsewhere/config.json", file), 0);
    refused(sc, "a symbolic link is not followed");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    refused(sc, "not a regular file");
}

static void test_file_as_folder(void **state) {
    struct scene *sc = *state;

    scene_write(sc, "work/.bawn", "x");
    refused(sc, "not a regular file");
}

static void hide_openat2(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void test_openat2_is_hidden(void **state) {
    hide_openat2();
    assert_int_equal(syscall(SYS_openat2, -1, "", NULL, 0), -1);
    assert_int_equal(errno, ENOSYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_plain),          SCENE_TEST(test_symlinks),
        SCENE_TEST(test_file_as_folder), cmocka_unit_test(test_openat2_is_hidden), /* from here on for the whole process */
        SCENE_TEST(test_plain),          SCENE_TEST(test_symlinks),
        SCENE_TEST(test_file_as_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
