/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for hosts that exist only here: nothing is touched, everything can be read off. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/plan.h"

#define G (1ull << 30)

struct scene {
    struct settings s;
    struct host_facts h;
    struct plan_input in;
    char *argv[4];
    struct plan p;
    struct err err;
};

static char engine[] = "native", argv0[] = "make", argv1[] = "test";
static char *environ_[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"TERM=xterm"}, NULL};

/* An ordinary user on a merged-usr Debian, in a project folder. */
static int setup(void **state) {
    static struct scene sc;

    sc = (struct scene){
        .s =
            {.engine = engine, .limits.cpus_milli = 2000, .limits.memory = 4 * G, .limits.pids = 256, .workspace.writable = true},
        .h = {.uid = 1000,
              .gid = 1001,
              .user = "ann",
              .home = "/home/ann",
              .passwd_home = "/home/ann",
              .workspace = "/home/ann/proj",
              .workspace_uid = 1000,
              .workspace_gid = 1001,
              .umask_ = 027,
              .landlock_abi = 4,
              .environ_ = environ_},
        .argv = {argv0, argv1, NULL},
        .in = {.pid = 4321, .argv = sc.argv, .argc = 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(plan_root_names); i++) {
        sc.h.root_there[i] = i != 3 && i != 5;
        snprintf(sc.h.root_link[i], sizeof sc.h.root_link[i], sc.h.root_there[i] ? "usr/%s" : "%.0s", plan_root_names[i]);
    }
    *state = &sc;
    return 0;
}

static int teardown(void **state) {
    plan_done(&((struct scene *)*state)->p);
    return 0;
}

static int make(struct scene *sc, enum rung rung) {
    plan_done(&sc->p);
    sc->err = (struct err){0};
    return plan_make(&sc->s, &sc->h, &sc->in, rung, &sc->p, &sc->err);
}

#define MAKE(sc)                           \
    do {                                   \
        if (make(sc, RUNG_FULL) < 0)       \
            fail_msg("%s", (sc)->err.msg); \
    } while (0)

static const struct step *step_to(const struct plan *p, const char *to) {
    for (size_t i = 0; i < p->n_steps; i++)
        if (str_eq(p->steps[i].to, to))
            return &p->steps[i];
    return NULL;
}

static bool below(const char *path, const char *dir) {
    return str_starts(path, dir) && (path[strlen(dir)] == 0 || path[strlen(dir)] == '/');
}

/* A home that is kept is a mount of its folder, and whatever goes below it is marked: the inside may have put links there. */
static void test_kept_home(void **state) {
    struct scene *sc = *state;
    static const char *const below_home[] = {"/home/ann/proj", "/home/ann/.cache", "/home/ann/.npm"};
    const struct step *home;

    sc->in.home.caches = "/state/cache";
    MAKE(sc);
    assert_int_equal(step_to(&sc->p, "/home/ann")->kind, STEP_PRIVATE);
    for (size_t i = 0; i < sc->p.n_steps; i++)
        assert_false(sc->p.steps[i].at_home);
    assert_string_equal(sc->p.hostname, "bawn");
    sc->in.home.persistent = "/state/sandboxes/x/home";
    sc->in.hostname = "x";
    MAKE(sc);
    assert_string_equal(sc->p.hostname, "x");
    home = step_to(&sc->p, "/home/ann");
    assert_int_equal(home->kind, STEP_EXTRA);
    assert_true(home->writable && !home->at_home);
    assert_string_equal(home->from, "/state/sandboxes/x/home");
    for (size_t i = 0; i < ARRAY_LEN(below_home); i++) {
        const struct step *s = step_to(&sc->p, below_home[i]);

        assert_non_null(s);
        assert_true(s->at_home && s > home);
    }
    assert_false(step_to(&sc->p, "/usr")->at_home);
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_string_equal(sc->p.home, "/state/sandboxes/x/home");
}

static void test_refused_workspaces(void **state) {
    static const char *const refused[] = {
        "/",
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/lib",
        "/lib64",
        "/mnt",
        "/opt",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/srv",
        "/sys",
        "/tmp",
        "/usr",
        "/var",
        "/var/lib",
        "/var/tmp",
        "/var/run",
        "/dev/x",
        "/proc/x",
        "/proc/self",
        "/sys/kernel",
        "/run/user/1000",
        "/boot/grub",
        "/var/run/docker",
        "/home/ann",
        "/workspace",
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        sc->h.workspace = refused[i];
        if (make(sc, RUNG_FULL) != -EPERM || make(sc, RUNG_LANDLOCK) != -EPERM)
            fail_msg("'%s' is accepted", refused[i]);
        assert_true(strstr(sc->err.msg, refused[i]) && strstr(sc->err.msg, "cannot be the workspace"));
        assert_null(sc->p.steps); /* nothing is half-made */
    }
}

static void test_refused_homes(void **state) {
    static const struct {
        const char *home, *passwd_home, *workspace;
        bool refused;
    } table[] = {
        {"/data/people/ann", NULL, "/data/people/ann", true},
        {"/data/people/ann", NULL, "/data/people", true},
        {"/data/people/ann", NULL, "/data", true},
        {"/data/people/ann", NULL, "/data/peo", false},
        {"/data/people/ann", NULL, "/data/people/anna", false},
        {"/data/people/ann", NULL, "/data/people/an", false},
        {"/data/people/ann", NULL, "/data/people/ann/proj", false},
        {"/elsewhere", "/data/ann", "/data/ann", true}, /* HOME says something else */
        {"/elsewhere", "/data/ann", "/data", true},
        {"/elsewhere", "/data/ann", "/elsewhere", true},
        {"/elsewhere", "/data/ann", "/data/ann/proj", false},
        {NULL, NULL, "/data/ann", false},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        sc->h.home = table[i].home;
        sc->h.passwd_home = table[i].passwd_home;
        sc->h.workspace = table[i].workspace;
        if (make(sc, RUNG_FULL) != (table[i].refused ? -EPERM : 0))
            fail_msg("row %zu: '%s'", i, sc->err.msg);
        if (table[i].refused)
            assert_non_null(strstr(sc->err.msg, "your home"));
    }
}

/* Sockets, rules and journals of Bawn's own are never inside. */
static void test_refused_own_folders(void **state) {
    static char *variables[] = {"XDG_STATE_HOME=/data/state", "XDG_RUNTIME_DIR=relative", NULL};
    static const struct {
        char *const *variables;
        const char *workspace;
        bool refused;
    } table[] = {
        {NULL, "/home/ann/.local", true},
        {NULL, "/home/ann/.local/state/bawn", true},
        {NULL, "/home/ann/.local/state/bawn/sandboxes/x/home", true},
        {NULL, "/home/ann/.local/state/other", false},
        {NULL, "/home/ann/.local/state/bawn/agents", true},
        {NULL, "/home/ann/.local/state/bawn/agents/", true},
        {NULL, "/home/ann/.local/state/bawn/agents/codex.new-12", false},
        {NULL, "/home/ann/.local/state/bawn/agentsx/codex", true},
        {NULL, "/home/ann/.config/bawn/agents/codex", true},
        {NULL, "/home/ann/.config", true},
        {NULL, "/home/ann/.config/nvim", false},
        {variables, "/home/ann/.local", false},
        {variables, "/data", true},
        {variables, "/data/state", true},
        {variables, "/data/state/bawn/runs", true},
        {variables, "/data/state/bawny", false},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        sc->h.environ_ = table[i].variables;
        sc->h.workspace = table[i].workspace;
        if (make(sc, RUNG_FULL) != (table[i].refused ? -EPERM : 0))
            fail_msg("row %zu: '%s'", i, sc->err.msg);
        if (table[i].refused)
            assert_non_null(strstr(sc->err.msg, "Bawn's own files"));
    }
    sc->h.workspace = "/home/ann/proj";
    sc->h.own_inside = "/home/ann/.config/bawn";
    assert_int_equal(make(sc, RUNG_FULL), -EPERM);
    assert_non_null(strstr(sc->err.msg, "'/home/ann/.config/bawn' is a link"));
    sc->h.own_inside = NULL;
    assert_int_equal(make(sc, RUNG_FULL), 0);
}

static void test_accepted_workspaces(void **state) {
    static const char *const accepted[] = {"/home/ann/proj", "/home/ann/.x", "/srv/git",  "/opt/proj",    "/mnt/disk/p",
                                           "/tmp/x",         "/var/tmp/x",   "/home/bob", "/runner/work", "/devel",
                                           "/process",       "/system/p",    "/w"};
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        const struct step *ws;

        sc->h.workspace = accepted[i];
        MAKE(sc);
        ws = step_to(&sc->p, accepted[i]);
        assert_non_null(ws);
        assert_int_equal(ws->kind, STEP_WORKSPACE);
        assert_string_equal(sc->p.workspace, accepted[i]);
        assert_string_equal(step_to(&sc->p, "/workspace")->from, accepted[i]);
    }
}

