/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "engine/native/native.h"
#include "engine/native/probe.h"
#include "os/fd.h"

enum { LIMITS = ENFORCES_CPU | ENFORCES_MEMORY | ENFORCES_PIDS };

/* A host where everything works, for an ordinary user; the tests take one thing away. */
static struct native_facts good(void) {
    return (struct native_facts){
        .landlock_abi = 7,
        .idmap = NOT_TRIED,
        .shared = NOT_TRIED,
        .userns_clone = SWITCH_ABSENT,
        .userns_max = 10000,
        .userns_apparmor = SWITCH_ABSENT,
        .cgroup = {.kind = CGROUP_V2, .can = {true, true, true, true, true}},
    };
}

static struct native_facts refused(int code, bool cloned) {
    struct native_facts f = good();

    f.launch = code;
    f.launch_userns = true;
    f.launch_cloned = cloned;
    err_set(&f.launch_err, code, "create namespaces");
    return f;
}

static void assert_rungs(const struct native_facts *f, bool full, bool landlock) {
    struct engine_state s[RUNG_COUNT];

    native_judge(f, s);
    assert_int_equal(s[RUNG_FULL].available, full);
    assert_int_equal(s[RUNG_LANDLOCK].available, landlock);
    for (int i = 0; i < RUNG_COUNT; i++)
        if (!s[i].available) {
            assert_int_equal(s[i].keeps, 0);
            assert_true(s[i].why[0]);
        }
}

static void assert_cause(const struct native_facts *f, enum userns_cause cause) {
    assert_int_equal(native_userns_cause(f), cause);
    assert_rungs(f, false, true);
}

static void everything_works(void **state UNUSED) {
    struct native_facts f = good();
    struct engine_state s[RUNG_COUNT];

    assert_rungs(&f, true, true);
    native_judge(&f, s);
    assert_int_equal(s[RUNG_FULL].keeps, engine_native.can_keep);
    assert_string_equal(s[RUNG_FULL].why, "");
    assert_string_equal(s[RUNG_FULL].remedy, "");
    assert_int_equal(native_userns_cause(&f), USERNS_FINE);
}

static void the_landlock_rung_does_not_claim_what_it_lacks(void **state UNUSED) {
    struct native_facts f = good();
    struct engine_state s[RUNG_COUNT];

    native_judge(&f, s);
    assert_int_equal(s[RUNG_LANDLOCK].keeps, engine_native.can_keep & ~(unsigned)(ENFORCES_PROCESSES | ENFORCES_DISK));
    f.notify = -EBUSY; /* no guard that makes sockets: no network, and so no rules for it */
    native_judge(&f, s);
    assert_int_equal(s[RUNG_LANDLOCK].keeps,
                     engine_native.can_keep & ~(unsigned)(ENFORCES_PROCESSES | ENFORCES_DISK | ENFORCES_NAMES | ENFORCES_PORTS |
                                                          ENFORCES_CREDENTIALS));
    assert_non_null(strstr(s[RUNG_LANDLOCK].why, "another program"));
    f.landlock_abi = 2; /* no fence against truncate(2) */
    native_judge(&f, s);
    assert_false(s[RUNG_LANDLOCK].keeps & ENFORCES_FILES);
    assert_true(s[RUNG_FULL].keeps & ENFORCES_FILES);
    assert_non_null(strstr(s[RUNG_LANDLOCK].why, "truncated"));
}

/* What is denied, and the best of what is left. */
static void the_best_combination_is_taken(void **state UNUSED) {
    const unsigned rules = ENFORCES_NAMES | ENFORCES_PORTS | ENFORCES_CREDENTIALS, full = engine_native.can_keep;
    const struct {
        int launch, shared, notify;
        enum rung best;
        unsigned lacks;
    } hosts[] = {
        {0, NOT_TRIED, 0, RUNG_FULL, 0},
        {0, NOT_TRIED, -EBUSY, RUNG_FULL, 0},
        {-EPERM, 0, 0, RUNG_SHARED_NET, 0},
        {-EPERM, 0, -EBUSY, RUNG_SHARED_NET, rules},
        {-EPERM, -EPERM, 0, RUNG_LANDLOCK, ENFORCES_PROCESSES | ENFORCES_DISK},
        {-EPERM, NOT_TRIED, -EBUSY, RUNG_LANDLOCK, ENFORCES_PROCESSES | ENFORCES_DISK | rules},
    };

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        struct native_facts f = hosts[i].launch ? refused(hosts[i].launch, true) : good();
        struct engine_state s[RUNG_COUNT];

        f.shared = hosts[i].shared;
        f.notify = hosts[i].notify;
        native_judge(&f, s);
        assert_int_equal(native_best(s), hosts[i].best);
        assert_int_equal(s[hosts[i].best].keeps, full & ~hosts[i].lacks);
        assert_int_equal(native_userns_cause(&f) == USERNS_NETWORK, hosts[i].shared == 0);
    }
}

