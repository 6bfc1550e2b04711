/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the guard share; see guard.h. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "init/guard/guard.h"
#include "init/guard/guard_rules.h"
#include "proto/guardmsg.h"

enum {
    GUARD_SEEN_MAX = 4 * 1024 * 1024, /* paths remembered as reported: 64 MiB; past it a path may be reported again */
    GUARD_MOVE_MAX = 100000,          /* entries of a folder that is renamed; past it: EXDEV, and the caller copies */
    GUARD_SCAN_MAX = 2000000,         /* entries looked at once for hard links to protected files; past it: refused */
    GUARD_DEPTH_MAX = 256,
    GUARD_LINKS_MAX = 40, /* as the kernel's MAXSYMLINKS */
    GUARD_PROC_PATH = 64,
    GUARD_QUEUE_MAX = 64,
    GUARD_LISTENERS_MAX = 512, /* commands at once, each with all that it left behind; half of the usual limit of descriptors */
    GUARD_ALIASES_MAX = 16,
    GUARD_LATER_MAX = 64,     /* calls that wait for a file of the host's to come to rest; past it: EBUSY at once */
    GUARD_LATER_MS = 20,      /* how often it is looked */
    GUARD_PATIENCE_MS = 3000, /* how long; past it: EBUSY */
    GUARD_TRIES = 16          /* of an open whose file the host replaces at the same time */
};

/* Results of an operation besides a value or a negative errno. */
enum { GUARD_ANSWERED = INT_MAX, GUARD_CONTINUE = INT_MAX - 1, GUARD_LATER = INT_MIN /* it is tried again a little later */ };

/* Hashes of what was reported, with a key that is secret to the inside. */
struct guard_seen {
    uint64_t *slots; /* 0: free */
    size_t n, cap;
    uint64_t key[2];
};

struct guard_inode {
    dev_t dev;
    ino_t ino;
};

/* The protected files, any of which may have other names; found when a file with several names is written to. */
struct guard_aliases {
    struct guard_inode *v;
    size_t n;
    bool scanned;
    uint32_t scanned_at; /* struct guard_share's aliases then */
};

/* Another place where the workspace is mounted: what is below `path` is below `rel` of the workspace. */
struct guard_alias {
    char path[PATH_MAX], rel[PATH_MAX];
};
struct guard_mounts {
    struct guard_alias v[GUARD_ALIASES_MAX];
    size_t n;
};

struct guard_umask {
    mode_t start; /* what the command began with */
    mode_t now;   /* bawn-init's own */
    bool varies;  /* for good: it has to be asked for at every call */
    pid_t away;   /* this thread has another one for the moment */
    long last_pid;
};

/* Calls that were taken from the kernel and wait for their turn. Once taken a call waits for us whatever signal comes. */
struct guard_queue {
    struct guard_taken {
        struct seccomp_notif notif;
        int listener;      /* where it came from and is answered */
        uint64_t since_ms; /* it was put off then for the first time; 0: it was not */
    } v[GUARD_QUEUE_MAX];
    size_t first, n;
};

/* One filter, and so one listener, for each command with everything that it starts. */
struct guard_listeners {
    int fds[GUARD_LISTENERS_MAX];
    size_t n, next; /* next: whose turn it is when several have calls */
};

struct guard {
    const struct init_start *start; /* lives as long as bawn-init */
    enum { GUARD_NEW, GUARD_READY, GUARD_BROKEN } state;
    int control, sock; /* sock -1: the supervisor is gone */
    int root;          /* the workspace, O_PATH */
    char root_path[PATH_MAX];
    pid_t self;
    struct guard_rules rules;
    struct guard_seen seen;
    struct guard_aliases aliases;
    struct guard_umask umask_;
    struct guard_listeners listeners;
    struct guard_queue queue;
    struct guard_mounts mounts;
    uint64_t born_ns; /* as files are stamped */
    dev_t root_dev;
    struct guard_seen known; /* keys of the files that were made or opened for writing inside */
    struct guard_share *share;
    size_t share_room;
    uint32_t links_read;
    struct guard_taken later[GUARD_LATER_MAX]; /* calls that were put off */
    size_t n_later;
    uint64_t later_ms;  /* when to try them again; 0: there are none */
    uint64_t waited_ms; /* what the present call has waited */
};

/* One system call that waits for its answer. */
struct call {
    struct guard *g;
    int listener;
    uint64_t id;
    pid_t tid;
    uint64_t arg[6]; /* in the order of the *at form of the call */
    bool follow;     /* the last name too, where the call does not say it in a flag */
};