static void test_ids(void **state) {
    static const struct {
        uid_t uid, owner, inside;
        gid_t gid, group, inside_gid;
        bool by_root;
    } table[] = {
        {1000, 1000, 1000, 1001, 1001, 1001, false},
        {1000, 0, 1000, 1001, 0, 1001, false}, /* somebody else's folder changes nothing for a user */
        {0, 0, 1000, 0, 0, 1000, true},
        {0, 1000, 1000, 0, 1000, 1000, true},
        {0, 4242, 4242, 0, 4343, 4343, true},
        {0, 4242, 4242, 0, 0, 1000, true},
        {0, 0, 1000, 0, 50, 50, true},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct plan_ids *ids = &sc->p.ids;

        sc->h.uid = table[i].uid;
        sc->h.gid = table[i].gid;
        sc->h.workspace_uid = table[i].owner;
        sc->h.workspace_gid = table[i].group;
        MAKE(sc);
        assert_int_equal(ids->by_root, table[i].by_root);
        assert_int_equal(ids->inside_uid, table[i].inside);
        assert_int_equal(ids->inside_gid, table[i].inside_gid);
        assert_int_equal(ids->workspace_uid, table[i].owner);
        assert_int_equal(ids->workspace_gid, table[i].group);
        if (table[i].by_root) {
            assert_int_equal(ids->host_uid, 0x70000000 + 4321); /* nobody's, and one per supervisor */
            assert_int_equal(ids->host_gid, ids->host_uid);
            assert_string_equal(sc->p.home, "/home/bawn");
        } else {
            assert_int_equal(ids->host_uid, table[i].uid);
            assert_int_equal(ids->host_gid, table[i].gid);
            assert_string_equal(sc->p.home, "/home/ann");
        }
    }
}

