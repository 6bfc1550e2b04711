/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of the host the root of a sandbox is made of: tables, and the few steps that depend on the user. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/elsewhere.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_system.h"
#include "jail/plan/plan_tools.h"

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

enum { ID_MANY = 65534 /* the first that is not for users */, ID_SMALL = 1000 };

static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/* The gate, under an address that DNS servers of the outside cannot have (RFC 2544); any other one would lead to it too. */
static const char resolv_conf[] = "nameserver 198.18.0.1\noptions edns0\n",
                  resolv_tcp[] = "nameserver 198.18.0.1\noptions edns0 use-vc\n";

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* /proc: what shows or changes the host. The list of the container runtimes; what does not exist is left out. */
static const struct step special_steps[] = {
    {STEP_PTS, "/dev/pts"},
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

/* The kernel gives the files of a process that is not dumpable, as bawn-init is, to the root of its user namespace. Where that is the command, its
 * oom_score_adj and the like could be written. */
static const struct step of_root = {STEP_PROC_RO, "/proc/1"};

static void add_all(struct plan *p, const struct step *steps, size_t n) {
    for (size_t i = 0; i < n; i++)
        plan_add(p, steps[i]);
}

/* What is at the same path on the host. */
static void add_same(struct plan *p, struct step step, const char *dir, const char *name) {
    plan_add_own(p, step, str_dupf("%s/%s", dir, name), str_dupf("%s/%s", dir, name));
}

/* /bin and its like: symlinks into /usr on merged systems, folders of their own on others. */
static void add_root_names(const struct host_facts *h, struct plan *p) {
    for (size_t i = 0; i < ARRAY_LEN(h->root_link); i++)
        if (h->root_there[i] && h->root_link[i][0])
            plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("/%s", plan_root_names[i]), strdup(h->root_link[i]));
        else if (h->root_there[i])
            add_same(p, (struct step){.kind = STEP_RO}, "", plan_root_names[i]);
}

static void add_etc_shared(const struct plan_input *in, struct plan *p) {
    bool own_certs = rung_has_root(p->rung) && p->network && in->trust.folder; /* plan_make_trust() has a richer folder */

    for (size_t i = 0; i < ARRAY_LEN(etc_shared); i++)
        if (!own_certs || !str_eq(etc_shared[i], "ssl/certs"))
            add_same(p, (struct step){.kind = STEP_RO, .optional = true}, "/etc", etc_shared[i]);
}

static void add_file(struct plan *p, const char *to, char *content) {
    plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = 0644}, strdup(to), content);
}

/* The sandbox knows three users: root and "nobody" (as names for files), and itself. */
static char *make_passwd(const struct plan *p) {
    return str_dupf("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
                    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                    "%s:x:%u:%u::%s:/bin/bash\n",
                    p->ids.user, p->ids.inside_uid, p->ids.inside_gid, p->home);
}

static char *make_group(const struct plan *p) {
    return str_dupf("root:x:0:\nnogroup:x:65534:\ntty:x:5:\n%s:x:%u:\n", p->ids.user, p->ids.inside_gid);
}

int plan_use_small_ids(struct plan *p) {
    if (p->ids.inside_uid < ID_MANY && p->ids.inside_gid < ID_MANY)
        return 0;
    p->ids.inside_uid = p->ids.inside_gid = ID_SMALL;
    for (size_t i = 0; i < p->n_steps; i++) {
        struct step *s = &p->steps[i];

        if (s->kind == STEP_FILE && str_eq(s->to, "/etc/passwd"))
            s->from = plan_own(p, make_passwd(p));
        if (s->kind == STEP_FILE && str_eq(s->to, "/etc/group"))
            s->from = plan_own(p, make_group(p));
    }
    return p->failed ? -ENOMEM : 0;
}

