/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/setup/doctor_print.h"
#include "jail/network/network.h"

enum { OUTPUT_MAX = 1024 * 1024 };

/* A desktop on which everything works; each test takes something away. */
static struct doctor_facts good(void) {
    return (struct doctor_facts){
        .native = {.landlock_abi = 7,
                   .idmap = NOT_TRIED,
                   .shared = NOT_TRIED,
                   .network_has = NETWORK_EVERYTHING,
                   .userns_clone = SWITCH_ABSENT,
                   .userns_max = 10000,
                   .userns_apparmor = SWITCH_ABSENT,
                   .cgroup = {.kind = CGROUP_V2, .can = {true, true, true, true, true}}},
        .major = 6,
        .minor = 12,
        .release = "6.12.0-amd64",
        .distro = "debian 13",
        .apt = true,
        .systemd = true,
        .lsm = "capability,landlock,yama",
        .self = "/usr/local/bin/bawn",
        .user = "ada",
        .uid = 1000,
        .subuid = true,
        .subgid = true,
        .workspace_path = "/home/ada/project",
    };
}

static struct doctor_facts without_userns(int code, bool cloned) {
    struct doctor_facts f = good();

    f.native.launch = code;
    f.native.launch_userns = true;
    f.native.launch_cloned = cloned;
    err_set(&f.native.launch_err, code, "create namespaces");
    return f;
}

static const struct check *check_named(const char *id) {
    for (size_t i = 0; i < n_checks; i++)
        if (str_eq(checks[i].id, id))
            return &checks[i];
    fail_msg("no check %s", id);
    return NULL;
}

static void assert_check(const struct doctor_facts *f, const char *id, enum verdict verdict, const char *part) {
    struct doctor_finding r = check_run(check_named(id), f);

    if (r.verdict != verdict || !strstr(r.value, part))
        fail_msg("%s: %s, '%s'", id, verdict_names[r.verdict], r.value);
}

/* The fixes that are offered, in order, with spaces between; and all their text. */
static void offered(const struct doctor_facts *f, struct buf *ids, struct buf *text) {
    for (size_t i = 0; i < n_fixes; i++)
        if (fix_needed(&fixes[i], f)) {
            buf_addf(ids, "%s%s", ids->len ? " " : "", fixes[i].id);
            fixes[i].text(f, text);
        }
}

static void assert_fixes(const struct doctor_facts *f, const char *want, const char *part) {
    CLEANUP(buf_done) struct buf ids = BUF_INIT(OUTPUT_MAX), text = BUF_INIT(OUTPUT_MAX);

    offered(f, &ids, &text);
    assert_string_equal(buf_str(&ids), want);
    if (!strstr(buf_str(&text), part))
        fail_msg("no \"%s\" in:\n%s", part, buf_str(&text));
}

static void assert_outcome(const struct doctor_facts *f, enum doctor_outcome outcome, int status) {
    struct doctor_run run;

    doctor_verdict(f, &run);
    assert_int_equal(run.outcome, outcome);
    assert_int_equal(run.status, status);
    assert_int_equal(outcome != RUNS_FULL, run.why[0] != 0);
}

static void a_good_host(void **state UNUSED) {
    struct doctor_facts f = good();
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

    for (size_t i = 0; i < n_checks; i++)
        assert_true(check_run(&checks[i], &f).verdict <= VERDICT_INFO);
    assert_outcome(&f, RUNS_FULL, 0);
    assert_fixes(&f, "", "");
    doctor_fix_text(&f, false, &out);
    assert_non_null(strstr(buf_str(&out), "Nothing is missing"));
}

static void ports_that_lead_out(void **state UNUSED) {
    struct doctor_facts f = good();

    assert_check(&f, "network", VERDICT_OK, "every TCP port (nftables tproxy), IPv4 and IPv6");
    f.native.network_has = NETWORK_EVERY_PORT;
    assert_check(&f, "network", VERDICT_OK, "IPv4 only");
    f.native.network_has = NETWORK_IPV6;
    f.native.network_rules = -EOPNOTSUPP;
    assert_check(&f, "network", VERDICT_WARN,
                 "only TCP ports 22 53 80 443 8080 8443 5432 3306 6379 27017 9418, IPv4 and IPv6: no nftables tproxy");
    f.native.network = -EPERM;
    assert_check(&f, "network", VERDICT_MISSING, "none: Operation not permitted");
    f.native.network = NOT_TRIED;
    assert_check(&f, "network", VERDICT_INFO, "not tried");
}

