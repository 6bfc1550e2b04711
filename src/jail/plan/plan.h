/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a sandbox: plain data, made from the settings and facts about the host, without touching anything.
 * `bawn run --dry-run` prints it, unit tests read it, apply.c carries it out step by step.
 */
#pragma once

#include <sys/types.h>

#include "base/strv.h"
#include "config/settings.h"
#include "jail/plan/limits.h"

struct err;
struct buf;

/* How strong the wall is. */
enum rung {
    RUNG_FULL,     /* all namespaces, own root, seccomp, Landlock where the kernel has it */
    RUNG_LANDLOCK, /* no user namespaces: files by Landlock, no sockets by seccomp, limits */
    RUNG_COUNT
};
extern const char *const rung_names[RUNG_COUNT];
/* What this rung does not keep, as a clause for the user; NULL for the full one. */
const char *rung_lacks(enum rung rung);

enum step_kind {
    STEP_DIR,        /* an empty directory of the read-only root, or of a private one; mode 0: 0755 */
    STEP_SYMLINK,    /* from: its target */
    STEP_FILE,       /* from: its content */
    STEP_COPY,       /* a file of the sandbox's own, copied from another path inside, which an earlier step has put there */
    STEP_RO,         /* host path, read-only, with whatever is mounted below */
    STEP_PRIVATE,    /* writable directory of the sandbox's own; mode in `mode` */
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
    STEP_HIDE_AGAIN, /* STEP_HIDE in such a mount, where the workspace is seen a second time; from: where it is seen */
    STEP_KIND_COUNT
};
extern const char *const step_kind_names[STEP_KIND_COUNT];

#define PLAN_SSH_SOCKET "/run/bawn/ssh-agent.sock"
#define PLAN_CREDENTIAL_SOCKET "/run/bawn/credentials.sock"
#define PLAN_INSIDE_BIN "/run/bawn/bin"

struct step {
    enum step_kind kind;
    const char *to;   /* path inside, absolute */
    const char *from; /* see the kinds; may be NULL */
    bool optional;    /* what does not exist on the host is left out */
    bool writable;    /* workspace and extra mounts */
    bool ours;        /* read-only: a folder of Bawn's own, which may lie behind others that only its user enters */
    bool at_home;     /* below a home that is kept: what is there was made by the inside, so no link is followed (apply_home.c) */
    mode_t mode;
};

struct plan_ids {
    uid_t inside_uid, host_uid, workspace_uid;
    gid_t inside_gid, host_gid, workspace_gid;
    bool by_root;     /* started by root: mounts of the user's files are idmapped */
    bool host_root;   /* landlock rung: host_uid 0 would be the host's own root */
    const char *user; /* name inside */
};

/* What has to be known of the host. host_facts() asks it; tests write it down. */
struct host_facts {
    uid_t uid;
    gid_t gid;
    pid_t pid;
    bool host_root;          /* uid is 0 and that is the host's root, not the root of a user namespace */
    const char *user;        /* login name; NULL: unknown */
    const char *home;        /* $HOME, or else the one of /etc/passwd; canonical; NULL: unknown */
    const char *passwd_home; /* the one of /etc/passwd; canonical; NULL: unknown */
    const char *workspace;   /* absolute, canonical */
    const char *own_inside;  /* a path of Bawn's own that leads into the workspace (own.h); NULL: none */
    uid_t workspace_uid;
    gid_t workspace_gid;
    const struct strv *hidden;          /* paths below the workspace that .sandboxignore hides now; may be NULL */
    const struct elsewheres *elsewhere; /* where else parts of the workspace are seen (elsewhere.h); may be NULL */
    const char *run_dir;           /* overlay, sync, worktree: the run's folder (workspace/run/rundir.h); NULL in a dry run */
    const char *git_objects;       /* worktree: the repository's object store */
    const char *git_config;        /* the user's git configuration for the inside; NULL: none */
    const char *hostname;          /* kept sandboxes: their name; NULL: "bawn" */
    const char *kept_home;         /* kept sandboxes: the folder that is their home; NULL: a new one in memory */
    const char *caches;            /* folder of the project's caches; NULL: none */
    const struct strv *agent_home; /* pairs: a folder of the host's, and where it is below the home inside; may be NULL */
    const char *trust;          /* folder of the sandbox's CA (supervisor/credential/castock.h); NULL: none. See host_trust() */
    bool trust_nss, trust_pki;  /* it has nssdb/; the host keeps its certificates as Fedora does */
    const struct strv *volumes; /* folder of each of the settings' volumes; may be NULL */
    /* Credentials (supervisor/credential/credentials.h), where there is a gate; each may be NULL. */
    const struct strv *grants_env;              /* NAME=value: these win over the settings' */
    const char *ssh_socket, *credential_socket; /* listeners of the host's, for PLAN_SSH_SOCKET and PLAN_CREDENTIAL_SOCKET */
    const char *known_hosts, *gitignore;        /* content of ~/.ssh/known_hosts and ~/.gitignore_global */
    const char *inside_program;                 /* bawn-inside, for PLAN_INSIDE_BIN */
    mode_t umask_;
    int landlock_abi;
    const char *private_dir; /* landlock rung: where home and /tmp are */
    char *const *environ_;
    char root_link[6][64]; /* where /bin /sbin /lib /lib32 /lib64 /libx32 lead, "" if it is no symlink */
    bool root_there[6];
};
extern const char *const plan_root_names[6];

/* A cache in the sandbox's home: a link to a folder of the caches' volume; sub NULL: in ~/.cache by itself. */
struct plan_cache {
    const char *link, *sub;
};
extern const struct plan_cache plan_caches[];
extern const size_t n_plan_caches;

struct plan {
    enum rung rung;
    struct plan_ids ids;
    struct limits limits;
    uint64_t private_size; /* bytes for all private areas together */
    struct step *steps;
    size_t n_steps, cap_steps;
    const char *hostname, *workspace, *home, *tmp, *private_dir; /* private_dir: landlock rung only */
    bool home_kept;
    enum workspace_mode mode;
    bool network; /* connections lead to the gate; false: to nothing but the sandbox itself */
    mode_t umask_;
    int landlock_abi;
    struct strv env;
    char **argv; /* borrowed */
    size_t argc;
    struct strv owned; /* strings the steps point to */
};

int host_facts(struct host_facts *ret, struct strv *owned, struct err *err);
void host_trust(struct host_facts *f, const char *trust); /* borrows the path */
bool host_is_root(void); /* the caller is root of the host, not only of a user namespace such as a rootless container's */
int plan_make(const struct settings *s, const struct host_facts *h, enum rung rung, char **argv, size_t argc, struct plan *ret,
              struct err *err);
void plan_done(struct plan *p);

void plan_print_text(const struct plan *p, const struct settings *s, struct buf *out);
void plan_print_json(const struct plan *p, const struct settings *s, struct buf *out);

/* Shared by the files that make the plan. */
int plan_add(struct plan *p, struct step step, struct err *err);
const char *plan_own(struct plan *p, char *s); /* takes s; NULL if s is NULL or memory runs out */
int plan_make_env(const struct settings *s, const struct host_facts *h, struct plan *p, struct err *err);
int plan_make_home(const struct host_facts *h, struct plan *p, struct err *err);
int plan_make_trust(const struct host_facts *h, struct plan *p,
                    struct err *err); /* the sandbox's CA, for those who look for files */
int plan_make_credentials(const struct host_facts *h, struct plan *p, struct err *err);
int plan_make_root(const struct settings *s, const struct host_facts *h, struct plan *p, struct err *err);
