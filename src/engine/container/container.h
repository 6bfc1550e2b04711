/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker and podman: another engine makes the container, over the arguments of its command-line program, which are the same for both and for
 * every place that it may talk to. Inside is what is inside of a native sandbox: bawn-enter makes the listeners, takes the descriptors of bawn-init
 * from a socket that is mounted into the container, and becomes it. From then on the supervisor cannot tell the difference.
 *
 * Theory of operation. The plan of the run (jail/plan/plan.h) is translated step by step: what it takes from the host or from the run's folder is a
 * bind mount, private areas are tmpfs, small files are written into a folder of this run and mounted from there, and what is made in the private
 * areas goes to bawn-enter as a list. The root is the image that the user names, or one with harmless parts of the host's /etc and the names of its
 * other folders, which are mounted read-only: no registry is needed. The root of the container is read-only, it has no network, no capability once bawn-enter has
 * become bawn-init, and cannot gain any.
 *
 * The engine's own program is a child of ours and dies with us; so does the container, because bawn-init ends when our end of its socket is closed.
 * What a killed supervisor leaves is found by the label of its process, and removed by the next one.
 */
#pragma once

#include <limits.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "base/strv.h"
#include "engine/engine.h"

/* Where things are inside. */
#define CONTAINER_RUN "/run/bawn"
#define CONTAINER_LINK "/run/bawn-link"
#define CONTAINER_ENTER "/run/bawn-link/bawn-enter"
#define CONTAINER_INIT "/run/bawn-link/bawn-init"
#define CONTAINER_BIN "/run/bawn-bin" /* our programs, where they are in the image of the host's root */
#define CONTAINER_LABEL_OURS "bawn."  /* how ours begin */
#define CONTAINER_LABEL CONTAINER_LABEL_OURS "owner"
#define CONTAINER_HOST_IMAGE "localhost/bawn/host:latest" /* of `bawn image from-host --to docker` */
#define CONTAINER_CID "cid" /* in the folder of the run: the engine's program makes it before the container */

struct container_box;
enum { CONTAINER_WHERE = 120 };

struct container_kind {
    const char *name, *program;  /* of the engine; whose command line it is */
    const char *const *options;  /* of `run`, that only this one has; NULL-terminated */
    bool by_bytes;               /* its containers are on a kernel of their own: descriptors cannot be handed over */
    bool own_rlimits;            /* it would set limits of its own, which may be more than the user may have */
    const char *const *of_users; /* options of `run` for those who are not root; NULL-terminated */
    const char *const *of_runsc; /* the same, with gVisor's runtime; NULL: none */
    const char *label_format;    /* of `ps`: "ID LABEL" */
    bool makes_itself; /* no daemon does it: killed on the way it leaves processes and groups that its own `rm` does not find */
    /* No engine but the program itself: writes what that starts, and its arguments; NULL: `run` */
    int (*bundle)(struct container_box *b, const struct engine_request *req, struct err *err);
};
extern const struct container_kind container_docker, container_podman, container_gvisor;

/* -- container_plan.c: what the container is made of; nothing is touched ------------------------------------------------------------- */

struct container_mount {
    char *from, *to;
    bool writable, ours; /* ours: a folder or file of Bawn's own */
    bool shared;         /* with other sandboxes, now or later */
};

struct container_file { /* that is written into the folder of the run, and mounted from there */
    char *name;         /* in that folder: "files/N", or "run/NAME" */
    const char *content;
    bool link;     /* content is its target */
    bool in_image; /* of the host's root, instead: name is the path there, without the first slash */
    mode_t mode;
};

struct container_private { /* a folder of the sandbox's user */
    char *path;
    mode_t mode;
    bool tmpfs; /* else it is in one, and the engine makes it for a mount */
};

struct container_plan {
    struct container_mount *mounts;
    struct container_file *files;
    struct container_private *privates;
    size_t n_mounts, n_files, n_privates;
    struct strv root_links;    /* pairs: name in the root, target; only for a root of the host's own */
    struct strv layers;        /* of an image of the store, topmost first; only for runsc */
    struct strv root_parts;    /* of the host's /etc, which are in the image instead of being mounted */
    struct strv root_programs; /* of ours, on the host, which are in the image, too */
    struct sha256 root_hash;
    struct buf list; /* for bawn-enter (proto/entermsg.h) */
    bool failed;     /* memory ran out */
};
#define CONTAINER_PLAN_INIT \
    { .list = BUF_INIT(8 * 1024 * 1024) }

enum container_root {
    ROOT_OF_IMAGE, /* the image that the user names has a system of its own, so that nothing of the host's is mounted */
    ROOT_OF_HOST,  /* the host's: parts of /etc are in an image of ours (container_root.c), the rest is mounted */
    ROOT_OF_MOUNTS /* the host's, without any image */
};
/* folder: of this run on the host. */
int container_plan_make(const struct plan *p, const char *folder, enum container_root root, struct container_plan *ret,
                        struct err *err);
void container_plan_done(struct container_plan *c);

/* -- container_argv.c: the arguments of `docker run` --------------------------------------------------------------------------------- */

struct container_names {
    const char *image, *label; /* label: the supervisor's, see container_folder.c */
    const char *folder;        /* of this run on the host */
    const char *enter, *init;  /* our programs on the host */
    bool selinux;              /* mounts need labels */
    bool by_bytes;             /* the link is the container's own standard input and output */
    bool own_kernel;           /* gVisor's */
    bool remote;               /* on another machine: volumes instead of mounts, and `bawn-init --far` comes first */
    const struct strv *flags;  /* of the user's (SANDBOX_FLAGS), checked; may be NULL */
};
int container_argv_make(const struct container_kind *k, const struct plan *p, const struct container_plan *c,
                        const struct container_names *n, struct strv *ret, struct err *err);

