/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the host to findings, and to what `bawn run` would do. Pure. */
#include <errno.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "jail/fence/landlock.h"
#include "jail/network/network.h"
#include "ops/doctor/doctor.h"

const char *const verdict_names[VERDICT_COUNT] = {"ok", "info", "warn", "missing"};
const char *const doctor_outcome_names[OUTCOME_COUNT] = {"full", "weaker", "refused"};

/* remedy: NULL or "" if nothing has to be done. */
static void PRINTF_LIKE(4, 5) say(struct doctor_finding *r, enum verdict verdict, const char *remedy, const char *fmt, ...) {
    va_list ap;

    r->verdict = verdict;
    snprintf(r->remedy, sizeof r->remedy, "%s", remedy ? remedy : "");
    va_start(ap, fmt);
    vsnprintf(r->value, sizeof r->value, fmt, ap);
    va_end(ap);
}

/* error: 0 or -errno. */
static void judge_error(struct doctor_finding *r, int error, const char *good, enum verdict bad, const char *remedy) {
    say(r, error == 0 ? VERDICT_OK : bad, error < 0 ? remedy : NULL, "%s", error == 0 ? good : strerror(-error));
}

bool doctor_older_than(const struct doctor_facts *f, unsigned major, unsigned minor) {
    return f->major < major || (f->major == major && f->minor < minor);
}

static void check_kernel(const struct doctor_facts *f, struct doctor_finding *r) {
    if (doctor_older_than(f, 5, 12))
        say(r, VERDICT_MISSING, "boot Linux 5.12 or newer (6.12 or newer for every fence)", "Linux %s; 5.12 is needed",
            f->release);
    else if (doctor_older_than(f, 5, 13))
        say(r, VERDICT_WARN, "boot Linux 5.13 or newer", "Linux %s has no Landlock; 5.13 has", f->release);
    else
        say(r, VERDICT_OK, NULL, "Linux %s", f->release);
}

static void check_userns(const struct doctor_facts *f, struct doctor_finding *r) {
    struct engine_state rungs[RUNG_COUNT];

    if (native_userns_cause(&f->native) == USERNS_FINE) {
        say(r, VERDICT_OK, NULL, "%s%s", f->native.root ? "can be made, with unprivileged ids" : "can be made by this user",
            f->native.userns_apparmor == 1 && !f->native.root ? ", by an AppArmor profile" : "");
        return;
    }
    native_judge(&f->native, rungs);
    say(r, VERDICT_MISSING, rungs[RUNG_FULL].remedy, "%s", native_userns_why(native_userns_cause(&f->native)));
}

static void check_container(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->native.container == CONTAINER_NO)
        say(r, VERDICT_OK, NULL, f->native.filtered ? "none, but a system call filter is around this process" : "none");
    else
        say(r, VERDICT_INFO, NULL, "%s%s", container_names[f->native.container],
            f->native.filtered ? ", with a system call filter" : "");
}

static void check_root(const struct doctor_facts *f, struct doctor_finding *r) {
    const struct native_facts *n = &f->native;

    if (n->launch == 0)
        say(r, VERDICT_OK, NULL, "namespaces, ids, tmpfs, devpts and proc work");
    else if (!n->launch_userns && n->container != CONTAINER_NO)
        say(r, VERDICT_MISSING, "start the container with the options that 'bawn doctor --fix' prints", "%s", n->launch_err.msg);
    else
        say(r, VERDICT_MISSING, NULL, "%s", n->launch_err.msg);
}

static void check_mount_api(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->calls[CALL_MOUNT_API] < 0 || f->calls[CALL_MOUNT_SETATTR] < 0)
        say(r, VERDICT_MISSING,
            "boot Linux 5.12 or newer; in a container, update the container engine, whose filter does not know the calls",
            "no %s", f->calls[CALL_MOUNT_API] < 0 ? "fsopen, move_mount" : "mount_setattr");
    else
        say(r, VERDICT_OK, NULL, "fsopen, move_mount and mount_setattr");
}

