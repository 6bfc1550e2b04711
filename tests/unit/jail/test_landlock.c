/* SPDX-License-Identifier: Apache-2.0 */
/* Every test restricts a child and looks from inside; the same action is shown to work without, or in the other mode. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "jail/fence/landlock.h"
#include "os/fd.h"

struct fixture {
    char dir[32];
    char ro[64], rw[64], other[64]; /* directories, each with a file "f" */
};

static void make_dir(const struct fixture *f, char path[64], const char *name) {
    CLEANUP(closep) int fd = -1;
    char file[80];

    snprintf(path, 64, "%s/%s", f->dir, name);
    snprintf(file, sizeof file, "%s/f", path);
    assert_int_equal(mkdir(path, 0755), 0);
    fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, "text", 4), 0);
}

static int setup(void **state) {
    static struct fixture f;

    snprintf(f.dir, sizeof f.dir, "/tmp/bawn-ll-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    make_dir(&f, f.ro, "ro");
    make_dir(&f, f.rw, "rw");
    make_dir(&f, f.other, "other");
    *state = &f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    return nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void need_abi(int abi) {
    if (landlock_abi() < abi) {
        print_message("skip: this kernel's Landlock has ABI %d, the test needs %d\n", landlock_abi(), abi);
        skip();
    }
}

/* Exit status of a child that restricts itself as given and then runs check(arg), which returns an errno or 0. */
static int restricted(const struct fixture *f, const struct landlock_opts *opts, int (*check)(void *), void *arg) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        const struct landlock_rule rules[] = {
            {.path = f->ro, .access = LANDLOCK_READ},
            {.path = f->rw, .access = LANDLOCK_WRITE},
            {.path = "/usr", .access = LANDLOCK_READ_EXEC},
            {.path = "/dev/null", .access = LANDLOCK_WRITE},
            {.path = "/nowhere/at/all", .access = LANDLOCK_READ, .optional = true},
        };
        struct err err;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            _exit(254);
        if (opts && landlock_restrict(rules, ARRAY_LEN(rules), opts, &err) < 0) {
            fprintf(stderr, "%s\n", err.msg);
            _exit(255);
        }
        _exit(check(arg));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct opening {
    const char *dir, *name;
    int flags;
};

static int check_open(void *arg) {
    const struct opening *o = arg;
    char path[100];

    snprintf(path, sizeof path, "%s/%s", o->dir, o->name);
    return open(path, o->flags | O_CLOEXEC, 0600) < 0 ? errno : 0;
}

static void files_follow_the_rules_with_every_abi(void **state) {
    const struct fixture *f = *state;
    struct {
        struct opening what;
        int want;
    } cases[] = {
        {{f->ro, "f", O_RDONLY}, 0},
        {{f->ro, "f", O_WRONLY}, EACCES},
        {{f->ro, "new", O_CREAT | O_RDWR}, EACCES},
        {{f->rw, "f", O_RDWR | O_TRUNC}, 0},
        {{f->rw, "new", O_CREAT | O_RDWR}, 0},
        {{f->other, "f", O_RDONLY}, EACCES},
        {{f->ro, "../other/f", O_RDONLY}, EACCES},
        {{f->dir, "", O_RDONLY | O_DIRECTORY}, EACCES},
        {{"/dev", "null", O_RDWR}, 0},
        {{"/dev", "zero", O_RDONLY}, EACCES},
        {{"/usr", "", O_RDONLY | O_DIRECTORY}, 0},
        {{"/etc", "passwd", O_RDONLY}, EACCES},
    };

    need_abi(1);
    for (int abi = 1; abi <= landlock_abi(); abi++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            assert_int_equal(restricted(f, NULL, check_open, &cases[i].what), 0);
            if (restricted(f, &(struct landlock_opts){.max_abi = abi}, check_open, &cases[i].what) != cases[i].want)
                fail_msg("ABI %d: open %s/%s is not %s", abi, cases[i].what.dir, cases[i].what.name, strerror(cases[i].want));
        }
}

static int check_truncate(void *path) {
    return truncate(path, 0) < 0 ? errno : 0;
}

static void truncation_needs_abi_3(void **state) {
    const struct fixture *f = *state;
    char path[80];

    need_abi(3);
    snprintf(path, sizeof path, "%s/f", f->ro);
    assert_int_equal(restricted(f, &(struct landlock_opts){.max_abi = 3}, check_truncate, path), EACCES);
    assert_int_equal(restricted(f, &(struct landlock_opts){.max_abi = 2}, check_truncate, path), 0);
}

static int check_move(void *arg) {
    const struct fixture *f = arg;
    char sub[80], from[80], to[96];

    snprintf(sub, sizeof sub, "%s/sub", f->rw);
    snprintf(from, sizeof from, "%s/f", f->rw);
    snprintf(to, sizeof to, "%s/f", sub);
    if (mkdir(sub, 0700) < 0 && errno != EEXIST)
        return 1;
    return rename(from, to) < 0 ? errno : rename(to, from) < 0 ? errno : 0;
}

static void moving_between_directories_needs_abi_2(void **state) {
    struct fixture *f = *state;

    need_abi(2);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_move, f), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){.max_abi = 1}, check_move, f), EXDEV);
}