/* A run that root starts never has id 0, inside or on the host, whatever the largest pid. */
static void test_root_is_never_root(void **state) {
    struct scene *sc = *state;

    sc->h.uid = sc->h.gid = sc->h.workspace_uid = sc->h.workspace_gid = 0;
    for (pid_t pid = 1; pid <= 1 << 22; pid <<= 1) {
        sc->in.pid = pid;
        MAKE(sc);
        assert_true(sc->p.ids.host_uid > 0x70000000 && sc->p.ids.host_uid < 0x7fffffff);
        assert_true(sc->p.ids.inside_uid != 0 && sc->p.ids.inside_gid != 0);
    }
}

static void test_private_size(void **state) {
    static const struct {
        uint64_t memory, disk, size;
    } table[] = {
        {4 * G, 0, 2 * G}, {0, 0, G}, {4 * G, G / 4, G / 4}, {G, 8 * G, G / 2}, {0, 8 * G, G}, {0, 1, 1}, {4096, 0, 1 << 20},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        sc->s.limits.memory = table[i].memory;
        sc->s.limits.disk = table[i].disk;
        MAKE(sc);
        assert_int_equal(sc->p.private_size, table[i].size);
        assert_int_equal(sc->p.limits.memory, table[i].memory);
        assert_int_equal(sc->p.limits.disk, table[i].disk);
    }
}

static void test_tmp_size(void **state) {
    static const struct {
        uint64_t memory, disk, tmp, in_memory, on_disk, bare;
    } table[] = {
        {4 * G, 0, 0, 2 * G, 0, 0}, /* nothing was said */
        {4 * G, 0, G, G, 0, G},     /* up to half of the memory */
        {4 * G, 0, 2 * G, 2 * G, 0, 2 * G},
        {4 * G, 0, 3 * G, 2 * G, 3 * G, 3 * G},     /* more: on disk; the rest as ever */
        {4 * G, 3 * G, 8 * G, 2 * G, 3 * G, 3 * G}, /* the disk limit holds for it, too */
        {4 * G, G, 8 * G, G, 0, G},
        {0, 0, 2 * G, G, 2 * G, 2 * G},
        {0, 0, G, G, 0, G},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        sc->s.limits.memory = table[i].memory;
        sc->s.limits.disk = table[i].disk;
        sc->s.limits.tmp = table[i].tmp;
        MAKE(sc);
        assert_int_equal(sc->p.private_size, table[i].in_memory);
        assert_int_equal(sc->p.tmp_size, table[i].on_disk);
        assert_int_equal(plan_tmp_on_disk(&sc->s, RUNG_LANDLOCK), table[i].bare);
        assert_true(step_to(&sc->p, "/tmp")->on_disk == (table[i].on_disk != 0));
        assert_true(step_to(&sc->p, "/home/ann")->on_disk == (table[i].on_disk != 0));
        assert_false(step_to(&sc->p, "/dev/shm")->on_disk);
    }
}

static void test_tmp_on_disk(void **state) {
    struct scene *sc = *state;

    sc->s.limits.memory = G;
    sc->s.limits.tmp = 2 * G;
    sc->in.private_dir = "/state/private/bawn-run-1";
    MAKE(sc);
    assert_string_equal(step_to(&sc->p, "/tmp")->from, "/state/private/bawn-run-1/tmp");
    assert_string_equal(step_to(&sc->p, "/var/tmp")->from, "/state/private/bawn-run-1/var-tmp");
    assert_string_equal(step_to(&sc->p, "/home/ann")->from, "/state/private/bawn-run-1/home");
    assert_true(strv_has(&sc->p.env, "HOME=/home/ann") && strv_has(&sc->p.env, "TMPDIR=/tmp"));
    sc->in.home.persistent = "/state/sandboxes/box/home";
    MAKE(sc);
    assert_int_equal(step_to(&sc->p, "/home/ann")->kind, STEP_EXTRA);
    assert_string_equal(step_to(&sc->p, "/home/ann")->from, "/state/sandboxes/box/home");
    assert_true(step_to(&sc->p, "/tmp")->on_disk);
}

/* Whose content comes from a path of the host. */
static bool from_host(enum step_kind kind) {
    return kind == STEP_RO || kind == STEP_DEVICE || kind == STEP_EXTRA;
}

static void test_nothing_private_is_shared(void **state) {
    static const char *const secret[] = {"/home",
                                         "/root",
                                         "/var",
                                         "/run",
                                         "/mnt",
                                         "/srv",
                                         "/tmp",
                                         "/boot",
                                         "/media",
                                         "/proc",
                                         "/dev/shm",
                                         "/dev/pts",
                                         "/dev/kvm",
                                         "/dev/fuse",
                                         "/dev/mem",
                                         "/dev/net",
                                         "/sys/fs",
                                         "/sys/kernel",
                                         "/sys/class",
                                         "/etc/shadow",
                                         "/etc/gshadow",
                                         "/etc/sudoers",
                                         "/etc/ssh",
                                         "/etc/bawn",
                                         "/etc/fstab",
                                         "/etc/npmrc",
                                         "/etc/pip.conf",
                                         "/etc/environment",
                                         "/etc/docker",
                                         "/etc/ssl/private",
                                         "/etc/pki/tls/private",
                                         "/etc/krb5.keytab",
                                         "/etc/passwd",
                                         "/etc/machine-id"};
    struct scene *sc = *state;
    size_t seen = 0;

    MAKE(sc);
    for (size_t i = 0; i < sc->p.n_steps; i++) {
        const struct step *s = &sc->p.steps[i];

        if (!from_host(s->kind))
            continue;
        seen++;
        assert_true(s->from[0] == '/' && !strstr(s->from, ".."));
        assert_false(s->writable);
        for (size_t k = 0; k < ARRAY_LEN(secret); k++) /* neither it, nor part of it, nor what contains it */
            if (below(s->from, secret[k]) || below(secret[k], s->from))
                fail_msg("'%s' shows '%s'", s->from, secret[k]);
    }
    assert_true(seen > 20);
}