static void check_idmap(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->native.idmap == NOT_TRIED)
        say(r, VERDICT_OK, NULL, "not needed: only root's runs use it");
    else if (f->workspace < 0)
        say(r, VERDICT_INFO, NULL, "not tried: the current directory cannot be a workspace");
    else if (f->native.idmap < 0)
        say(r, VERDICT_MISSING, "run Bawn as the owner of the files, or keep them on ext4, xfs, btrfs or tmpfs",
            "not for the current directory: %s", strerror(-f->native.idmap));
    else
        say(r, VERDICT_OK, NULL, "work for the current directory");
}

static void check_overlay(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->native.overlay == NOT_TRIED)
        say(r, VERDICT_INFO, NULL, "not tried: no user namespace");
    else
        judge_error(r, f->native.overlay, "works", VERDICT_INFO, "");
}

static void check_network(const struct doctor_facts *f, struct doctor_finding *r) {
    const struct native_facts *n = &f->native;
    const char *families = n->network_has & NETWORK_IPV6 ? "IPv4 and IPv6" : "IPv4 only";
    CLEANUP(buf_done) struct buf ports = BUF_INIT(sizeof r->value);

    for (size_t i = 0; i < n_network_named_ports; i++)
        buf_addf(&ports, " %u", network_named_ports[i]);
    if (n->network == NOT_TRIED)
        say(r, VERDICT_INFO, NULL, "not tried: no user namespace");
    else if (n->network < 0)
        say(r, VERDICT_MISSING, "use --network none; in a container, 'bawn doctor --fix' prints the options it needs", "none: %s",
            strerror(-n->network));
    else if (n->network_has & NETWORK_EVERY_PORT)
        say(r, VERDICT_OK, NULL, "every TCP port (nftables tproxy), %s", families);
    else
        say(r, VERDICT_WARN, "sudo modprobe nft_tproxy, or boot a kernel with CONFIG_NFT_TPROXY",
            "only TCP ports%s, %s: no nftables tproxy (%s)", buf_str(&ports), families, strerror(-n->network_rules));
}

static void check_landlock(const struct doctor_facts *f, struct doctor_finding *r) {
    int abi = f->native.landlock_abi;
    enum { ABI_SCOPES = 6 };
    CLEANUP(buf_done) struct buf gaps = BUF_INIT(sizeof r->value);

    if (abi < 1) {
        say(r, VERDICT_MISSING,
            doctor_older_than(f, 5, 13) ? "boot Linux 5.13 or newer" : "switch it on at boot: 'bawn doctor --fix' prints how",
            "none");
        return;
    }
    for (const char *const *gap = landlock_missing(abi); *gap; gap++)
        buf_addf(&gaps, "%s%s", gaps.len ? "; " : "", *gap);
    if (abi >= ABI_SCOPES) {
        say(r, VERDICT_OK, NULL, "ABI %d", abi);
        return;
    }
    say(r, VERDICT_WARN, "boot Linux 6.12 or newer", "ABI %d: %s", abi, buf_str(&gaps));
}

static void check_seccomp(const struct doctor_facts *f, struct doctor_finding *r) {
    judge_error(r, f->native.seccomp, "filters can be installed", VERDICT_MISSING, "boot a kernel with CONFIG_SECCOMP_FILTER=y");
}

static void check_guard(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->ptrace_scope >= 2)
        say(r, VERDICT_WARN, "sysctl kernel.yama.ptrace_scope=1, or use --workspace overlay, sync or ro",
            "kernel.yama.ptrace_scope is %d: --workspace direct is refused", (int)f->ptrace_scope);
    else if (f->native.notify == -EBUSY)
        say(r, VERDICT_WARN, "use --workspace overlay, sync or ro",
            "another program answers system calls here already: --workspace direct is refused");
    else if (f->native.notify < 0)
        say(r, VERDICT_WARN, "boot Linux 5.19 or newer, or use --workspace overlay, sync or ro",
            "%s: --workspace direct is refused", strerror(-f->native.notify));
    else
        say(r, VERDICT_OK, NULL, "changes can be guarded");
}

