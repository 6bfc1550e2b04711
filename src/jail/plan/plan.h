/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a sandbox: plain data, made from the settings, facts about the host and what the stages of a run made ready,
 * without touching anything.
 * `bawn run --dry-run` prints it, unit tests read it, apply.c carries it out step by step.
 */
#pragma once

#include <sys/types.h>

#include "base/strv.h"
#include "config/limits.h"
#include "config/settings.h"
#include "jail/plan/facts.h"
#include "jail/plan/plan_image.h"
#include "os/lookalike.h"
#include "os/user/subid.h"

struct err;
struct buf;

/* How strong the wall is. */
enum rung {
    RUNG_FULL,       /* all namespaces, own root, seccomp, Landlock where the kernel has it */
    RUNG_SHARED_NET, /* the same in the host's network: sockets by the guard */
    RUNG_LANDLOCK,   /* no namespaces: files by Landlock, sockets by the guard, limits */
    RUNG_COUNT
};
extern const char *const rung_names[RUNG_COUNT];
/* It has a root of its own, with mounts, and a pid namespace. */
static inline bool rung_has_root(enum rung rung) {
    return rung != RUNG_LANDLOCK;
}
/* What this rung does not enforce, as a clause for the user; NULL for the full one. */
const char *rung_lacks(enum rung rung);

enum step_kind {
    STEP_DIR,        /* an empty directory of the read-only root, or of a private one; mode 0: 0755 */
    STEP_SYMLINK,    /* from: its target */
    STEP_FILE,       /* from: its content */
    STEP_COPY,       /* a file of the sandbox's own, copied from another path inside, which an earlier step has put there */
    STEP_RO,         /* host path, read-only, with whatever is mounted below */
    STEP_PRIVATE,    /* writable directory of the sandbox's own; mode in `mode`; from: see on_disk */
    STEP_DEVICE,     /* host device node */
    STEP_PTS,        /* own devpts */
    STEP_PROC,       /* own procfs */
    STEP_PROC_RO,    /* a part of /proc, read-only */
    STEP_MASK,       /* a part of /proc, hidden */
    STEP_WORKSPACE,  /* the current directory of the supervisor */
    STEP_HIDE,       /* a file or folder of the workspace, covered by an empty one that cannot be opened */
    STEP_OVERLAY,    /* the workspace, copy-on-write; from: the run's folder, with upper/ and work/ */
    STEP_WHITEOUT,   /* overlay: a file or folder of the workspace that does not exist inside; from: its path in there */
    STEP_SUBSTITUTE, /* a file of the workspace in place of another; from: its path in there */
    STEP_EXTRA,      /* a mount the user asked for */
    STEP_LAYER,      /* an image's layer, a part of the root; the topmost comes first */
    STEP_UPPER,      /* what the root is written to (plan_system.h); from: the system's folder */
    STEP_COW,        /* a folder of the host's or of ours, copy-on-write; its layer is in the system's folder */
    STEP_HIDE_AGAIN, /* STEP_HIDE in such a mount, where the workspace is seen a second time; from: where it is seen */
    STEP_KIND_COUNT
};
extern const char *const step_kind_names[STEP_KIND_COUNT];

#define PLAN_SSH_SOCKET "/run/bawn/ssh-agent.sock"
#define PLAN_CREDENTIAL_SOCKET "/run/bawn/credentials.sock"
enum { PLAN_SOCKETS = 2 };     /* these two, in this order */
#define PLAN_PRIVATE "private" /* of the state folder: what home and /tmp on disk are in */
#define PLAN_INSIDE_BIN "/run/bawn/bin"
#define PLAN_NESTED_BIN "/run/bawn/nested"

struct step {
    enum step_kind kind;
    const char *to;   /* path inside, absolute */
    const char *from; /* see the kinds; may be NULL */
    bool optional;    /* what does not exist on the host is left out */
    bool writable;    /* workspace and extra mounts */
    bool ours; /* a folder of Bawn's own, which may lie behind others that only its user enters; writable: shared by sandboxes */
    bool on_disk; /* STEP_PRIVATE: `from` is its folder on the host; else it is in memory */
    bool at_home; /* below a persistent home: what is there was made by the inside, so no link is followed (apply_home.c) */
    mode_t mode;
    struct lookalike_range tracked; /* STEP_HIDE, STEP_WHITEOUT: what git tracks there is not absent but a lookalike */
};