static int check_exec(void *path) {
    execl(path, "true", NULL);
    return errno;
}

static void execution_is_a_right_of_its_own(void **state) {
    const struct fixture *f = *state;
    char copy[80];

    need_abi(1);
    snprintf(copy, sizeof copy, "%s/f", f->ro);
    assert_int_equal(chmod(copy, 0755), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_exec, (char[]){"/usr/bin/true"}), 0);
    assert_int_equal(restricted(f, NULL, check_exec, copy), ENOEXEC);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_exec, copy), EACCES);
}

/* errno of an ioctl on a device to which the rule grants the given access. */
static int ioctl_with(enum landlock_access access, int max_abi) {
    struct landlock_rule rule = {.path = "/dev/ptmx", .access = access};
    struct landlock_opts opts = {.max_abi = max_abi};
    struct err err;
    int n, fd, status;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (landlock_restrict(&rule, 1, &opts, &err) < 0)
            _exit(255);
        fd = open("/dev/ptmx", O_RDONLY | O_NOCTTY | O_CLOEXEC);
        _exit(fd < 0 ? 254 : ioctl(fd, TIOCGPTN, &n) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void device_ioctls_need_abi_5_and_a_write_rule(void **state) {
    (void)state;
    need_abi(5);
    assert_int_equal(ioctl_with(LANDLOCK_READ, 5), EACCES);
    assert_int_equal(ioctl_with(LANDLOCK_WRITE, 5), 0);
    assert_int_equal(ioctl_with(LANDLOCK_READ, 4), 0);
}

static int check_kill(void *arg) {
    return kill(*(pid_t *)arg, 0) < 0 ? errno : 0;
}

static void signals_stay_inside(void **state) {
    const struct fixture *f = *state;
    pid_t self = getpid();

    need_abi(6);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_kill, &self), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){.scope_signals = true}, check_kill, &self), EPERM);
}

static int check_attach(void *arg) {
    return ptrace(PTRACE_ATTACH, *(pid_t *)arg, NULL, NULL) < 0 ? errno : 0;
}

static void outside_processes_cannot_be_traced(void **state) {
    const struct fixture *f = *state;
    pid_t victim;

    need_abi(1);
    victim = fork();
    if (victim == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* or Yama would refuse the control */
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(victim, NULL, WUNTRACED), victim);
    assert_int_equal(restricted(f, NULL, check_attach, &victim), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_attach, &victim), EPERM);
    kill(victim, SIGKILL);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
}

static int check_abstract(void *arg) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, arg, sizeof(struct sockaddr_un)) < 0 ? errno : 0;
}

static void abstract_sockets_stay_inside(void **state) {
    const struct fixture *f = *state;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    need_abi(6);
    snprintf(sa.sun_path + 1, sizeof sa.sun_path - 1, "bawn-test-%d", getpid());
    assert_int_equal(bind(fd, (void *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_abstract, &sa), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){.scope_abstract = true}, check_abstract, &sa), EPERM);
}

static int check_tcp(void *arg) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, arg, sizeof(struct sockaddr_in)) < 0 ? errno : 0;
}

static int check_tcp_bind(void *arg) {
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)arg;
    return bind(fd, (void *)&sa, sizeof sa) < 0 ? errno : 0;
}