/* Whatever can be written is the workspace, an area of the sandbox's own, or was asked for. */
static void test_what_is_writable(void **state) {
    struct scene *sc = *state;

    MAKE(sc);
    for (size_t i = 0; i < sc->p.n_steps; i++) {
        const struct step *s = &sc->p.steps[i];

        assert_int_equal(s->writable, s->kind == STEP_PRIVATE || s->kind == STEP_WORKSPACE);
        if (s->kind == STEP_PRIVATE)
            assert_int_equal(s->mode, str_eq(s->to, "/home/ann") ? 0700 : 01777);
    }
    assert_int_equal(step_to(&sc->p, "/tmp")->kind, STEP_PRIVATE);
    assert_int_equal(step_to(&sc->p, "/var/tmp")->kind, STEP_PRIVATE);
    assert_int_equal(step_to(&sc->p, "/dev/shm")->kind, STEP_PRIVATE);
    assert_int_equal(step_to(&sc->p, "/home/ann")->kind, STEP_PRIVATE);
    sc->s.workspace.writable = false;
    MAKE(sc);
    assert_false(step_to(&sc->p, "/home/ann/proj")->writable);
    assert_int_equal(sc->p.mode, WORKSPACE_RO);
}

static void test_proc(void **state) {
    static const struct {
        const char *path;
        enum step_kind kind;
        bool optional;
    } table[] = {
        {"/proc", STEP_PROC, false},         {"/proc/sys", STEP_PROC_RO, false},    {"/proc/bus", STEP_PROC_RO, true},
        {"/proc/irq", STEP_PROC_RO, true},   {"/proc/fs", STEP_PROC_RO, true},      {"/proc/sysrq-trigger", STEP_MASK, true},
        {"/proc/kcore", STEP_MASK, true},    {"/proc/keys", STEP_MASK, true},       {"/proc/acpi", STEP_MASK, true},
        {"/proc/scsi", STEP_MASK, true},     {"/proc/timer_list", STEP_MASK, true}, {"/proc/key-users", STEP_MASK, true},
        {"/proc/pressure", STEP_MASK, true},
    };
    struct scene *sc = *state;
    const struct step *proc;

    MAKE(sc);
    proc = step_to(&sc->p, "/proc");
    while (proc->kind != STEP_PROC) /* the folder comes first, then what is mounted on it */
        proc++;
    for (size_t i = 1; i < ARRAY_LEN(table); i++) {
        const struct step *s = step_to(&sc->p, table[i].path);

        assert_non_null(s);
        assert_int_equal(s->kind, table[i].kind);
        assert_int_equal(s->optional, table[i].optional); /* a /proc/sys that cannot be covered is a failure */
        assert_true(s > proc);
    }
}

/* apply_root.c fills and seals the root first; what comes after must not lie under anything that comes later. */
static void test_order(void **state) {
    struct scene *sc = *state;
    bool late = false;

    MAKE(sc);
    for (size_t i = 0; i < sc->p.n_steps; i++) {
        const struct step *s = &sc->p.steps[i];
        bool early = s->kind == STEP_DIR || s->kind == STEP_SYMLINK || s->kind == STEP_FILE || s->kind == STEP_RO;

        assert_true(s->to[0] == '/' && s->to[1] != 0);
        assert_false(early && late && !below(s->to, "/run/bawn") &&
                     !below(s->to, sc->p.home)); /* those are made first in any case */
        late |= !early;
        for (size_t k = i + 1; k < sc->p.n_steps; k++) /* a mount hides what was put below it before */
            if (sc->p.steps[k].kind != STEP_DIR && !str_eq(s->to, sc->p.steps[k].to) && below(s->to, sc->p.steps[k].to))
                fail_msg("'%s' comes before '%s'", s->to, sc->p.steps[k].to);
    }
    assert_true(late);
}

static void test_extra_mounts(void **state) {
    struct mount_spec mounts[] = {{(char[]){"/data/models"}, (char[]){"/models"}, false},
                                  {(char[]){"/home/ann/lib"}, (char[]){"/home/ann/lib"}, true}};
    struct scene *sc = *state;
    const struct step *a, *b;

    sc->s.mounts = mounts;
    sc->s.n_mounts = ARRAY_LEN(mounts);
    MAKE(sc);
    a = step_to(&sc->p, "/models");
    b = step_to(&sc->p, "/home/ann/lib");
    assert_true(a && b && a->kind == STEP_EXTRA && b->kind == STEP_EXTRA);
    assert_string_equal(a->from, "/data/models");
    assert_false(a->writable || a->optional);
    assert_true(b->writable);
    assert_true(a > step_to(&sc->p, "/home/ann") && b > step_to(&sc->p, "/home/ann/proj"));
    mounts[0].to[1] = 'X'; /* the plan has its own copies */
    assert_string_equal(a->to, "/models");
}

