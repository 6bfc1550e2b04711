/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on whatever hierarchies the machine has. The bombs go off only inside a group whose limits were read back.
 * With BAWN_CGROUP_HELPER set (the path of bawn-scope) systemd is asked too, where there is one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"
#include "os/process.h"

enum { MIB = 1024 * 1024, NOBODY = 65534 };

static const struct limits limits = {.cpus_milli = 500, .memory = 64 * MIB, .swap = 0, .pids = 20};

struct fixture {
    struct cgroup_host host;
    struct cgroup cg;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    *state = f;
    if (f)
        cgroup_probe(&f->host);
    return f ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    int r = cgroup_done(&f->cg);

    free(f);
    return r;
}

static void create(struct fixture *f, const struct limits *l) {
    char name[CGROUP_NAME_MAX];
    struct err err = {0};

    assert_int_equal(cgroup_name(name, &err), 0);
    if (cgroup_create(&f->cg, &f->host, l, name, getenv("BAWN_CGROUP_HELPER"), &err) < 0)
        fail_msg("%s", err.msg);
}

static void create_limited(struct fixture *f, const struct limits *l) {
    if (!f->host.can.memory || !f->host.can.pids || !f->host.can.cpu) {
        print_message("skip: needs a cgroup that can be limited: %s\n", f->host.why);
        skip();
    }
    create(f, l);
}

static int wait_for(pid_t pid) {
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t start_inside(const struct cgroup *cg, int (*body)(void)) {
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(cgroup_enter(cg, false) < 0 ? 99 : body());
    return pid;
}

static int body_memory_bomb(void) {
    char *p = mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; p != MAP_FAILED && i < 256 * MIB; i += 4096)
        p[i] = 1;
    return 7;
}

static int body_fork_bomb(void) {
    int refused = 0;

    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();

        if (pid == 0)
            for (;;)
                pause();
        refused += pid < 0 && errno == EAGAIN;
    }
    return refused;
}

static int body_spin(void) {
    for (volatile uint64_t i = 0; i < 400 * 1000 * 1000ull; i++)
        ;
    return 0;
}

static int body_sleep(void) {
    for (int i = 0; i < 5; i++)
        if (fork() == 0)
            break;
    for (;;)
        pause();
    return 0;
}

static void test_limits_are_read_back(void **state) {
    struct fixture *f = *state;
    struct cgroup cg;

    create_limited(f, &limits);
    cg = f->cg;
    assert_true(cg.enforces.cpu && cg.enforces.memory && cg.enforces.swap && cg.enforces.pids);
    assert_string_equal(cg.why, "");
    assert_true(cg.n >= 1);
    for (unsigned i = 0; i < cg.n; i++) {
        const struct cgroup_group *g = &cg.groups[i];

        if (g->controllers & CGROUP_MEMORY)
            assert_int_equal(cgroup_get(g->dir, g->unified ? "memory.max" : "memory.limit_in_bytes", NULL, 0), 64 * MIB);
        if (g->controllers & CGROUP_PIDS)
            assert_int_equal(cgroup_get(g->dir, "pids.max", NULL, 0), 20 + CGROUP_OURS);
        if (g->controllers & CGROUP_CPU)
            assert_int_equal(cgroup_get(g->dir, g->unified ? "cpu.max" : "cpu.cfs_quota_us", NULL, 0), 50000);
    }
    assert_int_equal(cgroup_done(&f->cg), 0);
    for (unsigned i = 0; i < cg.n; i++)
        assert_int_equal(access(cg.groups[i].path, F_OK), -1);
}

static void test_only_what_was_asked_for(void **state) {
    const struct limits few = {.cpus_milli = 4096 * 1000, .pids = 5};
    struct fixture *f = *state;

    create_limited(f, &few);
    assert_true(f->cg.enforces.pids);
    assert_false(f->cg.enforces.memory);
    assert_true(f->cg.enforces.cpu); /* without a group: no machine here has 4096 CPUs */
    for (unsigned i = 0; i < f->cg.n; i++)
        assert_int_equal(f->cg.groups[i].controllers & (CGROUP_CPU | CGROUP_MEMORY), 0);
}

static void test_same_name_twice_is_refused_and_undone(void **state) {
    struct fixture *f = *state;
    struct cgroup second = CGROUP_INIT;
    char name[CGROUP_NAME_MAX];
    struct err err;

    create_limited(f, &(struct limits){.pids = 5});
    cgroup_probe(&f->host);
    assert_int_equal(cgroup_name(name, &err), 0);
    assert_int_equal(cgroup_create(&second, &f->host, &limits, name, NULL, &err), -EEXIST);
    assert_int_equal(second.n, 0);
    for (unsigned i = 0; i < f->host.n; i++) { /* pids and cgroup2 belong to the first; cpu and memory must be gone */
        const struct cgroup_dir *d = &f->host.dirs[i];
        char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];

        snprintf(path, sizeof path, "%s/%s", d->path, name);
        assert_int_equal(access(path, F_OK) == 0, d->unified || (d->controllers & CGROUP_PIDS));
    }
}

