/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/run/rundir.h"

struct scene {
    char top[40], runs[64];
};

static int setup(void **state) {
    static struct scene s;

    s = (struct scene){.top = "/tmp/bawn-test.XXXXXX"};
    if (!mkdtemp(s.top))
        return -1;
    snprintf(s.runs, sizeof s.runs, "%s/bawn/runs", s.top);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    const struct scene *s = *state;

    return remove_tree(AT_FDCWD, s->top);
}

static struct run_info info_of(const char *workspace, uint64_t begun, uint64_t ended) {
    return (struct run_info){.mode = WORKSPACE_DIRECT, .workspace = (char *)workspace, .begun_ns = begun, .ended_ns = ended};
}

/* Makes a run that is over. */
static void make_run(const struct scene *s, const char *name, const struct run_info *info) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err err = {0};

    assert_int_equal(rundir_create(s->runs, name, info, &rd, &err), 0);
}

/* How many names, hidden ones too. */
static size_t count_names(const char *path) {
    DIR *d = opendir(path);
    struct dirent *e;
    size_t n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        n += !str_eq(e->d_name, ".") && !str_eq(e->d_name, "..");
    closedir(d);
    return n;
}

static void test_what_is_written_is_read(void **state) {
    char *words[] = {"sh", "-c", "echo \xff 100% \"x\"\n\x1b[31m \xc3\xa9", "", NULL};
    const struct scene *s = *state;
    struct run_info info = {.mode = WORKSPACE_WORKTREE,
                            .workspace = "/home/u/caf\xc3\xa9 \xe9%41",
                            .begun_ns = 1789000000123456789u,
                            .ended_ns = 1789000001000000001u,
                            .status = 137,
                            .command = {words, 4, 5},
                            .branch = "bawn/x",
                            .named = true};
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err err = {0};

    make_run(s, "one", &info);
    assert_int_equal(rundir_open(s->runs, "one", false, &rd, &err), 0);
    assert_int_equal(rd.lock, -1);
    assert_string_equal(rd.name, "one");
    assert_true(str_ends(rd.path, "/bawn/runs/one"));
    assert_int_equal(rd.info.mode, WORKSPACE_WORKTREE);
    assert_string_equal(rd.info.workspace, info.workspace);
    assert_int_equal(rd.info.begun_ns, info.begun_ns);
    assert_int_equal(rd.info.ended_ns, info.ended_ns);
    assert_int_equal(rd.info.status, 137);
    assert_int_equal(rd.info.command.len, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(rd.info.command.v[i], words[i]);
    assert_string_equal(rd.info.branch, "bawn/x");
    assert_null(rd.info.base_commit);
    assert_true(rd.info.named);
}

static void test_save(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 5, 0);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT, again = RUNDIR_INIT;

    assert_int_equal(rundir_create(s->runs, "one", &info, &rd, NULL), 0);
    rd.info.ended_ns = 77;
    rd.info.status = 3;
    rd.info.base_commit = strdup("abc");
    assert_int_equal(rundir_save(&rd, NULL), 0);
    assert_int_equal(rundir_open(s->runs, "one", false, &again, NULL), 0);
    assert_int_equal(again.info.ended_ns, 77);
    assert_int_equal(again.info.status, 3);
    assert_string_equal(again.info.base_commit, "abc");
    assert_int_equal(count_names(rd.path), 2);
}

static void test_names(void **state) {
    static const char *const bad[] = {
        "",   ".x",  "-x",       "_x",  "a/b",
        "..", "a b", "\xc3\xa9", "a\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(rundir_create(s->runs, bad[i], &info, &rd, &err), -EINVAL);
        assert_int_equal(rundir_open(s->runs, bad[i], false, &rd, &err), -EINVAL);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    }
    make_run(s, "A.b-c_9", &info);
    assert_int_equal(rundir_create(s->runs, "A.b-c_9", &info, &rd, &err), -EEXIST);
    assert_non_null(strstr(err.msg, "A.b-c_9"));
    assert_int_equal(count_names(s->runs), 1); /* the attempt has left nothing */
    assert_int_equal(rundir_open(s->runs, "A.b-c_8", false, &rd, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "do you mean 'A.b-c_9'"));
}