static void ubuntu_restricts_by_apparmor(void **state UNUSED) {
    struct native_facts f = refused(-EACCES, true);

    f.userns_apparmor = 1;
    f.userns_clone = 1;
    assert_cause(&f, USERNS_APPARMOR);
    f.root = true; /* not restricted by it, so somebody else is to blame */
    assert_cause(&f, USERNS_UNKNOWN);
}

static void debian_switches_them_off(void **state UNUSED) {
    struct native_facts f = refused(-EPERM, false);

    f.userns_clone = 0;
    assert_cause(&f, USERNS_CLONE);
    f.userns_clone = 1;
    assert_cause(&f, USERNS_UNKNOWN);
}

static void none_allowed_or_no_more(void **state UNUSED) {
    struct native_facts f = refused(-EPERM, false), used_up = refused(-ENOSPC, false);

    f.userns_max = 0;
    f.container = CONTAINER_DOCKER; /* the number says more than the place */
    assert_cause(&f, USERNS_MAX);
    assert_cause(&used_up, USERNS_MAX);
}

static void a_container_or_a_filter_refuses(void **state UNUSED) {
    struct native_facts f = refused(-EPERM, false);

    f.filtered = true;
    assert_cause(&f, USERNS_FILTER);
    f.container = CONTAINER_PODMAN;
    f.userns_apparmor = 1; /* the host's, seen from inside */
    assert_cause(&f, USERNS_CONTAINER);
}

static void the_kernel_has_none(void **state UNUSED) {
    struct native_facts f = refused(-EINVAL, false);

    assert_cause(&f, USERNS_KERNEL);
}

static void root_without_ids_or_capabilities(void **state UNUSED) {
    struct native_facts f = refused(-EPERM, false), mapping = good();

    f.root = true;
    f.ids = -EPERM;
    assert_cause(&f, USERNS_IDS);
    mapping.root = true;
    mapping.idmap = -EPERM; /* docker's root: no CAP_SYS_ADMIN */
    assert_cause(&mapping, USERNS_IDS);
    mapping.idmap = -EINVAL; /* only this file system cannot: a matter of the workspace */
    assert_rungs(&mapping, true, true);
}

static void other_failures_are_no_reason_to_weaken(void **state UNUSED) {
    struct native_facts f = good();

    f.launch = -ENOSYS; /* no fsopen */
    err_set(&f.launch_err, -ENOSYS, "sandbox root: mount tmpfs: Function not implemented");
    assert_int_equal(native_userns_cause(&f), USERNS_FINE);
    assert_rungs(&f, false, false);
}

static void without_landlock_only_the_full_rung(void **state UNUSED) {
    struct native_facts f = good(), neither = refused(-EPERM, false);
    struct engine_state s[RUNG_COUNT];

    f.landlock_abi = 0;
    assert_rungs(&f, true, false);
    native_judge(&f, s);
    assert_non_null(strstr(s[RUNG_FULL].why, "second fence"));
    neither.landlock_abi = 0;
    assert_rungs(&neither, false, false);
}

static void nothing_without_its_base(void **state UNUSED) {
    struct native_facts f = good();

    f.seccomp = -EOPNOTSUPP;
    assert_rungs(&f, false, false);
    f = good();
    f.init = -ENOENT;
    assert_rungs(&f, false, false);
    f = good();
    f.memfd = -ENOSYS;
    assert_rungs(&f, false, false);
}

static unsigned kept(const struct native_facts *f) {
    struct engine_state s[RUNG_COUNT];

    native_judge(f, s);
    assert_int_equal(s[RUNG_FULL].keeps & LIMITS, s[RUNG_LANDLOCK].keeps & LIMITS);
    assert_int_equal((s[RUNG_FULL].keeps & LIMITS) != LIMITS, s[RUNG_FULL].why[0] != 0);
    assert_int_equal((s[RUNG_FULL].keeps & LIMITS) != LIMITS, s[RUNG_FULL].remedy[0] != 0);
    return s[RUNG_FULL].keeps & LIMITS;
}