static void test_merged_usr(void **state) {
    struct scene *sc = *state;

    MAKE(sc);
    assert_int_equal(step_to(&sc->p, "/bin")->kind, STEP_SYMLINK);
    assert_string_equal(step_to(&sc->p, "/bin")->from, "usr/bin");
    assert_string_equal(step_to(&sc->p, "/lib64")->from, "usr/lib64");
    assert_null(step_to(&sc->p, "/lib32"));
    assert_null(step_to(&sc->p, "/libx32"));
}

static void test_split_usr(void **state) {
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(sc->h.root_link); i++)
        sc->h.root_link[i][0] = 0;
    sc->h.root_there[4] = false;
    MAKE(sc);
    assert_int_equal(step_to(&sc->p, "/bin")->kind, STEP_RO);
    assert_string_equal(step_to(&sc->p, "/bin")->from, "/bin");
    assert_int_equal(step_to(&sc->p, "/sbin")->kind, STEP_RO);
    assert_string_equal(step_to(&sc->p, "/lib")->from, "/lib");
    assert_null(step_to(&sc->p, "/lib64"));
}

/* Homes where the sandbox needs the place for something else, or that nobody knows. */
static void test_odd_homes(void **state) {
    static const char *const odd[] = {"/",         "/usr/games", "/bin",   "/dev",       "/proc/1", "/etc/x",
                                      "/run/user", "/sys",       "/lib/x", "/workspace", NULL};
    static const char *const fine[] = {"/var/lib/jenkins", "/srv/ci", "/data/ann", "/usrlocal"};
    struct scene *sc = *state;

    sc->h.workspace = "/work";
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        sc->h.home = sc->h.passwd_home = odd[i];
        MAKE(sc);
        assert_string_equal(sc->p.home, "/home/bawn");
        assert_int_equal(step_to(&sc->p, "/home/bawn")->kind, STEP_PRIVATE);
    }
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        sc->h.home = fine[i];
        MAKE(sc);
        assert_string_equal(sc->p.home, fine[i]);
    }
}

static void test_users_of_the_sandbox(void **state) {
    struct scene *sc = *state;
    const char *passwd, *group;

    MAKE(sc);
    passwd = step_to(&sc->p, "/etc/passwd")->from;
    group = step_to(&sc->p, "/etc/group")->from;
    assert_non_null(strstr(passwd, "\nann:x:1000:1001::/home/ann:"));
    assert_non_null(strstr(group, "\nann:x:1001:\n"));
    sc->h.user = NULL;
    MAKE(sc);
    assert_non_null(strstr(step_to(&sc->p, "/etc/passwd")->from, "\nuser:x:1000:1001:"));
    sc->h.uid = sc->h.workspace_uid = sc->h.workspace_gid = 0;
    MAKE(sc);
    assert_non_null(strstr(step_to(&sc->p, "/etc/passwd")->from, "\nbawn:x:1000:1000::/home/bawn:"));
}

static void test_landlock_rung(void **state) {
    struct scene *sc = *state;

    sc->in.private_dir = "/tmp/bawn-Ab12Cd";
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_string_equal(sc->p.private_dir, "/tmp/bawn-Ab12Cd");
    assert_string_equal(sc->p.home, "/tmp/bawn-Ab12Cd/home");
    assert_string_equal(sc->p.tmp, "/tmp/bawn-Ab12Cd/tmp");
    assert_true(strv_has(&sc->p.env, "HOME=/tmp/bawn-Ab12Cd/home") && strv_has(&sc->p.env, "TMPDIR=/tmp/bawn-Ab12Cd/tmp"));
    assert_true(strv_has(&sc->p.env, "BAWN=landlock"));
    MAKE(sc);
    assert_null(sc->p.private_dir);
    assert_string_equal(sc->p.tmp, "/tmp");
}

static void assert_network_printed(struct scene *sc, const char *text, const char *json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);

    plan_print_text(&sc->p, &sc->s, &b);
    if (!strstr(buf_str(&b), text))
        fail_msg("no \"%s\" in:\n%s", text, buf_str(&b));
    buf_clear(&b);
    plan_print_json(&sc->p, &sc->s, &b);
    if (!strstr(buf_str(&b), json))
        fail_msg("no %s in:\n%s", json, buf_str(&b));
}

static void test_network(void **state) {
    struct scene *sc = *state;

    MAKE(sc);
    assert_false(sc->p.network);
    assert_string_equal(step_to(&sc->p, "/etc/resolv.conf")->from, "# no network\n");
    assert_network_printed(sc, "network            none\n", "\"network\":\"none\"");
    sc->s.net.mode = NETWORK_FULL;
    MAKE(sc);
    assert_true(sc->p.network);
    assert_string_equal(step_to(&sc->p, "/etc/resolv.conf")->from, "nameserver 198.18.0.1\noptions edns0\n");
    assert_network_printed(sc, "network            full, by the gate\n", "\"network\":\"full\"");
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_true(sc->p.network);
    assert_network_printed(sc, "network            full, by the gate\n", "\"network\":\"full\"");
    sc->in.no_network = true;
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_false(sc->p.network);
    assert_network_printed(sc, "network            none: this rung", "\"network\":\"none\"");
}