static void test_names_from_the_workspace(void **state) {
    static const struct {
        const char *workspace, *stem;
    } table[] = {{"/home/u/my.project", "my-project-"},
                 {"/", "run-"},
                 {"/..hidden \xff!", "hidden----"},
                 {"/a/_-_", "run-"},
                 {"/x/0123456789012345678901234567890123456789tail", "0123456789012345678901234567890123456789-"}};
    const struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
        struct run_info info = info_of(table[i].workspace, 1, 2);

        assert_int_equal(rundir_create(s->runs, NULL, &info, &rd, NULL), 0);
        assert_true(str_starts(rd.name, table[i].stem));
        assert_int_equal(strlen(rd.name), strlen(table[i].stem) + 4);
        assert_int_equal(rundir_check_name(rd.name, NULL), 0);
    }
}

static void test_lock(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 0);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT, other = RUNDIR_INIT;
    CLEANUP(rundir_list_done) struct rundir_list l = {0}, later = {0};
    struct err err = {0};

    assert_int_equal(rundir_create(s->runs, "one", &info, &rd, &err), 0);
    assert_int_equal(rundir_open(s->runs, "one", true, &other, &err), -EBUSY);
    assert_int_equal(rundir_open(s->runs, "one", false, &other, &err), 0);
    assert_int_equal(rundir_remove(&other, &err), -EBUSY); /* and takes it */
    assert_int_equal(other.fd, -1);
    assert_int_equal(rundir_list(s->runs, NULL, &l, &err), 0);
    assert_true(l.n == 1 && l.v[0].busy);
    rundir_done(&rd);
    assert_int_equal(rundir_list(s->runs, NULL, &later, &err), 0);
    assert_true(later.n == 1 && !later.v[0].busy);
    assert_int_equal(rundir_open(s->runs, "one", true, &other, &err), 0);
}

static void test_list(void **state) {
    const struct scene *s = *state;
    struct run_info early = info_of("/w", 10, 20), late_end = info_of("/w", 11, 90), running = info_of("/w", 50, 0),
                    foreign = info_of("/v", 500, 600);
    CLEANUP(rundir_list_done) struct rundir_list all = {0}, mine = {0}, none = {0};
    struct err err = {0};

    assert_int_equal(rundir_list(s->runs, NULL, &none, &err), 0); /* there is no such folder yet */
    assert_int_equal(none.n, 0);
    make_run(s, "early", &early);
    make_run(s, "late-end", &late_end);
    make_run(s, "running", &running);
    make_run(s, "foreign", &foreign);
    assert_int_equal(rundir_list(s->runs, NULL, &all, &err), 0);
    assert_int_equal(all.n, 4);
    assert_int_equal(rundir_list(s->runs, "/w", &mine, &err), 0);
    assert_int_equal(mine.n, 3);
    assert_string_equal(mine.v[0].name, "late-end");
    assert_string_equal(mine.v[1].name, "running");
    assert_string_equal(mine.v[2].name, "early");
}

static void write_text(const char *folder, const char *name, const char *text) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", folder, name);
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void test_damage(void **state) {
#define REST ",\"begun_ns\":1,\"ended_ns\":2,\"status\":0,\"branch\":null,\"base_commit\":null,\"named\":false}"
#define HEAD "{\"version\":1,\"mode\":\"direct\",\"command\":[],"
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        HEAD "\"workspace\":\"w\"" REST,
        HEAD "\"workspace\":\"/%4\"" REST,
        HEAD "\"workspace\":\"/%zz\"" REST,
        HEAD "\"workspace\":\"/%00\"" REST,
        HEAD "\"workspace\":\"/\\u0000\"" REST,
        HEAD "\"workspace\":7" REST,
        HEAD
        "\"workspace\":\"/w\",\"begun_ns\":-1,\"ended_ns\":2,\"status\":0,\"branch\":null,\"base_commit\":null,\"named\":false}",
        "{\"version\":2,\"mode\":\"direct\",\"command\":[],\"workspace\":\"/w\"" REST,
        "{\"version\":1,\"mode\":\"odd\",\"command\":[],\"workspace\":\"/w\"" REST,
        "{\"version\":1,\"mode\":\"ro\",\"command\":[1],\"workspace\":\"/w\"" REST,
    };
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;

    assert_int_equal(rundir_create(s->runs, "one", &info, &rd, NULL), 0);
    for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
        CLEANUP(rundir_done) struct rundir again = RUNDIR_INIT;
        CLEANUP(rundir_list_done) struct rundir_list l = {0};
        bool good = i == ARRAY_LEN(bad);
        struct err err = {0};

        write_text(rd.path, "run.json", good ? HEAD "\"workspace\":\"/w\"" REST : bad[i]);
        assert_int_equal(rundir_open(s->runs, "one", false, &again, &err), good ? 0 : -EBADMSG);
        assert_int_equal(rundir_list(s->runs, NULL, &l, NULL), 0);
        assert_int_equal(l.n, good ? 1 : 0);
    }
}