static void limits_are_what_the_cgroup_enforces(void **state UNUSED) {
    struct native_facts f = good();

    assert_int_equal(kept(&f), LIMITS);
    f.cgroup = (struct cgroup_host){.kind = CGROUP_NONE, .why = "no", .remedy = "do"};
    assert_int_equal(kept(&f), 0);
    f.cgroup = (struct cgroup_host){.kind = CGROUP_V1, .can = {.pids = true}, .why = "no", .remedy = "do"};
    assert_int_equal(kept(&f), ENFORCES_PIDS);
    f.cgroup = (struct cgroup_host){.kind = CGROUP_SYSTEMD, .can = {.memory = true, .pids = true}, .why = "no", .remedy = "do"};
    assert_int_equal(kept(&f), ENFORCES_MEMORY | ENFORCES_PIDS);
    f.scope = -ENOENT; /* nobody to ask systemd */
    assert_int_equal(kept(&f), 0);
    f.cgroup = (struct cgroup_host){.kind = CGROUP_SYSTEMD, .can = {true, true, true, true, true}};
    assert_int_equal(kept(&f), 0);
}

static void containers_are_recognised(void **state UNUSED) {
    static const struct {
        const char *word, *group;
        enum container is;
    } cases[] = {
        {"", "", CONTAINER_NO},
        {"", "0::/user.slice/user-1000.slice/session-2.scope\n", CONTAINER_NO},
        {"", "0::/system.slice/docker.service\n", CONTAINER_NO},
        {"", "4:memory:/docker/0123abcd\n", CONTAINER_DOCKER},
        {"", "0::/system.slice/docker-0123abcd.scope\n", CONTAINER_DOCKER},
        {"", "0::/kubepods.slice/kubepods-burstable.slice\n", CONTAINER_KUBERNETES},
        {"docker", "0::/\n", CONTAINER_DOCKER},
        {"podman\n", "0::/\n", CONTAINER_PODMAN},
        {"lxc", "0::/\n", CONTAINER_LXC},
        {"systemd-nspawn", "0::/\n", CONTAINER_NSPAWN},
        {"oci", "0::/\n", CONTAINER_OTHER},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(container_guess(cases[i].word, cases[i].group), cases[i].is);
}

/* Everything about this process that an attempt could spoil. */
struct self {
    uid_t uid[3];
    int securebits, dumpable, no_new_privs, seccomp, next_fd;
    char mounts[256];
};

static struct self self_now(void) {
    struct self s = {.securebits = prctl(PR_GET_SECUREBITS),
                     .dumpable = prctl(PR_GET_DUMPABLE),
                     .no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
                     .seccomp = prctl(PR_GET_SECCOMP)};

    getresuid(&s.uid[0], &s.uid[1], &s.uid[2]);
    s.next_fd = dup(0);
    close(s.next_fd);
    assert_true(readlink("/proc/self/ns/mnt", s.mounts, sizeof s.mounts - 1) > 0);
    return s;
}

static void trying_leaves_nothing_behind(void **state UNUSED) {
    struct self before = self_now(), after;
    struct native_facts f;

    native_look(&f);
    after = self_now();
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(f.root, getuid() == 0);
    assert_true(f.launch <= 0 && f.seccomp <= 0);
    assert_int_equal(f.launch < 0, f.launch_err.msg[0] != 0);
}

static void the_engine_lists_its_rungs(void **state UNUSED) {
    struct engine_state s[RUNG_COUNT];
    const char *names[RUNG_COUNT];

    assert_int_equal(native_probe(s, names, 1), 1);
    assert_int_equal(native_probe(s, names, RUNG_COUNT), RUNG_COUNT);
    assert_string_equal(names[0], "full");
    assert_string_equal(names[1], "shared-net");
    assert_string_equal(names[2], "landlock");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_works),
        cmocka_unit_test(the_landlock_rung_does_not_claim_what_it_lacks),
        cmocka_unit_test(the_best_combination_is_taken),
        cmocka_unit_test(ubuntu_restricts_by_apparmor),
        cmocka_unit_test(debian_switches_them_off),
        cmocka_unit_test(none_allowed_or_no_more),
        cmocka_unit_test(a_container_or_a_filter_refuses),
        cmocka_unit_test(the_kernel_has_none),
        cmocka_unit_test(root_without_ids_or_capabilities),
        cmocka_unit_test(other_failures_are_no_reason_to_weaken),
        cmocka_unit_test(without_landlock_only_the_full_rung),
        cmocka_unit_test(nothing_without_its_base),
        cmocka_unit_test(limits_are_what_the_cgroup_enforces),
        cmocka_unit_test(containers_are_recognised),
        cmocka_unit_test(trying_leaves_nothing_behind),
        cmocka_unit_test(the_engine_lists_its_rungs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