/* -- container_root.c: the image for a root of the host's own ------------------------------------------------------------------------------ */

/* Puts a file or folder of the host into it; false: that is not possible, mount it. */
bool container_root_take(struct container_plan *c, const char *path);
/* The same for a program of ours. */
bool container_root_program(struct container_plan *c, const char *path);
/* Its name; and what `import` reads to make it (a tar file). */
int container_root_name(const struct container_plan *c, char ret[static 32]);
int container_root_tar(const struct container_plan *c, struct buf *ret);
extern const char *const container_root_folders[]; /* in it; NULL-terminated */

/* -- container_flags.c: what the user adds to the arguments ---------------------------------------------------------------------------- */

struct container_flags_rules {
    const struct strv *allowed; /* of the user's own configuration; may be NULL */
    const char *workspace;      /* none of its programs is the runtime; may be NULL */
};
/* Splits as a shell does, without expansion. An option that would loosen the container is refused, unless the user allows it. */
int container_flags_parse(const char *text, const struct container_flags_rules *rules, struct strv *ret, struct err *err);
/* Their runtime is gVisor. What is taken for it by mistake has a slower link, no Landlock and fewer limits. */
bool container_flags_runsc(const char *text);
/* They change a limit that is Bawn's. */
bool container_flags_limit(const struct strv *flags);

/* -- container_folder.c: the folder of one run on the host, in the folder of sockets ------------------------------------------------------ */

struct container_folder {
    int parent, listener; /* -1: none */
    char name[64], label[48];
    char owner[64]; /* label and machine: what a container is found by */
    char *path;
    struct strv dead; /* folders of runs with this engine that were killed, so that there may be containers of theirs */
    bool stays;       /* as one of those: there may be a container */
};
#define CONTAINER_FOLDER_INIT \
    { .parent = -1, .listener = -1 }

/* engine: its program; where: the machine, "" for this one. */
int container_folder_make(const char *engine, const char *where, struct container_folder *ret, struct err *err);
/* The process of this machine that a label names; -EINVAL: none of ours. Labels of earlier versions name no machine, and are those of this one's engine. */
int container_label_parse(const char *label, bool remote, int *ret_pid, unsigned long long *ret_start);
/* Removes those of dead runs. */
void container_folder_sweep(const struct container_folder *f);
/* mounted: what is below /run/bawn is mounted there, so its names have to be in it. */
int container_folder_fill(const struct container_folder *f, const struct container_plan *c, bool mounted, struct err *err);
/* A sandbox of root's has ids of its own, which get the run's copy of the workspace. What is carried back belongs to the folder's owner again. */
int container_give(const struct plan *p, const struct container_plan *c, struct err *err);
/* What is shared with sandboxes of other engines is root's again; not while another container of root's runs, which then does it. */
void container_take_back(const struct container_folder *f, const struct plan *p, const struct container_plan *c);
void container_folder_close(struct container_folder *f); /* nothing connects any more */
void container_folder_empty(
    const struct container_folder *f); /* nothing inside lives any more: only what says that a container was made is left */
void container_folder_done(struct container_folder *f);

/* -- container_call.c: the engine's program ---------------------------------------------------------------------------------------------- */

/* How it is run: its path, and our variables with a PATH of absolute folders that are not below the workspace. */
struct container_cli {
    char program[PATH_MAX];
    struct strv env;
    int limit_ms; /* of a call; 0: CONTAINER_CALL_MS */
    bool deaf;    /* the user has interrupted it already: what has to be done now is done */
};
int container_cli_find(const struct container_kind *k, const char *workspace, struct container_cli *ret, struct err *err);
/* Runs it to its end, until its limit or until a signal asks us to end; what it says goes to *said, what it prints to *out (may be NULL). Returns its exit status or -errno. */
enum { CONTAINER_CALL_MS = 15000 };
int container_call(const struct container_cli *cli, char *const *argv, const struct buf *input, struct buf *out,
                   struct buf *said);
/* container_remote.c: 1 if its containers are on another machine, as far as variables, contexts and connections say; then it is named. */
int container_find_place(const struct container_kind *k, const struct container_cli *cli, char ret_where[static CONTAINER_WHERE],
                         struct err *err);
/* The message for what it said, with the remedy if it is a known trouble. Returns r. */
int container_trouble(const struct container_kind *k, const char *said, int r, struct err *err);

/* -- container_bytes.c: the link without a shared kernel -- */

int container_run_bytes(struct container_box *b, const struct engine_request *req, struct sandbox *sb, struct err *err);

/* -- container.c ----------------------------------------------------------------------------------------------------------------------------- */

int container_start(const struct container_kind *k, const struct engine_request *req, struct sandbox *sb, struct err *err);
void container_stop(struct sandbox *sb);
void container_collect(struct sandbox *sb);
void container_finish(struct sandbox *sb);
/* What docker and podman have in common. */
#define CONTAINER_ENGINE                                                                                            \
    .can_keep = ENFORCES_EVERYTHING & ~ENFORCES_KERNEL, .asks_others = true, .takes_image = true, .has_gate = true, \
    .unmapped = true, .modes = 1 << WORKSPACE_SYNC | 1 << WORKSPACE_WORKTREE, .stop = container_stop,               \
    .collect = container_collect, .finish = container_finish

/* -- container_image.c */

int container_image(const struct container_kind *k, const char *name, struct engine_image *ret, struct err *err);

/* -- container_probe.c ---------------------------------------------------------------------------------------------------------------------- */

size_t container_probe(const struct container_kind *k, struct engine_state *ret, const char **ret_names, size_t max);