struct plan_ids {
    uid_t inside_uid, host_uid, workspace_uid;
    gid_t inside_gid, host_gid, workspace_gid;
    struct id_range more_uids, more_gids; /* what 1 and up inside are outside (plan_system.h); none: there is one id */
    bool by_root;                         /* started by root: mounts of the user's files are idmapped */
    bool host_root;                       /* landlock rung: host_uid 0 would be the host's own root */
    const char *user;                     /* name inside */
};

/* There are several ids inside. */
static inline bool plan_ids_many(const struct plan_ids *ids) {
    return ids->more_uids.n > 0;
}

/* What the stages of a run have made ready before the plan is. Everything is borrowed, and may be NULL. */
struct plan_input {
    struct {
        const struct strv *hidden;          /* paths below the workspace that .sandboxignore hides now */
        const struct lookalikes *tracked;   /* of these, what git tracks */
        const struct elsewheres *elsewhere; /* where else parts of the workspace are seen (elsewhere.h) */
        const struct strv *volumes;         /* folder of each of the settings' volumes */
        const char *run_dir; /* overlay, sync, worktree: the run's folder (workspace/run/rundir.h); NULL in a dry run */
    } workspace;
    struct {
        const char *objects; /* worktree: the repository's object store */
        const char *config;  /* the user's git configuration for the inside */
        const char *ignore;  /* what git is to ignore in all repositories */
    } git;
    struct {
        const char *persistent;         /* persistent sandboxes: the folder that is their home; NULL: a new one in memory */
        const char *caches;             /* folder of the project's caches */
        const struct strv *agent;       /* pairs: a folder of the host's, and where it is below the home inside */
        const struct strv *agent_env;   /* variables for the credential of an agent that is the command; NULL: it is none */
        const struct plan_tools *tools; /* programs of the user's home (plan_tools.h); NULL: there is no word about programs */
    } home;
    struct {
        const char *folder; /* the sandbox's CA (supervisor/credential/castock.h). See plan_input_trust() */
        bool nss, pki;      /* it has nssdb/; the host has its certificates where Fedora has them */
    } trust;
    struct {                                        /* supervisor/credential/credentials.h, where there is a gate */
        const struct strv *env;                     /* NAME=value: these win over the settings' */
        const char *ssh_socket, *credential_socket; /* listeners of the host's, for PLAN_SSH_SOCKET and PLAN_CREDENTIAL_SOCKET */
        const char *known_hosts, *gitignore;        /* content of ~/.ssh/known_hosts and ~/.gitignore_global */
        const char *program;                        /* bawn-inside, for PLAN_INSIDE_BIN */
    } credentials;
    const struct plan_image *image; /* NULL: inside are the programs of the host */
    const char *system_dir;         /* settings with a writable system: its folder (plan_system.h); NULL in a dry run */
    struct {
        struct id_range uids, gids; /* of a writable system that has several ids (ops/run/run_ids.h) */
    } more;
    const char *hostname;    /* persistent sandboxes: their name; NULL: "bawn" */
    const char *private_dir; /* landlock rung, and home and /tmp on disk: the folder that they are in; NULL in a dry run */
    bool nested;             /* a container engine runs inside (plan_nested.c) */
    bool no_network;         /* whatever the settings say: landlock rung without a guard */
    bool unmapped;           /* ids inside are the host's: containers without a user namespace of their own */
    pid_t pid;               /* of the supervisor: ids of sandboxes that root starts come from it */
    char **argv;
    size_t argc;
};

/* A cache in the sandbox's home: a link to a folder of the caches' volume; sub NULL: in ~/.cache by itself. variable: names that folder instead, where
 * folders on the way to the link would be on disk (plan_bare.c); NULL: its tool has none. */
struct plan_cache {
    const char *link, *sub, *variable;
};
extern const struct plan_cache plan_caches[];
extern const size_t n_plan_caches;

#define PLAN_BARE_GITCONFIG "gitconfig"
#define PLAN_CERTS "certs"
#define PLAN_BUNDLE "ca-certificates.crt"