/* Instead of the host's folder, never beside it; and nothing of the CA but what is for the inside. */
static void test_trust(void **state) {
    struct scene *sc = *state;
    const struct step *certs;
    size_t n = 0;

    sc->in.trust.folder = "/state/ca/taken-1";
    MAKE(sc);
    assert_string_equal(step_to(&sc->p, "/etc/ssl/certs")->from, "/etc/ssl/certs"); /* no network: no use for it */
    sc->s.net.mode = NETWORK_FULL;
    MAKE(sc);
    certs = step_to(&sc->p, "/etc/ssl/certs");
    assert_string_equal(certs->from, "/state/ca/taken-1/certs");
    assert_int_equal(certs->kind, STEP_RO);
    assert_true(certs->ours && !certs->writable);
    for (size_t i = 0; i < sc->p.n_steps; i++)
        n += sc->p.steps[i].from && str_starts(sc->p.steps[i].from, "/state/ca");
    assert_int_equal(n, 1);
    assert_null(step_to(&sc->p, "/home/ann/.pki/nssdb"));
}

/* Without namespaces root becomes the owner of the workspace, to whom root's folders are closed. */
static void test_trust_without_namespaces(void **state) {
    struct scene *sc = *state;

    sc->s.net.mode = NETWORK_FULL;
    sc->in.trust.folder = "/state/ca/taken-1";
    sc->in.private_dir = "/tmp/bawn-run-1";
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_null(sc->p.bundle);
    assert_true(strv_has(&sc->p.env, "SSL_CERT_FILE=/state/ca/taken-1/certs/ca-certificates.crt"));
    sc->h.uid = sc->h.gid = 0;
    sc->h.workspace_uid = sc->h.workspace_gid = 1000;
    assert_int_equal(make(sc, RUNG_LANDLOCK), 0);
    assert_string_equal(sc->p.bundle, "/state/ca/taken-1/certs/ca-certificates.crt");
    for (size_t i = 0; i < sc->p.n_steps; i++)
        assert_false(sc->p.steps[i].from && str_starts(sc->p.steps[i].from, "/state/ca"));
    assert_true(strv_has(&sc->p.env, "SSL_CERT_FILE=/tmp/bawn-run-1/certs/ca-certificates.crt"));
}

static void test_trust_elsewhere(void **state) {
    struct scene *sc = *state;

    sc->s.net.mode = NETWORK_FULL;
    sc->in.trust.folder = "/state/ca/taken-1";
    sc->in.trust.nss = sc->in.trust.pki = true;
    MAKE(sc);
    assert_string_equal(step_to(&sc->p, "/run/bawn/nssdb")->from, "/state/ca/taken-1/nssdb");
    assert_int_equal(step_to(&sc->p, "/home/ann/.pki/nssdb/cert9.db")->kind, STEP_COPY);
    assert_string_equal(step_to(&sc->p, "/home/ann/.pki/nssdb/cert9.db")->from, "/run/bawn/nssdb/cert9.db");
    assert_true(step_to(&sc->p, "/home/ann/.pki/nssdb/cert9.db") >
                step_to(&sc->p, "/run/bawn/nssdb")); /* or it is not there yet */
    assert_string_equal(step_to(&sc->p, "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem")->from,
                        "/state/ca/taken-1/certs/ca-certificates.crt");
    assert_true(step_to(&sc->p, "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem") >
                step_to(&sc->p, "/etc/pki/ca-trust/extracted")); /* or it would be covered */
}

/* Only the network is not its own. */
static void test_shared_net_rung(void **state) {
    struct scene *sc = *state;
    size_t n;

    sc->s.net.mode = NETWORK_FULL;
    MAKE(sc);
    n = sc->p.n_steps;
    assert_int_equal(make(sc, RUNG_SHARED_NET), 0);
    assert_int_equal(sc->p.n_steps, n);
    assert_null(sc->p.private_dir);
    assert_string_equal(sc->p.tmp, "/tmp");
    assert_string_equal(step_to(&sc->p, "/etc/resolv.conf")->from, "nameserver 198.18.0.1\noptions edns0 use-vc\n");
    assert_true(strv_has(&sc->p.env, "BAWN=shared-net") && strv_has(&sc->p.env, "RES_OPTIONS=use-vc"));
}

static void test_rungs(void **state) {
    assert_null(rung_lacks(RUNG_FULL));
    for (int i = RUNG_FULL + 1; i < RUNG_COUNT; i++)
        assert_non_null(strstr(rung_lacks((enum rung)i), "not enforced"));
    for (int i = 0; i < STEP_KIND_COUNT; i++)
        assert_non_null(step_kind_names[i]);
}

static void test_what_is_passed_on(void **state) {
    struct scene *sc = *state;

    sc->s.limits.timeout_ms = 7;
    sc->s.limits.swap = 8;
    MAKE(sc);
    assert_int_equal(sc->p.umask_, 027);
    assert_int_equal(sc->p.landlock_abi, 4);
    assert_ptr_equal(sc->p.argv, sc->argv);
    assert_int_equal(sc->p.argc, 2);
    assert_int_equal(sc->p.limits.cpus_milli, 2000);
    assert_int_equal(sc->p.limits.pids, 256);
    assert_int_equal(sc->p.limits.timeout_ms, 7);
    assert_int_equal(sc->p.limits.swap, 8);
}

static const char *string_at(json_t *j, const char *key) {
    const char *s = json_string_value(json_object_get(j, key));

    if (!s)
        fail_msg("no string '%s'", key);
    return s;
}

static json_t *printed(const struct scene *sc) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    json_error_t why;
    json_t *j;

    plan_print_json(&sc->p, &sc->s, &b);
    assert_true(buf_ok(&b) && str_ends(buf_str(&b), "}\n"));
    j = json_loads(buf_str(&b), JSON_REJECT_DUPLICATES, &why);
    if (!j)
        fail_msg("%s at %d in %s", why.text, why.position, buf_str(&b));
    return j;
}