static void test_memory_bomb(void **state) {
    struct fixture *f = *state;
    struct cgroup_usage usage;
    struct cgroup_hits hits;

    create_limited(f, &limits);
    assert_true(f->cg.enforces.memory && f->cg.enforces.swap);
    assert_int_equal(wait_for(start_inside(&f->cg, body_memory_bomb)), 128 + SIGKILL);
    cgroup_hits(&f->cg, &hits);
    assert_int_equal(hits.oom_kills, 1);
    assert_int_equal(hits.pids, 0);
    cgroup_usage(&f->cg, &usage);
    assert_true(usage.memory_peak <= 64 * MIB);
    assert_true(usage.memory_peak >= 32 * MIB || usage.memory_peak == 0); /* cgroup2 tells since kernel 5.19 */
}

static void test_fork_bomb(void **state) {
    struct fixture *f = *state;
    struct cgroup_hits hits;

    create_limited(f, &limits);
    assert_true(f->cg.enforces.pids);
    assert_int_equal(wait_for(start_inside(&f->cg, body_fork_bomb)), 80); /* 20 and our one: the parent and 20 children */
    cgroup_hits(&f->cg, &hits);
    assert_int_equal(hits.pids, 80);
    assert_int_equal(hits.oom_kills, 0);
    assert_int_equal(cgroup_done(&f->cg), 0); /* the children still hang in pause() */
}

static void test_cpu_is_throttled(void **state) {
    struct fixture *f = *state;
    struct cgroup_usage usage;

    create_limited(f, &(struct limits){.cpus_milli = 100});
    assert_true(f->cg.enforces.cpu);
    assert_int_equal(wait_for(start_inside(&f->cg, body_spin)), 0);
    cgroup_usage(&f->cg, &usage);
    assert_true(usage.throttled_us > 0);
}

static bool wait_until_inside(const struct cgroup *cg, pid_t pid) {
    while (cgroup_get(cg->groups[cg->n - 1].dir, "cgroup.procs", NULL, 0) == 0) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return false;
        usleep(100);
    }
    return true;
}

static void kill_and_check(struct cgroup *cg) {
    pid_t pid = start_inside(cg, body_sleep);

    assert_true(wait_until_inside(cg, pid));
    assert_int_equal(cgroup_done(cg), 0);
    assert_int_equal(wait_for(pid), 128 + SIGKILL);
}

static void test_kill(void **state) {
    struct fixture *f = *state;

    create_limited(f, &limits);
    kill_and_check(&f->cg);
}

static void test_kill_without_cgroup2(void **state) {
    struct fixture *f = *state;

    if (f->host.kind != CGROUP_HYBRID) {
        print_message("skip: needs a kernel with v1 controllers and cgroup2\n");
        skip();
    }
    f->host.n--;
    create(f, &limits);
    assert_false(f->cg.enforces.kill);
    assert_int_equal(cgroup_clone_fd(&f->cg), -1);
    kill_and_check(&f->cg);
}

static int shared_child(void *cg) {
    return cgroup_enter(cg, false) < 0 ? 99 : 3;
}

static void test_child_that_shares_memory_can_enter(void **state) {
    struct fixture *f = *state;
    pid_t pid;

    create_limited(f, &limits);
    pid = process_clone(shared_child, &f->cg, CLONE_VM | CLONE_VFORK, NULL);
    assert_true(pid > 0);
    assert_int_equal(wait_for(pid), 3);
}

static int body_am_i_in(void) {
    char text[CGROUP_TEXT_MAX], line[CGROUP_NAME_MAX + 2], name[CGROUP_NAME_MAX];
    int found = 0;

    snprintf(name, sizeof name, "bawn-%d-", (int)getppid());
    snprintf(line, sizeof line, "/%s", name);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0)
        return 98;
    for (char *p = text; (p = strstr(p, line)); p++)
        if (!str_starts(p + strcspn(p + 1, "/\n") + 1, "/")) /* the last part: a systemd scope has the same name */
            found++;
    return found;
}

static void test_clone_into_cgroup(void **state) {
    struct fixture *f = *state;
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
    pid_t pid;

    create_limited(f, &limits);
    if (cgroup_clone_fd(&f->cg) < 0) {
        print_message("skip: needs a kernel with cgroup2\n");
        skip();
    }
    args.cgroup = (uint64_t)cgroup_clone_fd(&f->cg);
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(cgroup_enter(&f->cg, true) < 0 ? 99 : body_am_i_in());
    assert_int_equal(wait_for(pid), f->cg.n);
}