/* Where a path leads, all links followed but perhaps the last. */
struct place {
    int dir;                 /* its folder, O_PATH */
    int object;              /* instead: what a descriptor or a magic link (/proc/PID/fd/N) leads to, O_PATH; else -1 */
    char name[NAME_MAX + 2]; /* in dir; a '/' at the end if the caller wrote one; "." for dir itself */
    char path[PATH_MAX + NAME_MAX + 2]; /* absolute, without a '/' at the end */
    const char *rel;                    /* the same from the workspace on, "" for itself; NULL: outside */
    bool exists;
    struct stat st;    /* if it exists; of a link itself, if it was not followed */
    uint64_t birth_ns; /* 0: unknown */
    enum {
        PLACE_NAMED,
        PLACE_GONE,  /* an object that has no name any more */
        PLACE_ASTRAY /* an object that has one, but not the one by which it was opened: it may be any file's */
    } trace;
};

#define PLACE_INIT \
    { .dir = -1, .object = -1 }

/* The kernel says that there is nothing, which is not the same as not being able to look: only this may lead to "allowed". */
static inline bool guard_is_absence(int e) {
    return e == ENOENT || e == ENOTDIR;
}

/* guard_filter.c: which calls come to the guard, and who does them */
enum { FROM_CWD = 6, FROM_CONSTANT = 7 };
struct guard_row {
    int nr;
    long (*run)(struct call *c);
    uint8_t from[6];   /* which argument of the call becomes which of struct call, or one of the words above */
    uint32_t constant; /* what FROM_CONSTANT stands for */
    bool nofollow;     /* struct call's follow is not */
    bool is_open;      /* comes only if its flags, behind the path, can change something */
};
const struct guard_row *guard_row(int nr); /* NULL: not ours */
enum { GUARD_FILTER_MAX = 128 };
size_t guard_filter_make(mode_t umask_, struct sock_filter code[static GUARD_FILTER_MAX]);

/* guard_mounts.c, guard_links.c: once, at the start */
int guard_find_mounts(struct guard *g, struct err *err);
int guard_protect_targets(struct guard *g, const struct init_text *texts, size_t n, struct err *err);

/* guard.c: takes one call into the queue, if there is room; the listener is readable */
void guard_take(struct guard *g, int listener);

/* guard_caller.c: what only the caller knows. Everything read is checked by caller_waits() before it is used. */
bool caller_waits(const struct call *c); /* it is still the process that made the call, and still in it */
int caller_path(const struct call *c, unsigned arg, char path[static PATH_MAX]);
int caller_string(const struct call *c, uint64_t address, char *to, size_t size); /* length, or -errno; -ENAMETOOLONG */
int caller_bytes(const struct call *c, uint64_t address, void *to, size_t len);
int caller_status(const struct call *c, const char *key, int base, long *ret); /* a number of /proc/TID/status */
int caller_terminal(const struct call *c, unsigned *ret_major, unsigned *ret_minor);
int caller_umask(const struct call *c); /* makes the caller's file mode mask ours */
long guard_run_umask(struct call *c);

/* guard_path.c, guard_follow.c */
enum { GUARD_OPEN_FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC };
void place_done(struct place *p);
int place_find(const struct call *c, int dirfd, const char *path, bool follow, struct place *ret);
int place_of_fd(const struct call *c, int fd, struct place *ret); /* -EBADF also for what was opened with O_PATH */
int place_open(const struct place *p, int flags, mode_t mode);    /* follows no link; close-on-exec; or -errno */
enum rules_kind place_kind(const struct place *p);
bool place_holds_root(const struct guard *g, const struct place *p); /* the workspace, or a folder it is in */

/* for guard_follow.c and guard_mounts.c */
const char *path_below(const char *path, const char *folder); /* from the folder on, "" for itself; NULL: outside */
int follow_from(const struct call *c, int dirfd, const char *path, bool follow,
                struct place *p); /* leaves the path to be filled in */
int place_open_base(const struct call *c, int dirfd, const char *path);
int place_path_of(int fd, char path[static PATH_MAX]);                                  /* its length, or -errno */
bool place_is_own(const struct guard *g, const char *path);                             /* of bawn-init itself, in /proc */
int place_set_object(struct place *p, int fd);                                          /* takes fd */
int place_set_name(struct place *p, int dir, const char *name, size_t len, bool slash); /* takes dir only on success */