static void test_json(void **state) {
    struct scene *sc = *state;
    json_t *j, *limits;

    sc->s.origin[SETTING_MEMORY] = (char[]){"flag --memory"};
    sc->s.limits.cpus_milli = 1005;
    MAKE(sc);
    j = printed(sc);
    limits = json_object_get(j, "limits");
    assert_string_equal(string_at(j, "engine"), "native");
    assert_string_equal(string_at(j, "rung"), "full");
    assert_string_equal(string_at(j, "workspace"), "/home/ann/proj");
    assert_true(json_is_null(json_object_get(j, "profile")));
    assert_int_equal(json_integer_value(json_object_get(limits, "memory")), 4 * G);
    assert_true(json_real_value(json_object_get(limits, "cpus")) == 1.005);
    assert_int_equal(json_integer_value(json_object_get(j, "inside_uid")), 1000);
    assert_int_equal(json_array_size(json_object_get(j, "files")), sc->p.n_steps);
    assert_int_equal(json_array_size(json_object_get(j, "env")), sc->p.env.len);
    assert_string_equal(string_at(json_object_get(j, "origin"), "resources.memory"), "flag --memory");
    assert_int_equal(json_object_size(json_object_get(j, "origin")), SETTING_COUNT);
    json_decref(j);
}

/* Names of files and arguments are bytes; what is printed is JSON all the same. */
static void test_json_with_odd_bytes(void **state) {
    struct mount_spec mount = {(char[]){"/d\"\\\x01"}, (char[]){"/m\xc3"}, false};
    struct env_spec env = {(char[]){"ODD"}, (char[]){"\xe2\x80\xae\x1b]0;\a\"'\n"}};
    struct scene *sc = *state;
    json_t *j, *command;

    sc->argv[0] = (char[]){"\xff\xfe\"\\\n\t\x7f"};
    sc->argv[1] = (char[]){"a\xc3\xa4\xf0\x9f\x98\x80"};
    sc->h.workspace = "/home/ann/\"quoted\"\n\x1b[31m";
    sc->s.profile = (char[]){"\x80"};
    sc->s.mounts = &mount;
    sc->s.env = &env;
    sc->s.n_mounts = sc->s.n_env = 1;
    sc->s.origin[SETTING_MOUNTS] = (char[]){"profile \"\xc0\""};
    MAKE(sc);
    j = printed(sc);
    command = json_object_get(j, "command");
    assert_string_equal(string_at(j, "workspace"), sc->h.workspace);
    assert_string_equal(json_string_value(json_array_get(command, 0)), "\xef\xbf\xbd\xef\xbf\xbd\"\\\n\t\x7f");
    assert_string_equal(json_string_value(json_array_get(command, 1)), sc->argv[1]);
    json_decref(j);
}

/* The same for people: no byte of it can reprogram a terminal or forge a line. */
static void test_text_with_odd_bytes(void **state) {
    CLEANUP(buf_done) struct buf plain = BUF_INIT(1 << 20), odd = BUF_INIT(1 << 20);
    struct env_spec env = {(char[]){"X"}, (char[]){"1"}};
    struct scene *sc = *state;
    size_t lines[2] = {0, 0};

    sc->s.env = &env;
    sc->s.n_env = 1;
    MAKE(sc);
    plan_print_text(&sc->p, &sc->s, &plain);
    env.value = (char[]){"\x1b[2J\nnetwork   full\xc2\x9b"};
    sc->argv[1] = (char[]){"\x1b]0;x\a\n\xff"};
    sc->h.workspace = "/home/ann/\x1b\n\x9b";
    MAKE(sc);
    plan_print_text(&sc->p, &sc->s, &odd);
    for (const char *p = buf_str(&plain); *p; p++)
        lines[0] += *p == '\n';
    for (const char *p = buf_str(&odd); *p; p++) {
        lines[1] += *p == '\n';
        assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
    }
    assert_true(str_is_utf8(buf_str(&odd)));
    assert_int_equal(lines[0], lines[1]);
}

/* The facts of this very host, with a HOME that reaches the workspace by another name. */
static void test_home_by_another_name(void **state) {
    CLEANUP(strv_done) struct strv owned = {0};
    char top[] = "/var/tmp/bawn-plan-XXXXXX", real[64], other[64], *old = getenv("HOME") ? strdup(getenv("HOME")) : NULL,
         cwd[PATH_MAX];
    static const char *const names[] = {"%s/link", "%s/real", "%s//real", "%s/./real", "%s/real/", "%s/x/../real"};
    struct scene *sc = *state;

    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_non_null(mkdtemp(top));
    snprintf(real, sizeof real, "%s/real", top);
    snprintf(other, sizeof other, "%s/x", top);
    assert_int_equal(mkdir(real, 0755), 0);
    assert_int_equal(mkdir(other, 0755), 0);
    snprintf(other, sizeof other, "%s/link", top);
    assert_int_equal(symlink(real, other), 0);
    assert_int_equal(chdir(real), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char home[80];

        snprintf(home, sizeof home, names[i], top);
        setenv("HOME", home, 1);
        assert_int_equal(host_facts(&sc->h, &owned, &sc->err), 0);
        assert_string_equal(sc->h.workspace, real);
        if (make(sc, RUNG_FULL) != -EPERM)
            fail_msg("HOME=%s is not recognised", home);
    }
    setenv("HOME", "/var/tmp", 1);
    assert_int_equal(host_facts(&sc->h, &owned, &sc->err), 0);
    MAKE(sc);
    if (old)
        setenv("HOME", old, 1);
    free(old);
    assert_int_equal(chdir(cwd), 0);
    unlink(other);
    rmdir(real);
    snprintf(other, sizeof other, "%s/x", top);
    rmdir(other);
    assert_int_equal(rmdir(top), 0);
}