static void add_etc_made(const struct plan_input *in, struct plan *p) {
    add_file(p, "/etc/hosts", str_dupf("127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", p->hostname));
    add_file(p, "/etc/hostname", str_dupf("%s\n", p->hostname));
    add_file(p, "/etc/resolv.conf", strdup(!p->network ? "# no network\n" : p->rung == RUNG_FULL ? resolv_conf : resolv_tcp));
    if (in->image && !in->unmapped) {
        plan_make_image_etc(in, p);
        return;
    }
    if (p->writable_system) /* the users are in the copy, where packages add theirs */
        return;
    add_file(p, "/etc/passwd", make_passwd(p));
    add_file(p, "/etc/group", make_group(p));
    add_file(p, "/etc/nsswitch.conf", strdup(nsswitch));
}

static void add_host_parts(const struct host_facts *h, const struct plan_input *in, struct plan *p) {
    for (size_t i = 0; i < ARRAY_LEN(skeleton); i++)
        if (!p->writable_system || !plan_system_has(skeleton[i].to))
            plan_add(p, skeleton[i]);
    add_root_names(h, p);
    if (!p->writable_system)
        add_etc_shared(in, p);
}

static void add_private(struct plan *p, const char *to, mode_t mode) {
    plan_add_own(p, (struct step){.kind = STEP_PRIVATE, .writable = true, .mode = mode}, strdup(to), strdup("private"));
}

/* One that is in memory, or in the folder of the sandbox's own that has this name. */
static void add_roomy(struct plan *p, const char *to, mode_t mode, const char *name) {
    if (rung_has_root(p->rung) && p->tmp_size)
        plan_add_own(p, (struct step){.kind = STEP_PRIVATE, .writable = true, .on_disk = true, .mode = mode}, strdup(to),
                     str_dupf("%s/%s", p->private_dir, name));
    else
        add_private(p, to, mode);
}

static bool has_substitute(const struct settings *s, const char *path) {
    for (size_t i = 0; i < s->workspace.n_substitutes; i++)
        if (str_eq(s->workspace.substitutes[i].path, path))
            return true;
    return false;
}

/* Substitutes before anything is hidden: what is shown may be a hidden file itself. Hidden files before extra mounts: what the user
 * asked for by name is not hidden by a pattern. */
static void add_covers(const struct settings *s, const struct plan_input *in, struct plan *p) {
    const struct strv *hidden = in->workspace.hidden;
    enum step_kind kind = p->mode == WORKSPACE_OVERLAY ? STEP_WHITEOUT : STEP_HIDE;

    for (size_t i = 0; i < s->workspace.n_substitutes; i++)
        plan_add_own(p, (struct step){.kind = STEP_SUBSTITUTE}, str_dupf("%s/%s", p->workspace, s->workspace.substitutes[i].path),
                     strdup(s->workspace.substitutes[i].shown));
    for (size_t i = 0; hidden && i < hidden->len; i++) {
        struct step step = {.kind = kind};

        if (in->workspace.tracked)
            step.tracked = lookalikes_below(in->workspace.tracked, hidden->v[i]);
        if (!has_substitute(s, hidden->v[i]))
            plan_add_own(p, step, str_dupf("%s/%s", p->workspace, hidden->v[i]), strdup(hidden->v[i]));
    }
}

static const struct step rw = {.kind = STEP_EXTRA, .writable = true}, ro = {.kind = STEP_EXTRA};

/* The folder itself or an overlay of it; or a copy that holds nothing hidden, in a worktree also with a git folder of its own and the
 * repository's objects to read. */
static void add_workspace(const struct settings *s, const struct plan_input *in, struct plan *p) {
    const char *run = in->workspace.run_dir ? in->workspace.run_dir : "(folder of the run)";
    bool overlay = p->mode == WORKSPACE_OVERLAY;

    if (p->mode != WORKSPACE_SYNC && p->mode != WORKSPACE_WORKTREE) {
        plan_add_own(p, (struct step){.kind = overlay ? STEP_OVERLAY : STEP_WORKSPACE, .writable = p->mode != WORKSPACE_RO},
                     strdup(p->workspace), strdup(overlay ? run : p->workspace));
        add_covers(s, in, p);
        return;
    }
    plan_add_own(p, s->workspace.writable ? rw : ro, strdup(p->workspace), str_dupf("%s/tree", run));
    if (p->mode == WORKSPACE_SYNC)
        return;
    plan_add_own(p, ro, str_dupf("%s/.git", p->workspace), str_dupf("%s/dotgit", run));
    plan_add_own(p, rw, strdup("/run/bawn/git"), str_dupf("%s/git", run));
    plan_add_own(p, ro, strdup("/run/bawn/objects"), strdup(in->git.objects ? in->git.objects : "(objects)"));
}