/* 0 if an ordinary user without any bus gets nothing, and no error either. */
static int nobody_main(void) {
    struct cgroup_host host;
    struct cgroup cg = CGROUP_INIT;
    char name[CGROUP_NAME_MAX];
    struct err err;

    if (unsetenv("XDG_RUNTIME_DIR") || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
        return 1;
    cgroup_probe(&host);
    if (host.kind != CGROUP_NONE || host.can.memory || host.can.kill || !host.why || !host.remedy)
        return 2;
    if (cgroup_name(name, &err) < 0 || cgroup_create(&cg, &host, &limits, name, NULL, &err) < 0)
        return 3;
    if (cg.n || cg.enforces.cpu || cg.enforces.memory || cg.enforces.swap || cg.enforces.pids || cg.enforces.kill || !cg.why[0])
        return 4;
    return cgroup_sweep(&host) || cgroup_done(&cg) ? 5 : 0;
}

static void test_ordinary_user_gets_none(void **state UNUSED) {
    pid_t pid;

    if (geteuid() != 0) {
        print_message("skip: needs root\n");
        skip();
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(nobody_main());
    assert_int_equal(wait_for(pid), 0);
}

/* A supervisor that is killed while its sandbox runs. Tells the pid of the orphan through the pipe. */
static void doomed_supervisor(struct fixture *f, int to) {
    pid_t orphan;

    create(f, &limits);
    orphan = start_inside(&f->cg, body_sleep);
    if (wait_until_inside(&f->cg, orphan) && write(to, &orphan, sizeof orphan) == sizeof orphan &&
        write(to, &f->cg, sizeof f->cg) == sizeof f->cg)
        raise(SIGKILL);
    _exit(1);
}

static void assert_groups(const struct cgroup *cg, bool there) {
    for (unsigned i = 0; i < cg->n; i++)
        assert_int_equal(access(cg->groups[i].path, F_OK) == 0, there);
}

/* Other sandboxes on this machine sweep too, so what counts is what is there afterwards, not who removed it. */
static void test_sweep_ends_what_a_dead_supervisor_left(void **state) {
    struct fixture *f = *state;
    struct cgroup left;
    pid_t pid, orphan;
    int p[2];

    create_limited(f, &limits); /* of a living owner: it must stay */
    cgroup_probe(&f->host);     /* systemd, v2: this process has moved */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        doomed_supervisor(f, p[1]);
    close(p[1]);
    assert_int_equal(fd_read_some(p[0], &orphan, sizeof orphan), sizeof orphan);
    assert_int_equal(fd_read_some(p[0], &left, sizeof left), sizeof left);
    close(p[0]);
    assert_true(left.n >= 1);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0); /* dead; perhaps nobody ever reaps it */
    cgroup_sweep(&f->host);
    assert_groups(&left, false);
    assert_int_equal(wait_for(pid), 128 + SIGKILL);
    assert_int_equal(wait_for(orphan), 128 + SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ; /* its children */
    assert_groups(&f->cg, true);
}

static void test_names_that_prove_death(void **state UNUSED) {
    uint64_t ns = cgroup_pidns(), start = process_start_time(getpid());
    char own[CGROUP_NAME_MAX], text[CGROUP_NAME_MAX + 8];
    struct err err;
    pid_t gone = fork();

    if (gone == 0)
        _exit(0);
    wait_for(gone);
    assert_int_equal(cgroup_name(own, &err), 0);
    assert_false(cgroup_name_dead(own, ns));
    snprintf(text, sizeof text, "%s-7", own);
    assert_false(cgroup_name_dead(text, ns));
    snprintf(text, sizeof text, "bawn-%d-%" PRIu64 "-%" PRIu64, (int)getpid(), start + 1, ns);
    assert_true(cgroup_name_dead(text, ns)); /* the number was given to somebody else */
    snprintf(text, sizeof text, "bawn-%d-1-%" PRIu64 ".scope", (int)gone, ns);
    assert_true(cgroup_name_dead(text, ns));
    assert_false(cgroup_name_dead(text, ns + 1)); /* of another pid namespace: nothing is known */
    snprintf(text, sizeof text, "bawn-%d-1-%" PRIu64 "x", (int)gone, ns);
    assert_false(cgroup_name_dead(text, ns));
    assert_false(cgroup_name_dead("bawn-supervisor", ns));
    assert_false(cgroup_name_dead("bawn-1-2", ns));
}

static void test_controllers(void **state UNUSED) {
    assert_int_equal(cgroup_controllers_parse("cpu,cpuacct", ','), CGROUP_CPU);
    assert_int_equal(cgroup_controllers_parse("cpuset cpu io memory pids\n", ' '), CGROUP_CPU | CGROUP_MEMORY | CGROUP_PIDS);
    assert_int_equal(cgroup_controllers_parse("cpuset,net_cls", ','), 0);
    assert_int_equal(cgroup_controllers_parse("", ' '), 0);
}

/* A container without a cgroup namespace: only its part is mounted, but its own path is told from the top. */
static void test_partial_mount(void **state) {
    struct fixture *f = *state;
    const struct cgroup_dir *real = &f->host.dirs[0];
    struct cgroup_host found;
    char mountinfo[2 * CGROUP_PATH_MAX];
    bool v2;

    if (f->host.n == 0) {
        print_message("skip: needs a cgroup that can be limited: %s\n", f->host.why);
        skip();
    }
    v2 = real->unified;
    snprintf(mountinfo, sizeof mountinfo, "31 23 0:28 / /sys rw - sysfs sysfs rw\n36 31 0:33 /docker/abc %s rw - %s x rw,%s\n",
             real->path, v2 ? "cgroup2" : "cgroup",
             real->controllers & CGROUP_PIDS  ? "pids"
             : real->controllers & CGROUP_CPU ? "cpu"
                                              : "memory");
    for (int i = 0; i < 2; i++) {
        char own[256];

        snprintf(own, sizeof own, "%d:%s:/docker/abc%s\n", v2 ? 0 : 5,
                 v2                                ? ""
                 : real->controllers & CGROUP_PIDS ? "pids"
                 : real->controllers & CGROUP_CPU  ? "cpu"
                                                   : "memory",
                 i ? "d" : "");
        cgroup_locate(&found, NULL, own, mountinfo);
        assert_int_equal(found.n, i ? 0 : 1); /* abcd is not below abc */
        if (i == 0)
            assert_string_equal(found.dirs[0].path, real->path);
    }
}

static int file(int dir, const char *name) {
    int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    return fd < 0 ? fd : close(fd);
}

/* What the v2 back-end writes, in a directory that only looks like a group; and a file that forgets what it was told. */
static void test_v2_writes(void **state) {
    static const char *const files[] = {"memory.max", "memory.swap.max", "cpu.max", "pids.max", "memory.events", "pids.events"};
    struct fixture *f = *state;
    char dir[] = "/tmp/bawn-cgroup-XXXXXX", text[64];
    struct cgroup_group g = {.controllers = CGROUP_CPU | CGROUP_MEMORY | CGROUP_PIDS, .unified = true};
    struct cgroup_hits hits;

    assert_non_null(mkdtemp(dir));
    g.dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/dev/null", g.dir, "pids.max"), 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_int_equal(file(g.dir, files[i]), 0);
    cgroup_apply(&f->cg, &g, &limits);
    assert_true(f->cg.enforces.cpu && f->cg.enforces.memory && f->cg.enforces.swap);
    assert_false(f->cg.enforces.pids);
    assert_string_equal(f->cg.why, "pids.max does not keep the value 21");
    assert_true(fd_read_file_at(g.dir, "cpu.max", text, sizeof text) > 0);
    assert_string_equal(text, "50000 100000");
    assert_true(fd_read_file_at(g.dir, "memory.swap.max", text, sizeof text) > 0);
    assert_string_equal(text, "0");
    assert_int_equal(fd_write_file_at(g.dir, "memory.events", "low 0\noom 9\noom_kill 4\n"), 0);
    assert_int_equal(fd_write_file_at(g.dir, "pids.events", "max 12\n"), 0);
    cgroup_hits(&(struct cgroup){.n = 1, .groups = {g}}, &hits);
    assert_int_equal(hits.oom_kills, 4);
    assert_int_equal(hits.pids, 12);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_int_equal(unlinkat(g.dir, files[i], 0), 0);
    close(g.dir);
    rmdir(dir);
}

#define WITH(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(test_limits_are_read_back),
        WITH(test_only_what_was_asked_for),
        WITH(test_same_name_twice_is_refused_and_undone),
        WITH(test_memory_bomb),
        WITH(test_fork_bomb),
        WITH(test_cpu_is_throttled),
        WITH(test_kill),
        WITH(test_kill_without_cgroup2),
        WITH(test_child_that_shares_memory_can_enter),
        WITH(test_clone_into_cgroup),
        WITH(test_ordinary_user_gets_none),
        WITH(test_sweep_ends_what_a_dead_supervisor_left),
        WITH(test_names_that_prove_death),
        WITH(test_controllers),
        WITH(test_partial_mount),
        WITH(test_v2_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