#define PLAN_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static bool has_env(const struct plan *p, const char *item) {
    return strv_has(&p->env, item);
}

/* Sockets and files instead of the user's keys, and variables that the settings cannot take back. */
static void test_credentials(void **state) {
    struct scene *sc = *state;
    struct env_spec named[] = {{.name = (char[]){"API_KEY"}, .value = (char[]){"the real one"}}};
    CLEANUP(strv_done) struct strv env = {0};
    const struct step *s;

    assert_int_equal(strv_add(&env, "API_KEY=placeholder"), 0);
    assert_int_equal(strv_add(&env, "SSH_AUTH_SOCK=" PLAN_SSH_SOCKET), 0);
    sc->s.net.mode = NETWORK_LIST;
    sc->s.env = named;
    sc->s.n_env = 1;
    sc->in.credentials.env = &env;
    sc->in.credentials.ssh_socket = "/run/user/1000/bawn/in-1-2/ssh-agent.sock";
    sc->in.credentials.known_hosts = "host ssh-ed25519 AAAA\n";
    sc->in.credentials.gitignore = "*.swp\n";
    sc->in.credentials.program = "/usr/libexec/bawn/bawn-inside";
    MAKE(sc);
    assert_true(has_env(&sc->p, "API_KEY=placeholder"));
    assert_false(has_env(&sc->p, "API_KEY=the real one"));
    assert_true(has_env(&sc->p, "SSH_AUTH_SOCK=/run/bawn/ssh-agent.sock"));
    assert_true(has_env(&sc->p, "BROWSER=/run/bawn/bin/xdg-open"));
    assert_true(has_env(&sc->p, "PATH=/usr/bin:/bin:/run/bawn/bin"));
    s = step_to(&sc->p, PLAN_SSH_SOCKET);
    assert_true(s && s->kind == STEP_RO && s->ours && str_eq(s->from, sc->in.credentials.ssh_socket));
    assert_null(step_to(&sc->p, PLAN_CREDENTIAL_SOCKET));
    s = step_to(&sc->p, "/home/ann/.ssh");
    assert_true(s && s->kind == STEP_DIR && s->mode == 0700);
    s = step_to(&sc->p, "/home/ann/.ssh/known_hosts");
    assert_true(s && s->kind == STEP_SYMLINK && str_eq(s->from, "/run/bawn/known_hosts"));
    s = step_to(&sc->p, "/run/bawn/known_hosts");
    assert_true(s && s->kind == STEP_FILE && s->mode == 0444 && str_eq(s->from, sc->in.credentials.known_hosts));
    assert_non_null(step_to(&sc->p, "/home/ann/.gitignore_global"));
    s = step_to(&sc->p, PLAN_INSIDE_BIN "/bawn-inside");
    assert_true(s && s->kind == STEP_RO && s->ours);

    sc->s.net.mode = NETWORK_NONE; /* no gate: nothing would answer */
    MAKE(sc);
    assert_true(has_env(&sc->p, "API_KEY=the real one"));
    assert_true(has_env(&sc->p, "PATH=/usr/bin:/bin"));
    assert_null(step_to(&sc->p, PLAN_SSH_SOCKET));
    assert_null(step_to(&sc->p, "/home/ann/.ssh"));
    assert_null(step_to(&sc->p, PLAN_INSIDE_BIN "/bawn-inside"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PLAN_TEST(test_kept_home),
        PLAN_TEST(test_refused_workspaces),
        PLAN_TEST(test_refused_homes),
        PLAN_TEST(test_refused_own_folders),
        PLAN_TEST(test_accepted_workspaces),
        PLAN_TEST(test_ids),
        PLAN_TEST(test_root_is_never_root),
        PLAN_TEST(test_private_size),
        PLAN_TEST(test_tmp_size),
        PLAN_TEST(test_tmp_on_disk),
        PLAN_TEST(test_nothing_private_is_shared),
        PLAN_TEST(test_what_is_writable),
        PLAN_TEST(test_proc),
        PLAN_TEST(test_order),
        PLAN_TEST(test_extra_mounts),
        PLAN_TEST(test_merged_usr),
        PLAN_TEST(test_split_usr),
        PLAN_TEST(test_odd_homes),
        PLAN_TEST(test_users_of_the_sandbox),
        PLAN_TEST(test_landlock_rung),
        PLAN_TEST(test_shared_net_rung),
        PLAN_TEST(test_network),
        PLAN_TEST(test_credentials),
        PLAN_TEST(test_trust),
        PLAN_TEST(test_trust_elsewhere),
        PLAN_TEST(test_trust_without_namespaces),
        PLAN_TEST(test_rungs),
        PLAN_TEST(test_what_is_passed_on),
        PLAN_TEST(test_json),
        PLAN_TEST(test_json_with_odd_bytes),
        PLAN_TEST(test_text_with_odd_bytes),
        PLAN_TEST(test_home_by_another_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