static int hide_in(const struct elsewhere *e, const char *path, size_t *n, struct plan *p, struct err *err) {
    const char *rest = elsewhere_rest(e, path);

    if (!rest)
        return 0;
    if (p->rung == RUNG_LANDLOCK)
        return err_set(err, -EPERM,
                       "a --mount shows hidden files of the workspace at '%s' ('%s'), and without user namespaces they cannot "
                       "be covered there; mount another folder",
                       e->path, path);
    if (++*n > ELSEWHERE_COVERS_MAX)
        return err_set(err, -E2BIG,
                       "a --mount shows the workspace a second time at '%s', with more than %d hidden files; mount another "
                       "folder, or hide their folders instead",
                       e->path, ELSEWHERE_COVERS_MAX);
    plan_add_own(p, (struct step){.kind = STEP_HIDE_AGAIN}, str_dupf("%s/%s", e->path, rest), strdup(e->path));
    return 0;
}

/* A mount that shows the workspace, or a part of it, a second time shows no more of it. */
static int hide_again(const struct plan_input *in, struct plan *p, struct err *err) {
    const struct elsewheres *e = in->workspace.elsewhere;
    const struct strv *hidden = in->workspace.hidden;
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; e && hidden && i < e->n; i++)
        for (size_t k = 0; r == 0 && k < hidden->len; k++)
            r = hide_in(&e->v[i], hidden->v[k], &n, p, err);
    return r;
}

static void add_mounts(const struct settings *s, const struct plan_input *in, struct plan *p) {
    const struct strv *volumes = in->workspace.volumes; /* folders of the workspace that are the sandbox's own */

    for (size_t i = 0; volumes && i < volumes->len; i++)
        plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true, .ours = true},
                     str_dupf("%s/%s", p->workspace, s->workspace.volumes.v[i]), strdup(volumes->v[i]));
    plan_make_home(in, p);
    plan_make_tools(in, p); /* before mounts that the user names, which may cover it */
    for (size_t i = 0; i < s->n_mounts; i++)
        plan_add_own(p, s->mounts[i].writable ? rw : ro, strdup(s->mounts[i].to), strdup(s->mounts[i].from));
}

int plan_make_root(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                   struct err *err) {
    if (in->image)
        plan_make_image_root(in, p);
    else
        add_host_parts(h, in, p);
    if (p->writable_system)
        plan_make_system(in, p);
    add_etc_made(in, p);
    if (p->nested)
        plan_make_nested(p);
    plan_add(p, (struct step){STEP_SYMLINK, "/workspace", p->workspace});
    add_roomy(p, "/tmp", 01777, "tmp");
    add_roomy(p, "/var/tmp", 01777, "var-tmp");
    add_private(p, "/dev/shm", 01777);
    if (in->home.persistent)
        plan_add_own(p, rw, strdup(p->home), strdup(in->home.persistent));
    else
        add_roomy(p, p->home, 0700, "home");
    for (size_t i = 0; i < ARRAY_LEN(devices); i++)
        add_same(p, (struct step){.kind = STEP_DEVICE}, "/dev", devices[i]);
    add_all(p, special_steps, ARRAY_LEN(special_steps));
    if (p->ids.inside_uid == 0)
        plan_add(p, of_root);
    add_workspace(s, in, p);
    add_mounts(s, in, p);
    return hide_again(in, p, err);
}

int plan_etc_paths(struct strv *ret) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_shared); i++)
        r = strv_add(ret, etc_shared[i]);
    return r;
}

int plan_host_paths(struct strv *ret) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(skeleton); i++)
        if (skeleton[i].kind == STEP_RO && !str_starts(skeleton[i].to, "/sys"))
            r = strv_add(ret, skeleton[i].to);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(plan_root_names); i++)
        r = strv_addf(ret, "/%s", plan_root_names[i]);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_shared); i++)
        r = strv_addf(ret, "/etc/%s", etc_shared[i]);
    return r;
}
