/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of the host the root of a sandbox is made of: tables, and the few steps that depend on the user. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/elsewhere.h"
#include "jail/plan/plan.h"

/* Fixed part, in the order in which it is carried out. Everything up to the first STEP_PRIVATE is made read-only. */
static const struct step skeleton[] = {
    {STEP_RO, "/usr", "/usr"},
    {STEP_RO, "/opt", "/opt", .optional = true},
    {STEP_RO, "/nix", "/nix", .optional = true},
    {STEP_DIR, "/etc"},
    {STEP_DIR, "/dev"},
    {STEP_DIR, "/dev/pts"},
    {STEP_DIR, "/proc"},
    {STEP_DIR, "/run"},
    {STEP_DIR, "/sys/devices/system"},
    {STEP_DIR, "/var/lib"},
    {STEP_DIR, "/var/cache"},
    {STEP_SYMLINK, "/var/run", "/run"},
    {STEP_RO, "/sys/devices/system/cpu", "/sys/devices/system/cpu", .optional = true},
    {STEP_SYMLINK, "/dev/fd", "/proc/self/fd"},
    {STEP_SYMLINK, "/dev/stdin", "/proc/self/fd/0"},
    {STEP_SYMLINK, "/dev/stdout", "/proc/self/fd/1"},
    {STEP_SYMLINK, "/dev/stderr", "/proc/self/fd/2"},
    {STEP_SYMLINK, "/dev/ptmx", "pts/ptmx"},
};

/* Parts of /etc that programs need and that hold no secrets. Nothing else of /etc exists inside: not shadow, not fstab
 * (passwords of network shares), not the configuration of daemons, not npmrc, pip.conf or environment (tokens). Every
 * entry costs a start about 10 us, so what programs do well without is not here. */
static const char *const etc_shared[] = {
    "ImageMagick-6",
    "alternatives",
    "bash.bashrc",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gitconfig",
    "inputrc",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "maven",
    "mime.types",
    "os-release",
    "perl",
    "php",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "profile",
    "profile.d",
    "protocols",
    "services",
    "sgml",
    "ssl/certs",
    "ssl/openssl.cnf",
    "texmf",
    "timezone",
    "vim",
    "xml",
    "zsh",
};

static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/* The gate, under an address that DNS servers of the outside cannot have (RFC 2544); any other one would lead to it too. */
static const char resolv_conf[] = "nameserver 198.18.0.1\noptions edns0\n";

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* /proc: what shows or changes the host. The list of the container runtimes; what does not exist is left out. */
static const struct step proc_steps[] = {
    {STEP_PROC, "/proc"},
    {STEP_PROC_RO, "/proc/sys"},
    {STEP_PROC_RO, "/proc/bus", .optional = true},
    {STEP_PROC_RO, "/proc/fs", .optional = true},
    {STEP_PROC_RO, "/proc/irq", .optional = true},
    {STEP_MASK, "/proc/acpi", .optional = true},
    {STEP_MASK, "/proc/asound", .optional = true},
    {STEP_MASK, "/proc/interrupts", .optional = true},
    {STEP_MASK, "/proc/kcore", .optional = true},
    {STEP_MASK, "/proc/key-users", .optional = true},
    {STEP_MASK, "/proc/keys", .optional = true},
    {STEP_MASK, "/proc/latency_stats", .optional = true},
    {STEP_MASK, "/proc/pressure", .optional = true},
    {STEP_MASK, "/proc/sched_debug", .optional = true},
    {STEP_MASK, "/proc/scsi", .optional = true},
    {STEP_MASK, "/proc/sysrq-trigger", .optional = true},
    {STEP_MASK, "/proc/timer_list", .optional = true},
};