static void check_cgroup(const struct doctor_facts *f, struct doctor_finding *r) {
    const struct cgroup_host *h = &f->native.cgroup;
    bool scope_lacks = h->kind == CGROUP_SYSTEMD && f->native.scope < 0;

    if (h->kind == CGROUP_NONE) {
        say(r, VERDICT_WARN, h->remedy, "none: %s", h->why ? h->why : "no group can be made");
        return;
    }
    say(r, h->why || scope_lacks ? VERDICT_WARN : VERDICT_OK, h->remedy, "%s:%s%s%s%s%s%s", cgroup_kind_name(h->kind),
        h->can.cpu ? " cpu" : "", h->can.memory ? " memory" : "", h->can.pids ? " pids" : "", h->can.kill ? " kill" : "",
        h->why ? "; " : "", h->why ? h->why : "");
}

static void check_call(const struct doctor_facts *f, enum doctor_call call, const char *since, struct doctor_finding *r) {
    if (f->calls[call] == 0)
        say(r, VERDICT_OK, NULL, "there");
    else
        say(r, VERDICT_INFO, NULL, "%s; Linux %s has it", strerror(-f->calls[call]), since);
}

static void check_pty(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->pty == 0) {
        say(r, VERDICT_OK, NULL, "available");
        return;
    }
    say(r, VERDICT_WARN, "sudo mount -t devpts devpts /dev/pts -o ptmxmode=0666 (or use 'bawn run --no-tty')", "/dev/ptmx: %s",
        strerror(-f->pty));
}

static void check_kvm(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->kvm == 0)
        say(r, VERDICT_INFO, NULL, "/dev/kvm opens, which does not prove that a guest runs");
    else
        say(r, VERDICT_INFO, NULL, "/dev/kvm: %s", strerror(-f->kvm));
}

static void check_swap(const struct doctor_facts *f, struct doctor_finding *r) {
    char size[24];

    format_size(f->swap, size);
    if (!f->swap || f->native.cgroup.can.swap)
        say(r, VERDICT_OK, NULL, "%s%s", f->swap ? size : "none", f->swap ? ", limited with the memory" : "");
    else
        say(r, VERDICT_WARN, NULL, "%s, which no cgroup limits here", size);
}

static void check_ptrace(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->ptrace_scope == SWITCH_ABSENT)
        say(r, VERDICT_INFO, NULL, "no Yama: programs of one user may trace each other");
    else if (f->ptrace_scope == 0)
        say(r, VERDICT_INFO, NULL, "0: programs of one user may trace each other");
    else
        say(r, VERDICT_OK, NULL, "%d", (int)f->ptrace_scope);
}

static void check_init(const struct doctor_facts *f, struct doctor_finding *r) {
    judge_error(r, f->native.init, "found", VERDICT_MISSING,
                "install Bawn again: bawn-init belongs beside bawn or in ../libexec/bawn");
}

static void check_scope(const struct doctor_facts *f, struct doctor_finding *r) {
    bool used = f->native.cgroup.kind == CGROUP_SYSTEMD;

    judge_error(r, f->native.scope, used ? "found" : "found, not needed here", used ? VERDICT_WARN : VERDICT_INFO,
                used ? "install Bawn again, with bawn-scope (it needs libsystemd)" : "");
}

static void check_subid(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->subuid && f->subgid)
        say(r, VERDICT_OK, NULL, "%s has entries", f->user);
    else
        say(r, VERDICT_INFO, NULL, "no entry for %s in %s", f->user,
            f->subuid   ? "/etc/subgid"
            : f->subgid ? "/etc/subuid"
                        : "/etc/subuid and /etc/subgid");
}

static void check_nested(const struct doctor_facts *f, struct doctor_finding *r) {
    struct doctor_nested n;

    doctor_nested(f, &engine_native, &n);
    say(r, n.available ? VERDICT_OK : VERDICT_INFO, n.remedy, "%s", n.available ? "available" : n.why);
}