/* What is no run: a folder without a description, a file, a link to a run. */
static void test_what_is_no_run(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(freep) char *link = str_dupf("%s/link", s->runs), *empty = str_dupf("%s/empty", s->runs);

    make_run(s, "one", &info);
    assert_int_equal(symlink("one", link), 0);
    assert_int_equal(mkdir(empty, 0700), 0);
    write_text(s->runs, "file", "x");
    assert_int_equal(rundir_list(s->runs, NULL, &l, NULL), 0);
    assert_int_equal(l.n, 1);
    assert_true(rundir_open(s->runs, "link", false, &rd, NULL) < 0);
    assert_true(rundir_open(s->runs, "file", false, &rd, NULL) < 0);
    assert_int_equal(rundir_open(s->runs, "empty", false, &rd, NULL), -ENOENT);
    assert_int_equal(rundir_create(s->runs, "file", &info, &rd, NULL), -EEXIST);
    assert_int_equal(rundir_create(s->runs, "link", &info, &rd, NULL), -EEXIST);
}

static void test_the_folder_must_be_ours(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(freep) char *link = str_dupf("%s/link", s->top);
    struct err err = {0};
    struct stat st;

    make_run(s, "one", &info);
    assert_int_equal(stat(s->runs, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(symlink(s->runs, link), 0);
    assert_in_set((LargestIntegralType)rundir_create(link, "two", &info, &rd, &err),
                  ((LargestIntegralType[]){(LargestIntegralType)-ELOOP, (LargestIntegralType)-ENOTDIR}), 2);
    assert_int_equal(chmod(s->runs, 0770), 0);
    assert_int_equal(rundir_create(s->runs, "two", &info, &rd, &err), -EPERM);
    assert_int_equal(rundir_open(s->runs, "one", false, &rd, &err), -EPERM);
    assert_int_equal(chmod(s->runs, 0700), 0);
    assert_int_equal(rundir_open(s->runs, "one", false, &rd, &err), 0);
    /* the same for somebody else, as whom we try "/", which is root's, or belongs to root for an ordinary user */
    if (geteuid() == 0) {
        assert_int_equal(chown(s->runs, 1, 1), 0);
        assert_int_equal(rundir_create(s->runs, "two", &info, &rd, &err), -EPERM);
    } else {
        assert_int_equal(rundir_create("/", "two", &info, &rd, &err), -EPERM);
    }
}

static void test_remove(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT, late = RUNDIR_INIT;

    assert_int_equal(rundir_create(s->runs, "one", &info, &rd, NULL), 0);
    assert_int_equal(mkdirat(rd.fd, "work", 0700), 0);
    assert_int_equal(mkdirat(rd.fd, "work/work", 0), 0);
    assert_int_equal(rundir_open(s->runs, "one", false, &late, NULL), 0);
    assert_int_equal(rundir_remove(&rd, NULL), 0);
    assert_int_equal(rd.fd, -1);
    assert_int_equal(count_names(s->runs), 0);
    assert_int_equal(rundir_open(s->runs, "one", true, &rd, NULL), -ENOENT);
    assert_true(rundir_remove(&late, NULL) < 0); /* it is gone; one that was made meanwhile must not go instead */
    make_run(s, "one", &info);
    assert_int_equal(count_names(s->runs), 1);
}

/* Left by kill -9: swept by the next creation, unless somebody is still removing. */
static void test_leftovers(void **state) {
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(freep)
    char *fresh = str_dupf("%s/.new-1", s->runs), *gone = str_dupf("%s/.gone-1", s->runs),
         *below = str_dupf("%s/.gone-1/upper", s->runs), *going = str_dupf("%s/.gone-2", s->runs);
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(closep) int held = -1;

    make_run(s, "one", &info);
    assert_int_equal(mkdir(fresh, 0700), 0);
    write_text(fresh, "run.json", "{");
    assert_int_equal(mkdir(gone, 0700), 0);
    assert_int_equal(mkdir(below, 0), 0);
    assert_int_equal(mkdir(going, 0700), 0);
    held = open(going, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(rundir_list(s->runs, NULL, &l, NULL), 0);
    assert_int_equal(l.n, 1);
    make_run(s, "two", &info);
    assert_int_equal(access(fresh, F_OK), -1);
    assert_int_equal(access(gone, F_OK), -1);
    assert_int_equal(access(going, F_OK), 0);
    closep(&held);
    make_run(s, "three", &info);
    assert_int_equal(count_names(s->runs), 3);
}

static void test_prune(void **state) {
    static const char *const kept[] = {"d5", "busy", "named", "other-mode", "other-workspace"};
    const struct scene *s = *state;
    CLEANUP(rundir_done) struct rundir busy = RUNDIR_INIT;
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    struct run_info info = info_of("/w", 1, 0);

    assert_int_equal(rundir_create(s->runs, "busy", &info, &busy, NULL), 0);
    info.named = true;
    make_run(s, "named", &info);
    info.named = false;
    info.mode = WORKSPACE_OVERLAY;
    make_run(s, "other-mode", &info);
    info = info_of("/v", 1, 0);
    make_run(s, "other-workspace", &info);
    for (uint64_t i = 2; i <= 5; i++) {
        CLEANUP(freep) char *name = str_dupf("d%d", (int)i);

        info = info_of("/w", i, 0);
        make_run(s, name, &info);
    }
    assert_int_equal(rundir_prune(s->runs, "/w", 1, NULL), 0);
    assert_int_equal(rundir_list(s->runs, NULL, &l, NULL), 0);
    assert_int_equal(l.n, ARRAY_LEN(kept));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        CLEANUP(freep) char *path = str_dupf("%s/%s", s->runs, kept[i]);

        assert_int_equal(access(path, F_OK), 0);
    }
}

/* Many at the same time, sweeping all the while: every one gets its folder. */
static void test_at_once(void **state) {
    enum { PROCESSES = 6, EACH = 20 };
    const struct scene *s = *state;
    struct run_info info = info_of("/w", 1, 2);
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int failed = 0;

    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            int r = 0;

            for (int k = 0; k < EACH && r == 0; k++) {
                CLEANUP(rundir_done) struct rundir kept = RUNDIR_INIT, dropped = RUNDIR_INIT;

                r = rundir_create(s->runs, NULL, &info, &kept, NULL);
                r = r < 0 ? r : rundir_create(s->runs, NULL, &info, &dropped, NULL);
                r = r < 0 ? r : rundir_remove(&dropped, NULL);
            }
            _exit(r == 0 ? 0 : 1);
        }
    for (int i = 0, status; i < PROCESSES; i++)
        failed += wait(&status) < 0 || status != 0;
    assert_int_equal(failed, 0);
    assert_int_equal(rundir_list(s->runs, "/w", &l, NULL), 0);
    assert_int_equal(l.n, PROCESSES * EACH);
    assert_int_equal(count_names(s->runs), PROCESSES * EACH);
}

static void test_folder(void **state UNUSED) {
    char *with[] = {"XDG_STATE_HOME=/state", NULL}, *without[] = {NULL};
    CLEANUP(freep) char *a = NULL, *b = NULL, *c = NULL;

    assert_int_equal(rundir_folder(with, NULL, &a, NULL), 0);
    assert_string_equal(a, "/state/bawn/runs");
    assert_int_equal(rundir_folder(without, "/tmp", &b, NULL), 0);
    assert_string_equal(b, "/tmp/.local/state/bawn/runs");
    assert_int_equal(rundir_folder(without, "/nonexistent", &c, NULL), 0);
    assert_null(c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_what_is_written_is_read),
        CASE(test_save),
        CASE(test_names),
        CASE(test_names_from_the_workspace),
        CASE(test_lock),
        CASE(test_list),
        CASE(test_damage),
        CASE(test_what_is_no_run),
        CASE(test_the_folder_must_be_ours),
        CASE(test_remove),
        CASE(test_leftovers),
        CASE(test_prune),
        CASE(test_at_once),
        cmocka_unit_test(test_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