static int add_all(struct plan *p, const struct step *steps, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        int r = plan_add(p, steps[i], err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* A step whose strings are made here. */
/* /bin and its like: symlinks into /usr on merged systems, folders of their own on others. */
static int add_root_names(const struct host_facts *h, struct plan *p, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(h->root_link); i++) {
        struct step step = {.kind = h->root_link[i][0] ? STEP_SYMLINK : STEP_RO};
        char *from = h->root_link[i][0] ? strdup(h->root_link[i]) : str_dupf("/%s", plan_root_names[i]);
        int r;

        if (!h->root_there[i]) {
            free(from);
            continue;
        }
        r = plan_add_own(p, step, str_dupf("/%s", plan_root_names[i]), from, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_etc_shared(const struct plan_input *in, struct plan *p, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(etc_shared); i++) {
        int r;

        if (p->network && in->trust.folder && str_eq(etc_shared[i], "ssl/certs"))
            continue; /* plan_make_trust() has a richer one */
        r = plan_add_own(p, (struct step){.kind = STEP_RO, .optional = true}, str_dupf("/etc/%s", etc_shared[i]),
                         str_dupf("/etc/%s", etc_shared[i]), err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int add_file(struct plan *p, const char *to, char *content, struct err *err) {
    return plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = 0644}, strdup(to), content, err);
}

/* The sandbox knows three users: root and "nobody" (as names for files), and itself. */
static int add_etc_made(struct plan *p, struct err *err) {
    const struct plan_ids *ids = &p->ids;
    int r = add_file(p, "/etc/passwd",
                     str_dupf("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
                              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                              "%s:x:%u:%u::%s:/bin/bash\n",
                              ids->user, ids->inside_uid, ids->inside_gid, p->home),
                     err);

    r = r < 0 ? r
              : add_file(p, "/etc/group",
                         str_dupf("root:x:0:\nnogroup:x:65534:\ntty:x:5:\n%s:x:%u:\n", ids->user, ids->inside_gid), err);
    r = r < 0 ? r
              : add_file(p, "/etc/hosts", str_dupf("127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", p->hostname), err);
    r = r < 0 ? r : add_file(p, "/etc/hostname", str_dupf("%s\n", p->hostname), err);
    r = r < 0 ? r : add_file(p, "/etc/nsswitch.conf", strdup(nsswitch), err);
    return r < 0 ? r : add_file(p, "/etc/resolv.conf", strdup(p->network ? resolv_conf : "# no network\n"), err);
}

static int add_private(struct plan *p, const char *to, mode_t mode, struct err *err) {
    return plan_add_own(p, (struct step){.kind = STEP_PRIVATE, .writable = true, .mode = mode}, strdup(to), strdup("private"),
                        err);
}

static int add_home(const struct plan_input *in, struct plan *p, struct err *err) {
    if (!in->home.persistent)
        return add_private(p, p->home, 0700, err);
    return plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true}, strdup(p->home), strdup(in->home.persistent),
                        err);
}

static int add_devices(struct plan *p, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        int r = plan_add_own(p, (struct step){.kind = STEP_DEVICE}, str_dupf("/dev/%s", devices[i]),
                             str_dupf("/dev/%s", devices[i]), err);

        if (r < 0)
            return r;
    }
    return plan_add(p, (struct step){.kind = STEP_PTS, .to = "/dev/pts"}, err);
}

static const char *substitute_for(const struct settings *s, const char *path) {
    for (size_t i = 0; i < s->workspace.n_substitutes; i++)
        if (str_eq(s->workspace.substitutes[i].path, path))
            return s->workspace.substitutes[i].shown;
    return NULL;
}

/* Before anything is hidden: what is shown may be a hidden file itself. */
static int add_substitutes(const struct settings *s, struct plan *p, struct err *err) {
    for (size_t i = 0; i < s->workspace.n_substitutes; i++) {
        const struct substitute_spec *sub = &s->workspace.substitutes[i];
        int r = plan_add_own(p, (struct step){.kind = STEP_SUBSTITUTE}, str_dupf("%s/%s", p->workspace, sub->path),
                             strdup(sub->shown), err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Before extra mounts: what the user asked for by name is not hidden by a pattern. */
static int add_hidden(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    enum step_kind kind = p->mode == WORKSPACE_OVERLAY ? STEP_WHITEOUT : STEP_HIDE;

    for (size_t i = 0; in->workspace.hidden && i < in->workspace.hidden->len; i++) {
        const char *path = in->workspace.hidden->v[i];
        int r = 0;

        if (!substitute_for(s, path))
            r = plan_add_own(p, (struct step){.kind = kind}, str_dupf("%s/%s", p->workspace, path), strdup(path), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static const char *run_dir(const struct plan_input *in) {
    return in->workspace.run_dir ? in->workspace.run_dir : "(folder of the run)";
}

static int add_live(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    bool overlay = p->mode == WORKSPACE_OVERLAY;
    struct step step = {.kind = overlay ? STEP_OVERLAY : STEP_WORKSPACE, .writable = p->mode != WORKSPACE_RO};
    int r = plan_add_own(p, step, strdup(p->workspace), strdup(overlay ? run_dir(in) : p->workspace), err);

    r = r < 0 ? r : add_substitutes(s, p, err);
    return r < 0 ? r : add_hidden(s, in, p, err);
}

/* A copy that holds nothing hidden; in a worktree also a git folder of its own, and the repository's objects to read. */
static int add_copy(const struct plan_input *in, struct plan *p, struct err *err) {
    const struct step rw = {.kind = STEP_EXTRA, .writable = true}, ro = {.kind = STEP_EXTRA};
    int r = plan_add_own(p, rw, strdup(p->workspace), str_dupf("%s/tree", run_dir(in)), err);

    if (r < 0 || p->mode != WORKSPACE_WORKTREE)
        return r;
    r = plan_add_own(p, ro, str_dupf("%s/.git", p->workspace), str_dupf("%s/dotgit", run_dir(in)), err);
    r = r < 0 ? r : plan_add_own(p, rw, strdup("/run/bawn/git"), str_dupf("%s/git", run_dir(in)), err);
    return r < 0 ? r
                 : plan_add_own(p, ro, strdup("/run/bawn/objects"), strdup(in->git.objects ? in->git.objects : "(objects)"), err);
}

/* Folders of the workspace that are the sandbox's own. */
static int add_volumes(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    for (size_t i = 0; in->workspace.volumes && i < in->workspace.volumes->len; i++) {
        int r =
            plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true},
                         str_dupf("%s/%s", p->workspace, s->workspace.volumes.v[i]), strdup(in->workspace.volumes->v[i]), err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int add_extra(const struct settings *s, struct plan *p, struct err *err) {
    for (size_t i = 0; i < s->n_mounts; i++) {
        const struct mount_spec *m = &s->mounts[i];
        int r = plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = m->writable}, strdup(m->to), strdup(m->from), err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* A mount that shows the workspace, or a part of it, a second time shows no more of it. */
static int hide_again(const struct plan_input *in, struct plan *p, struct err *err) {
    size_t n = 0;

    for (size_t i = 0; in->workspace.elsewhere && in->workspace.hidden && i < in->workspace.elsewhere->n; i++)
        for (size_t k = 0; k < in->workspace.hidden->len; k++) {
            const struct elsewhere *e = &in->workspace.elsewhere->v[i];
            const char *rest = elsewhere_rest(e, in->workspace.hidden->v[k]);
            int r;

            if (!rest)
                continue;
            if (p->rung == RUNG_LANDLOCK)
                return err_set(
                    err, -EPERM,
                    "a --mount shows hidden files of the workspace at '%s' ('%s'), and without user namespaces they cannot "
                    "be covered there; mount another folder",
                    e->path, in->workspace.hidden->v[k]);
            if (++n > ELSEWHERE_COVERS_MAX)
                return err_set(
                    err, -E2BIG,
                    "a --mount shows the workspace a second time at '%s', with more than %d hidden files; mount another "
                    "folder, or hide their folders instead",
                    e->path, ELSEWHERE_COVERS_MAX);
            r = plan_add_own(p, (struct step){.kind = STEP_HIDE_AGAIN}, str_dupf("%s/%s", e->path, rest), strdup(e->path), err);
            if (r < 0)
                return r;
        }
    return 0;
}

static int add_user_parts(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    int r = add_private(p, "/tmp", 01777, err);

    r = r < 0 ? r : add_private(p, "/var/tmp", 01777, err);
    r = r < 0 ? r : add_private(p, "/dev/shm", 01777, err);
    r = r < 0 ? r : add_home(in, p, err);
    r = r < 0 ? r : add_devices(p, err);
    r = r < 0 ? r : add_all(p, proc_steps, ARRAY_LEN(proc_steps), err);
    if (r >= 0)
        r = p->mode == WORKSPACE_SYNC || p->mode == WORKSPACE_WORKTREE ? add_copy(in, p, err) : add_live(s, in, p, err);
    r = r < 0 ? r : add_volumes(s, in, p, err);
    r = r < 0 ? r : plan_make_home(in, p, err);
    r = r < 0 ? r : add_extra(s, p, err);
    return r < 0 ? r : hide_again(in, p, err);
}

int plan_make_root(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                   struct err *err) {
    int r = add_all(p, skeleton, ARRAY_LEN(skeleton), err);

    r = r < 0 ? r : add_root_names(h, p, err);
    r = r < 0 ? r : add_etc_shared(in, p, err);
    r = r < 0 ? r : add_etc_made(p, err);
    r = r < 0 ? r : plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, strdup("/workspace"), strdup(p->workspace), err);
    return r < 0 ? r : add_user_parts(s, in, p, err);
}