static void check_terminal(const struct doctor_facts *f, struct doctor_finding *r) {
    static const char *const names[] = {" stdin", " stdout", " stderr"};
    CLEANUP(buf_done) struct buf list = BUF_INIT(64);

    for (int i = 0; i < 3; i++)
        buf_adds(&list, f->tty[i] ? names[i] : "");
    say(r, VERDICT_OK, NULL, "%s", list.len ? buf_str(&list) + 1 : "none: commands get pipes");
}

static void check_workspace(const struct doctor_facts *f, struct doctor_finding *r) {
    if (f->workspace == 0) {
        say(r, VERDICT_OK, NULL, "%s", f->workspace_path);
        return;
    }
    say(r, VERDICT_MISSING, "cd to a project folder, or use 'bawn run -C DIR'", "%s", f->workspace_err.msg);
}

const struct check checks[] = {
    {"kernel", "kernel", "uname", "the wall is made of kernel features", check_kernel},
    {"container", "container around us", "/.dockerenv, /run/.containerenv, cgroup",
     "a container may refuse what a sandbox is made of", check_container},
    {"userns", "user namespaces", "one was made", "without them there is only the landlock rung", check_userns},
    {"root", "the sandbox's own root", "one was built and thrown away", "it hides the host's files", check_root},
    {"mount-api", "new mount calls", "fsopen, mount_setattr", "read-only parts are sealed with them at once", check_mount_api},
    {"idmap", "idmapped mounts", "the current directory was mapped",
     "root's sandboxes run with unprivileged ids, and files keep their owner", check_idmap},
    {"overlay", "overlayfs in a sandbox", "one was mounted", "for --workspace overlay", check_overlay},
    {"network", "network", "listeners were made in a namespace", "connections reach the gate by them, whatever the client does",
     check_network},
    {"landlock", "Landlock", "landlock_create_ruleset", "second fence of the full rung, the wall of the landlock rung",
     check_landlock},
    {"seccomp", "system call filters", "one was installed", "cut the kernel's surface; Bawn refuses without", check_seccomp},
    {"guard", "seccomp notification", "a listener was made", "guards what a command changes in --workspace direct", check_guard},
    {"cgroup", "control groups", "/proc/self/cgroup, systemd", "limit CPU, memory and processes of all the sandbox together",
     check_cgroup},
    {"pidfd", "pidfd", "pidfd_open", "names a process without mistakes; there is a substitute", .call = CALL_PIDFD,
     .since = "5.3"},
    {"openat2", "openat2", "openat2", "opens below a folder and never outside; there is a substitute", .call = CALL_OPENAT2,
     .since = "5.6"},
    {"clone3", "clone3", "clone3", "starts in the cgroup at once; there is a substitute", .call = CALL_CLONE3, .since = "5.3"},
    {"close-range", "close_range", "close_range", "closes what a sandbox must not inherit; there is a substitute",
     .call = CALL_CLOSE_RANGE, .since = "5.9"},
    {"pty", "pseudo-terminals", "/dev/ptmx", "a command gets a terminal of its own, never yours", check_pty},
    {"kvm", "KVM", "/dev/kvm", "for the microvm engine, which is to come", check_kvm},
    {"swap", "swap", "sysinfo", "memory that swaps out without limit escapes the memory limit", check_swap},
    {"ptrace", "ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope",
     "protects your programs from each other; sandboxes are fenced anyway", check_ptrace},
    {"init", "bawn-init", "beside bawn, ../libexec/bawn", "is the first process of every sandbox", check_init},
    {"scope", "bawn-scope", "beside bawn, ../libexec/bawn", "asks systemd for a cgroup where none can be made directly",
     check_scope},
    {"subid", "subordinate ids", "/etc/subuid, /etc/subgid", "for --system-ids many, and for podman without root", check_subid},
    {"nested", "containers inside", "user namespaces, /usr/bin/podman, /usr/bin/crun", "for --nested", check_nested},
    {"terminal", "terminal", "isatty", "decides whether commands get a terminal", check_terminal},
    {"workspace", "workspace", "the plan for the current directory", "what the sandbox may change", check_workspace},
};
const size_t n_checks = ARRAY_LEN(checks);