static void tcp_can_be_denied(void **state) {
    const struct fixture *f = *state;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof sa;

    need_abi(4);
    assert_int_equal(bind(fd, (void *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (void *)&sa, &len), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_tcp, &sa), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){0}, check_tcp_bind, NULL), 0);
    assert_int_equal(restricted(f, &(struct landlock_opts){.deny_tcp = true}, check_tcp, &sa), EACCES);
    assert_int_equal(restricted(f, &(struct landlock_opts){.deny_tcp = true}, check_tcp_bind, NULL), EACCES);
}

/* What landlock_restrict says to one rule, in a child; *msg is its message. */
static int verdict(struct landlock_rule rule, struct landlock_opts opts, char msg[static 200]) {
    int r, fds[2];
    struct err err = {0};
    pid_t pid;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        r = landlock_restrict(&rule, 1, &opts, &err);
        _exit(write(fds[1], err.msg, 199) == 199 ? -r : 255);
    }
    assert_int_equal(waitpid(pid, &r, 0), pid);
    assert_int_equal(read(fds[0], msg, 199), 199);
    msg[199] = 0;
    close(fds[0]);
    close(fds[1]);
    return WEXITSTATUS(r);
}

static void wrong_rules_fail_with_a_reason(void **state) {
    struct landlock_opts none = {0}, future = {.min_abi = INT_MAX};
    char msg[200];

    (void)state;
    need_abi(1);
    assert_int_equal(verdict((struct landlock_rule){.path = "/nowhere"}, none, msg), ENOENT);
    assert_non_null(strstr(msg, "'/nowhere'"));
    assert_int_equal(verdict((struct landlock_rule){.path = "/nowhere", .optional = true}, none, msg), 0);
    assert_int_equal(verdict((struct landlock_rule){.path = "/dev/null/x", .optional = true}, none, msg), 0);
    assert_int_equal(verdict((struct landlock_rule){.fd = 999}, none, msg), EBADF);
    assert_int_equal(verdict((struct landlock_rule){.path = "/usr"}, future, msg), EOPNOTSUPP);
    assert_non_null(strstr(msg, "too old"));
}

static int read_both(const char *below, const char *outside) {
    struct stat st;

    if (open(outside, O_RDONLY | O_CLOEXEC) >= 0 || stat(outside, &st) < 0)
        return 1;
    return open(below, O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static void a_rule_can_be_a_descriptor(void **state) {
    const struct fixture *f = *state;
    char below[80], outside[80];
    struct err err;
    int status;
    pid_t pid;

    need_abi(1);
    snprintf(below, sizeof below, "%s/f", f->ro);
    snprintf(outside, sizeof outside, "%s/f", f->other);
    pid = fork();
    if (pid == 0) {
        struct landlock_rule rule = {.fd = open(f->ro, O_PATH | O_DIRECTORY | O_CLOEXEC), .access = LANDLOCK_READ};

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (landlock_restrict(&rule, 1, &(struct landlock_opts){0}, &err) < 0)
            _exit(255);
        _exit(read_both(below, outside));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static size_t count(const char *const *list) {
    size_t n = 0;

    while (list[n])
        n++;
    return n;
}

static void what_is_missing_shrinks(void **state) {
    (void)state;
    assert_string_equal(landlock_missing(0)[0], "files are not fenced at all");
    for (int abi = 0; abi < 12; abi++)
        assert_true(count(landlock_missing(abi + 1)) <= count(landlock_missing(abi)));
    assert_true(count(landlock_missing(3)) > count(landlock_missing(6)));
    assert_non_null(strstr(landlock_missing(5)[0], "abstract"));
    assert_int_equal(count(landlock_missing(1000)), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_follow_the_rules_with_every_abi, setup, teardown),
        cmocka_unit_test_setup_teardown(truncation_needs_abi_3, setup, teardown),
        cmocka_unit_test_setup_teardown(moving_between_directories_needs_abi_2, setup, teardown),
        cmocka_unit_test_setup_teardown(execution_is_a_right_of_its_own, setup, teardown),
        cmocka_unit_test(device_ioctls_need_abi_5_and_a_write_rule),
        cmocka_unit_test_setup_teardown(signals_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(outside_processes_cannot_be_traced, setup, teardown),
        cmocka_unit_test_setup_teardown(abstract_sockets_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(tcp_can_be_denied, setup, teardown),
        cmocka_unit_test(wrong_rules_fail_with_a_reason),
        cmocka_unit_test_setup_teardown(a_rule_can_be_a_descriptor, setup, teardown),
        cmocka_unit_test(what_is_missing_shrinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