/* guard_touch.c */
int seen_init(struct guard_seen *s);
bool seen_add(struct guard_seen *s, unsigned salt, const char *path); /* false: it was there already */
bool seen_has(const struct guard_seen *s, unsigned salt, const char *path);
int guard_touch_new(struct guard *g, const char *rel); /* nothing is there yet */
int guard_touch_at(struct guard *g, const char *rel, int dir, const char *name, const struct stat *st, bool unlinking);
int guard_touch(struct guard *g, const struct place *p, bool unlinking); /* whatever is there; outside: nothing to do */
int guard_ask(struct guard *g, enum guard_msg_type type, const char *rel, int value); /* the answer */
void guard_tell(struct guard *g, enum guard_msg_type type, const char *rel, int fd);  /* fd -1: none */
int guard_refuse(struct guard *g, const char *rel, enum guard_why why, int r);        /* tells it; returns r */
int guard_send_share(struct guard *g, int fd);
/* -EBUSY: a program of the host has it open for writing; -EEXIST: none has, and a rename brought it to this name; else it is unknown. */
int guard_ask_open(struct guard *g, const char *rel, const struct stat *st);
/* The inside renamed something to this name, so that a rename by the host looks the same. */
void guard_note_renamed(struct guard *g, const char *rel);
bool guard_has_renamed(const struct guard *g, const char *rel);
bool seen_add_hash(struct guard_seen *s, uint64_t hash);
bool seen_has_hash(const struct guard_seen *s, uint64_t hash);

/* guard_known.c */
uint64_t time_ns(const struct timespec *t);
int stat_born(int dir, const char *name, int flags, struct stat *ret, uint64_t *ret_birth_ns);
int known_init(struct guard *g);
bool known_has(const struct guard *g, const struct stat *st, uint64_t birth_ns);
void known_add(struct guard *g, const struct stat *st, uint64_t birth_ns, bool hosts);
int known_read_links(struct guard *g);

/* guard_fresh.c */
/* What a program of the host calls a file by which it saves a protected one; making: only those that it does not make anew. */
bool judge_is_save(const struct guard *g, const char *rel, bool making);
/* Made by the host since the start and a few seconds ago, and not opened for writing inside yet. */
bool judge_is_fresh(const struct guard *g, const struct stat *st, uint64_t birth_ns);
/* 0, GUARD_LATER, or -EBUSY: the host is just saving it. writing: else it is removed or renamed. */
int judge_rest(struct guard *g, const char *rel, const struct stat *st, uint64_t birth_ns, bool writing);

/* guard_names.c: hidden names, and folders in which they may appear */
/* The supervisor watches the folder, and covers what is hidden in it. After it was moved; closing: before its owner may not read it. */
int guard_look(struct guard *g, const char *rel, bool closing);
/* The command makes a name that is hidden, where it may: 1, and one of the others has to follow; 0: nothing to do; or -errno. */
int guard_making(struct guard *g, const struct place *p, enum rules_kind kind);
void guard_made(struct guard *g, const struct place *p, int fd); /* -1: it failed */
void guard_made_there(struct guard *g, const struct place *p, bool made);

/* guard_judge.c: rules and what the file system says; 0, or a negative errno after telling the supervisor */
int judge_create(struct guard *g, const struct place *p, enum rules_kind kind);
int judge_write(struct guard *g, const struct place *p);
int judge_remove(struct guard *g, const struct place *p);
int judge_end_of_move(struct guard *g, const struct place *p); /* beyond the rules: what the host saves by, or is saving */
/* What the rules protect, and hooks and configuration of every folder that git takes for a repository (ATTACKS 37). */
bool judge_is_protected(const struct guard *g, const char *path, enum rules_kind kind);
int judge_repository(struct guard *g, const struct place *p);   /* would its folder become one? */
bool judge_completes_repository(int dir, const char *new_name); /* with this name in it */

/* guard_walk.c: everything below a folder, links not followed. suffix: from that folder on, with a '/' in front. The visitor's
 * result ends the walk if it is not 0. *left counts down; at 0, or below GUARD_DEPTH_MAX folders: -E2BIG. */
struct guard_walk_entry {
    int dir;
    const char *name, *suffix;
    enum rules_kind kind;
};
int guard_walk(int dir, const char *name, unsigned *left, int (*visit)(void *arg, const struct guard_walk_entry *e), void *arg);

/* The operations: guard_open.c, guard_ops.c, guard_move.c, guard_bind.c */
long guard_run_open(struct call *c);
long guard_run_mkdir(struct call *c);
long guard_run_mknod(struct call *c);
long guard_run_symlink(struct call *c);
long guard_run_unlink(struct call *c);
long guard_run_link(struct call *c);
long guard_run_rename(struct call *c);
long guard_run_truncate(struct call *c);
long guard_run_chmod(struct call *c);
long guard_run_fchmod(struct call *c);
long guard_run_setxattr(struct call *c);
long guard_run_fsetxattr(struct call *c);
long guard_run_removexattr(struct call *c);
long guard_run_fremovexattr(struct call *c);
long guard_run_bind(struct call *c);
int guard_install_fd(const struct call *c, int fd, bool cloexec); /* GUARD_ANSWERED or -errno */