struct doctor_finding check_run(const struct check *c, const struct doctor_facts *f) {
    struct doctor_finding r = {0};

    if (c->since)
        check_call(f, c->call, c->since, &r);
    else
        c->look(f, &r);
    return r;
}

void doctor_nested(const struct doctor_facts *f, const struct engine_ops *ops, struct doctor_nested *ret) {
    struct engine_state rungs[RUNG_COUNT];

    *ret = (struct doctor_nested){.why = "the engine does not have it", .remedy = "use --engine native"};
    if (!ops->has_nested)
        return;
    native_judge(&f->native, rungs);
    if (!rungs[RUNG_FULL].available) {
        snprintf(ret->why, sizeof ret->why, "it needs the full rung: %.*s", (int)sizeof ret->why - 40, rungs[RUNG_FULL].why);
        snprintf(ret->remedy, sizeof ret->remedy, "bawn doctor --fix");
    } else if (f->nested_missing) {
        snprintf(ret->why, sizeof ret->why, "there is no %s", f->nested_missing);
        snprintf(ret->remedy, sizeof ret->remedy, "%s, or use an --image that has them",
                 f->apt ? "sudo apt-get install podman crun" : "install podman and crun");
    } else {
        *ret = (struct doctor_nested){.available = true};
    }
}

static void PRINTF_LIKE(2, 3) announce(struct doctor_run *ret, const char *fmt, ...) {
    va_list ap;

    if (ret->n_announces == ARRAY_LEN(ret->announces))
        BUG("announcements");
    va_start(ap, fmt);
    vsnprintf(ret->announces[ret->n_announces], sizeof ret->announces[0], fmt, ap);
    va_end(ap);
    ret->n_announces++;
}

static void announce_all(const struct doctor_facts *f, unsigned keeps, struct doctor_run *ret) {
    const char *lacks = rung_lacks(ret->rung);
    bool cpu = !(keeps & ENFORCES_CPU), memory = !(keeps & ENFORCES_MEMORY), pids = !(keeps & ENFORCES_PIDS);

    if (lacks)
        announce(ret, "weaker sandbox (%s rung): %s", rung_names[ret->rung], lacks);
    if (rung_has_root(ret->rung) && f->native.landlock_abi < 1)
        announce(ret, "no Landlock on this kernel: the second fence around files is missing (the mounts still hold)");
    if (cpu || memory || pids)
        announce(ret, "limits without a cgroup:%s%s%s", memory ? " memory by watchdog;" : "",
                 cpu ? " CPUs by affinity, whole ones only;" : "", pids ? " processes by rlimit" : "");
}

static void refused(struct doctor_run *ret, const char *why) {
    *ret = (struct doctor_run){.outcome = REFUSES, .status = EXIT_SANDBOX};
    snprintf(ret->why, sizeof ret->why, "%s", why);
}

void doctor_verdict(const struct doctor_facts *f, struct doctor_run *ret) {
    struct engine_state rungs[RUNG_COUNT];
    enum rung best;
    bool full;

    native_judge(&f->native, rungs);
    best = native_best(rungs);
    full = best == RUNG_FULL;
    if (best == RUNG_COUNT) {
        refused(ret, rungs[RUNG_FULL].why);
        return;
    }
    if (f->workspace < 0) {
        refused(ret, f->workspace_err.msg);
        return;
    }
    if (rung_has_root(best) && f->native.idmap < 0) {
        refused(ret, "the current directory is on a file system without idmapped mounts, which root's sandboxes need");
        return;
    }
    *ret = (struct doctor_run){.outcome = full ? RUNS_FULL : RUNS_WEAKER, .status = full ? 0 : 1, .rung = best};
    if (!full)
        snprintf(ret->why, sizeof ret->why, "%s", rungs[RUNG_FULL].why);
    announce_all(f, rungs[ret->rung].keeps, ret);
}