struct plan {
    enum rung rung;
    struct plan_ids ids;
    struct limits limits;
    uint64_t private_size; /* bytes for all private areas in memory together */
    uint64_t tmp_size; /* home and /tmp are in private_dir, on disk, and may have so many bytes; 0: in memory, or not watched */
    struct step *steps;
    size_t n_steps, cap_steps;
    const struct plan_image *image;                              /* borrowed; NULL: none */
    const char *cwd;                                             /* of the command */
    const char *hostname, *workspace, *home, *tmp, *private_dir; /* private_dir: NULL where nothing is in it */
    const char *run, *bin; /* landlock rung: what /run/bawn and PLAN_INSIDE_BIN are (plan_bare.c) */
    const char *
        bundle; /* of certificates, which is copied to private_dir/PLAN_CERTS: root's folders are closed to the owner of the workspace */
    bool home_persistent;
    bool writable_system; /* plan_system.h */
    bool nested;          /* plan_nested.c */
    enum workspace_mode mode;
    bool network; /* connections lead to the gate; false: to nothing but the sandbox itself */
    mode_t umask_;
    int landlock_abi;
    struct strv env;
    char **argv; /* borrowed */
    size_t argc;
    struct strv owned; /* strings the steps point to */
    bool failed;       /* memory ran out while something was added: plan_make() says so once */
};

/* Home and /tmp need a folder on disk of this size at this rung; 0: they do not. */
uint64_t plan_tmp_on_disk(const struct settings *s, enum rung rung);
void plan_input_trust(struct plan_input *in, const char *folder); /* looks at what is in there and borrows the path */
/* Whether the folder can be a workspace at all; plan_make() asks, too. It comes before its files are looked at, which may be a whole home. */
int plan_check_workspace(const struct host_facts *h, struct err *err);
int plan_make(const struct settings *s, const struct host_facts *h, const struct plan_input *in, enum rung rung, struct plan *ret,
              struct err *err);
void plan_done(struct plan *p);
/* The sandbox is on another kernel: the sockets of the host's become links to some that are made inside, in a folder of their own. */
void plan_own_sockets(struct plan *p);
/* On another machine, where no file of this one is: an id that every engine there has, also one without root, which has 65536. -ENOMEM */
int plan_use_small_ids(struct plan *p);
bool plan_is_socket(const struct step *s); /* one of the host's, for PLAN_SSH_SOCKET or PLAN_CREDENTIAL_SOCKET */
const char *plan_own_socket(const struct plan *p, size_t i); /* where that is; NULL: there is none */

void plan_print_text(const struct plan *p, const struct settings *s, struct buf *out);
void plan_print_json(const struct plan *p, const struct settings *s, struct buf *out);

/* Paths of the host that the root of a sandbox without an image is made of; what does not exist is among them. -ENOMEM */
int plan_host_paths(struct strv *ret);

/* Shared by the files that make the plan. Adding sets p->failed when memory runs out. */
void plan_add(struct plan *p, struct step step);
/* The same with strings that were made for it, which it takes. One that is NULL is out of memory; only STEP_DIR has no `from`. */
void plan_add_own(struct plan *p, struct step step, char *to, char *from);
const char *plan_own(struct plan *p, char *s); /* takes s; NULL if s is NULL or memory runs out */
int plan_make_env(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                  struct err *err);
/* Read-only: the file is in the sealed root, and the name in the home leads to it. */
void plan_add_home_file(struct plan *p, const char *name, const char *in_run, const char *content);
void plan_make_home(const struct plan_input *in, struct plan *p);
void plan_make_trust(const struct plan_input *in, struct plan *p); /* the sandbox's CA, for programs that look for files */
void plan_make_credentials(const struct plan_input *in, struct plan *p);
void plan_make_bare_home(const struct plan_input *in, struct plan *p); /* plan_bare.c: all of it in the landlock rung */
bool plan_bare_has_folders(const struct plan *p); /* caches and the like; root's are closed to the owner of the workspace */
const char *plan_bin(const struct plan *p);       /* where the programs of Bawn's own are inside */
void plan_nested_ids(struct plan_ids *ids);
void plan_make_nested(struct plan *p); /* what a container engine inside needs */
int plan_make_root(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                   struct err *err);