static void ids_are_unique(void **state UNUSED) {
    for (size_t i = 0; i < n_checks; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(checks[i].id, checks[k].id);
    for (size_t i = 0; i < n_fixes; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(fixes[i].id, fixes[k].id);
}

static void another_engine_is_recommended(void **state UNUSED) {
    struct doctor_facts f = good();

    f.better = "docker";
    assert_fixes(&f, "engine", "bawn run --engine docker -- COMMAND");
}

static void ubuntu_gets_a_profile_for_this_program(void **state UNUSED) {
    struct doctor_facts f = without_userns(-EACCES, true);

    f.native.userns_apparmor = 1;
    assert_check(&f, "userns", VERDICT_MISSING, "AppArmor");
    assert_outcome(&f, RUNS_WEAKER, 1);
    assert_fixes(
        &f, "apparmor-profile",
        "\nsudo tee /etc/apparmor.d/bawn <<'EOF'\n"
        "# Lets Bawn make user namespaces where AppArmor refuses them to programs without a profile (Ubuntu 23.10 and newer).\n"
        "abi <abi/4.0>,\n"
        "include <tunables/global>\n\n"
        "profile bawn \"/usr/local/bin/bawn{,d}\" flags=(unconfined) {\n"
        "  userns,\n"
        "  include if exists <local/bawn>\n"
        "}\n"
        "EOF\n"
        "sudo apparmor_parser -r /etc/apparmor.d/bawn\n");
    assert_fixes(&f, "apparmor-profile", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
    assert_fixes(&f, "apparmor-profile", "'sudo make install' installs one");
    f.apparmor_file = true;
    assert_fixes(&f, "apparmor-profile", "There is a profile at /etc/apparmor.d/bawn, but this program runs without it");
    f.self_by_others = true;
    assert_fixes(&f, "apparmor-profile", "WARNING: users other than root can replace");
}

/* What a path contains must not become a pattern, or end the quotes. */
static void the_profile_means_exactly_our_path(void **state UNUSED) {
    struct doctor_facts f = without_userns(-EACCES, true);

    f.native.userns_apparmor = 1;
    snprintf(f.self, sizeof f.self, "/home/a b/*{x}\"@/bawn");
    assert_fixes(&f, "apparmor-profile", "profile bawn \"/home/a b/\\*\\{x\\}\\\"\\@/bawn{,d}\" flags");
}

static void switches_get_sysctl_lines(void **state UNUSED) {
    struct doctor_facts f = without_userns(-EPERM, false);

    f.native.userns_clone = 0;
    assert_fixes(&f, "sysctl-userns-clone", "sudo sysctl -w kernel.unprivileged_userns_clone=1\n");
    assert_fixes(&f, "sysctl-userns-clone", "/etc/sysctl.d/60-bawn.conf");
    f = without_userns(-ENOSPC, false);
    f.native.userns_max = 0;
    assert_fixes(&f, "sysctl-max-userns", "sudo sysctl -w user.max_user_namespaces=15000\n");
    assert_outcome(&f, RUNS_WEAKER, 1);
}

static void containers_get_their_own_options(void **state UNUSED) {
    static const struct {
        enum container container;
        const char *part;
    } cases[] = {
        {CONTAINER_DOCKER, "docker run --security-opt seccomp=unconfined"},
        {CONTAINER_PODMAN, "podman run --security-opt"},
        {CONTAINER_KUBERNETES, "seccompProfile: {type: Unconfined}"},
        {CONTAINER_LXC, "security.nesting true"},
        {CONTAINER_OTHER, "docker run"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct doctor_facts f = without_userns(-EPERM, false);

        f.native.container = cases[i].container;
        f.native.filtered = true;
        assert_fixes(&f, "container-options", cases[i].part);
        assert_fixes(&f, "container-options", "WARNING");
        assert_check(&f, "container", VERDICT_INFO, container_names[cases[i].container]);
    }
}

static void root_of_a_container_is_told_to_be_a_user(void **state UNUSED) {
    struct doctor_facts f = good();

    f.uid = 0;
    f.native.root = true;
    f.native.container = CONTAINER_DOCKER;
    f.native.idmap = -EPERM;
    assert_outcome(&f, RUNS_WEAKER, 1);
    assert_fixes(&f, "user", "USER dev");
}

static void a_file_system_that_cannot_map(void **state UNUSED) {
    struct doctor_facts f = good();

    f.uid = 0;
    f.native.root = true;
    f.native.idmap = -EINVAL;
    assert_check(&f, "idmap", VERDICT_MISSING, "Invalid argument");
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
    assert_fixes(&f, "owner", "sudo -u \"$(stat -c %U /home/ada/project)\" bawn run");
}

static void no_landlock(void **state UNUSED) {
    struct doctor_facts f = good();
    struct doctor_run run;

    f.native.landlock_abi = 0;
    assert_check(&f, "landlock", VERDICT_MISSING, "none");
    assert_outcome(&f, RUNS_FULL, 0);
    doctor_verdict(&f, &run);
    assert_int_equal(run.n_announces, 1);
    assert_non_null(strstr(run.announces[0], "Landlock"));
    snprintf(f.lsm, sizeof f.lsm, "capability,yama");
    assert_fixes(&f, "landlock", "lsm=landlock,capability,yama");
    f.native.launch = -EPERM;
    f.native.launch_userns = true;
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
}

static void old_kernels(void **state UNUSED) {
    struct doctor_facts f = good();

    f.major = 5;
    f.minor = 10;
    f.native.landlock_abi = 0;
    f.native.launch = f.calls[CALL_MOUNT_SETATTR] = -ENOSYS;
    err_set(&f.native.launch_err, -ENOSYS, "make read-only");
    assert_check(&f, "kernel", VERDICT_MISSING, "5.12");
    assert_check(&f, "mount-api", VERDICT_MISSING, "mount_setattr");
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
    assert_fixes(&f, "kernel", "backports");
    f = good();
    f.minor = 1;
    f.native.landlock_abi = 2;
    assert_check(&f, "landlock", VERDICT_WARN, "truncated");
    assert_outcome(&f, RUNS_FULL, 0);
}

static void substitutes_are_no_reason_to_worry(void **state UNUSED) {
    struct doctor_facts f = good();

    f.calls[CALL_OPENAT2] = f.calls[CALL_CLONE3] = f.calls[CALL_CLOSE_RANGE] = f.calls[CALL_PIDFD] = -ENOSYS;
    assert_check(&f, "openat2", VERDICT_INFO, "5.6");
    assert_check(&f, "clone3", VERDICT_INFO, "5.3");
    assert_check(&f, "close-range", VERDICT_INFO, "5.9");
    assert_check(&f, "pidfd", VERDICT_INFO, "5.3");
    assert_outcome(&f, RUNS_FULL, 0);
}

static void no_seccomp_no_run(void **state UNUSED) {
    struct doctor_facts f = good();

    f.native.seccomp = -EOPNOTSUPP;
    assert_check(&f, "seccomp", VERDICT_MISSING, "");
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
    assert_fixes(&f, "kernel", "CONFIG_SECCOMP_FILTER=y");
}

static void cgroups_of_every_kind(void **state UNUSED) {
    struct doctor_facts f = good();
    struct doctor_run run;

    f.native.cgroup = (struct cgroup_host){.kind = CGROUP_V1, .can = {.cpu = true, .memory = true, .swap = true, .pids = true}};
    assert_check(&f, "cgroup", VERDICT_OK, "cpu memory pids");
    f.native.cgroup =
        (struct cgroup_host){.kind = CGROUP_SYSTEMD, .can = {.memory = true, .pids = true}, .why = "not all", .remedy = "do"};
    assert_check(&f, "cgroup", VERDICT_WARN, "memory pids; not all");
    assert_fixes(&f, "cgroup", "/etc/systemd/system/user@.service.d/delegate.conf");
    f.native.cgroup = (struct cgroup_host){.kind = CGROUP_NONE, .why = "no bus", .remedy = "do"};
    assert_check(&f, "cgroup", VERDICT_WARN, "none: no bus");
    assert_fixes(&f, "cgroup", "sudo loginctl enable-linger ada\n");
    doctor_verdict(&f, &run);
    assert_int_equal(run.status, 0);
    assert_int_equal(run.n_announces, 1);
    assert_non_null(strstr(run.announces[0], "memory by watchdog"));
    f.systemd = false;
    f.native.cgroup.remedy = "as root: mount something";
    assert_fixes(&f, "cgroup", "as root: mount something");
    f.native.container = CONTAINER_DOCKER;
    assert_fixes(&f, "cgroup", "--pids-limit");
}

static void swap_without_a_limit(void **state UNUSED) {
    struct doctor_facts f = good();

    f.swap = 2ull << 30;
    assert_check(&f, "swap", VERDICT_OK, "2 GiB");
    f.native.cgroup.can.swap = false;
    assert_check(&f, "swap", VERDICT_WARN, "2 GiB");
}

static void containers_inside(void **state) {
    struct doctor_facts f = good();

    assert_check(&f, "nested", VERDICT_OK, "available");
    f.nested_missing = "/usr/bin/crun";
    assert_check(&f, "nested", VERDICT_INFO, "no /usr/bin/crun");
    f = without_userns(-EPERM, false);
    assert_check(&f, "nested", VERDICT_INFO, "needs the full rung");
}

static void missing_programs(void **state UNUSED) {
    struct doctor_facts f = good();

    f.native.scope = -ENOENT;
    assert_check(&f, "scope", VERDICT_INFO, "No such file");
    assert_fixes(&f, "", "");
    f.native.cgroup.kind = CGROUP_SYSTEMD;
    assert_check(&f, "scope", VERDICT_WARN, "No such file");
    assert_fixes(&f, "programs", "bawn-scope must be");
    f.native.init = -EACCES;
    assert_check(&f, "init", VERDICT_MISSING, "Permission denied");
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
}

static void a_folder_that_cannot_be_a_workspace(void **state UNUSED) {
    struct doctor_facts f = good();
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

    f.workspace = err_set(&f.workspace_err, -EPERM, "your home would be inside");
    assert_check(&f, "workspace", VERDICT_MISSING, "your home");
    assert_outcome(&f, REFUSES, EXIT_SANDBOX);
    doctor_fix_text(&f, false, &out);
    assert_non_null(strstr(buf_str(&out), "your home would be inside"));
}

static void optional_fixes_come_last(void **state UNUSED) {
    struct doctor_facts f = good();
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

    f.subuid = false;
    snprintf(f.user, sizeof f.user, "a'b");
    doctor_fix_text(&f, false, &out);
    assert_non_null(strstr(buf_str(&out), "Nothing is missing"));
    assert_non_null(strstr(buf_str(&out), "(optional)"));
    assert_non_null(strstr(buf_str(&out), "'a'\\''b'")); /* as one word of a shell */
}

static void nobody_is_left_without_a_word(void **state UNUSED) {
    for (int cause = USERNS_FINE + 1; cause < USERNS_CAUSE_COUNT; cause++)
        assert_non_null(native_userns_why((enum userns_cause)cause));
    for (int cloned = 0; cloned < 2; cloned++)
        for (int container = 0; container < CONTAINER_COUNT; container++)
            for (int code = 1; code < 40; code++) {
                struct doctor_facts f = without_userns(-code, cloned);
                CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

                f.native.container = (enum container)container;
                doctor_fix_text(&f, false, &out);
                assert_true(str_starts(buf_str(&out), "# "));
                f.native.launch_userns = false;
                buf_clear(&out);
                doctor_fix_text(&f, false, &out);
                assert_true(str_starts(buf_str(&out), "# "));
            }
}

static json_t *parsed(const struct doctor_facts *f) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    json_error_t e;
    json_t *doc;

    doctor_json(f, &out);
    doc = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, &e);
    if (!doc)
        fail_msg("line %d: %s in:\n%s", e.line, e.text, buf_str(&out));
    return doc;
}

static int landlock_lacks(const json_t *doc) {
    const json_t *native = json_array_get(json_object_get(doc, "engines"), 0);

    return (int)json_array_size(json_object_get(json_array_get(json_object_get(native, "rungs"), RUNG_LANDLOCK), "lacks"));
}

static void json_for_programs(void **state UNUSED) {
    struct doctor_facts f = without_userns(-EACCES, true);
    const char *outcome, *rung;
    int status;
    json_t *doc;

    f.native.userns_apparmor = 1;
    snprintf(f.self, sizeof f.self, "/tmp/\"\n\x01/bawn");
    doc = parsed(&f);
    assert_int_equal(json_unpack(doc, "{s:{s:s,s:s,s:i}}", "run", "outcome", &outcome, "rung", &rung, "status", &status), 0);
    assert_string_equal(outcome, "weaker");
    assert_string_equal(rung, "landlock");
    assert_int_equal(status, 1);
    assert_int_equal(json_array_size(json_object_get(doc, "checks")), n_checks);
    assert_int_equal(json_object_size(json_object_get(doc, "guarantees")), GUARANTEE_COUNT);
    assert_int_equal(json_array_size(json_object_get(doc, "fixes")), 1);
    assert_int_equal(landlock_lacks(doc), 3); /* processes, disk, a kernel of its own */
    json_decref(doc);
    f.native.notify = -EBUSY;
    doc = parsed(&f);
    assert_int_equal(landlock_lacks(doc), 6); /* and what a network needs: names, ports, credentials */
    json_decref(doc);
}

static void colours_only_when_asked_for(void **state UNUSED) {
    struct doctor_facts f = without_userns(-EPERM, false);
    CLEANUP(buf_done) struct buf plain = BUF_INIT(OUTPUT_MAX), coloured = BUF_INIT(OUTPUT_MAX);

    snprintf(f.release, sizeof f.release, "6.12\033[2J");
    doctor_text(&f, false, &plain);
    doctor_text(&f, true, &coloured);
    assert_null(strchr(buf_str(&plain), '\033')); /* not even the one in the facts */
    assert_non_null(strstr(buf_str(&coloured), "\033[31mmissing"));
    assert_non_null(strstr(buf_str(&plain), "it will say: weaker sandbox (landlock rung)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_host),
        cmocka_unit_test(ports_that_lead_out),
        cmocka_unit_test(ids_are_unique),
        cmocka_unit_test(another_engine_is_recommended),
        cmocka_unit_test(ubuntu_gets_a_profile_for_this_program),
        cmocka_unit_test(the_profile_means_exactly_our_path),
        cmocka_unit_test(switches_get_sysctl_lines),
        cmocka_unit_test(containers_get_their_own_options),
        cmocka_unit_test(root_of_a_container_is_told_to_be_a_user),
        cmocka_unit_test(a_file_system_that_cannot_map),
        cmocka_unit_test(no_landlock),
        cmocka_unit_test(old_kernels),
        cmocka_unit_test(substitutes_are_no_reason_to_worry),
        cmocka_unit_test(no_seccomp_no_run),
        cmocka_unit_test(cgroups_of_every_kind),
        cmocka_unit_test(swap_without_a_limit),
        cmocka_unit_test(missing_programs),
        cmocka_unit_test(containers_inside),
        cmocka_unit_test(a_folder_that_cannot_be_a_workspace),
        cmocka_unit_test(optional_fixes_come_last),
        cmocka_unit_test(nobody_is_left_without_a_word),
        cmocka_unit_test(json_for_programs),
        cmocka_unit_test(colours_only_when_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
