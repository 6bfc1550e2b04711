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
    GUARD_STAGES_MAX = 16,    /* files of git's that are being written in place (guard_stage.h); past it: EACCES */
    GUARD_IGNORED_MAX = 256,  /* folders in which nothing waits for the supervisor; past it all does */
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

struct guard_stages {
    struct guard_stage *v[GUARD_STAGES_MAX];
    size_t n;
    int inotify; /* 0: not yet */
};

/* Folders of /proc that are asked again and again, O_PATH; looking them up from "/" costs more than what they are asked. -1: not open. A process has its folder for
 * good: when its number is another's nothing is found there any more. */
struct guard_proc {
    int own_fds; /* bawn-init's fd/ */
    int caller;  /* of the thread that called last... */
    pid_t tid;   /* ...this one */
};

/* Where the guard puts away itself what is about to change (workspace/run/spool.h, guard_spool.c). */
struct guard_spool {
    enum { SPOOL_OFF, SPOOL_WANTED, SPOOL_OPEN } state; /* OFF: all is reported to the supervisor */
    int fd;
    size_t at; /* where the next entry goes */
    uint64_t seq;
    char *room; /* SPOOL_CONTENT_MAX + 1 bytes */
};

struct guard_socks;

struct guard {
    const struct init_start *start; /* lives as long as bawn-init */
    bool files;                     /* direct mode: what changes a file comes here */
    struct guard_socks *socks;      /* guard_sock.h; NULL: sockets do not */
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
    dev_t private_dev;       /* the tmpfs with /tmp and all that only this sandbox has; 0: it has none */
    struct guard_seen known; /* keys of the files that were made or opened for writing inside */
    struct guard_share *share;
    size_t share_room;
    uint32_t links_read;
    struct guard_taken later[GUARD_LATER_MAX]; /* calls that were put off */
    size_t n_later;
    uint64_t later_ms;  /* when to try them again; 0: there are none */
    uint64_t waited_ms; /* what the present call has waited */
    struct guard_stages stages;
    struct guard_spool spool;
    struct guard_proc proc;
    char *ignored[GUARD_IGNORED_MAX]; /* folders in which files are recorded by name only */
    size_t n_ignored;
};

/* The kernel says that there is nothing, which is not the same as not being able to look: only this may lead to "allowed". */
static inline bool guard_is_absence(int e) {
    return e == ENOENT || e == ENOTDIR;
}

struct call;

/* guard_filter.c: which calls come to the guard, and who does them */
enum { FROM_CWD = 6, FROM_CONSTANT = 7 };
struct guard_row {
    int nr;
    long (*run)(struct call *c);
    uint8_t from[6];   /* which argument of the call becomes which of struct call, or one of the words above */
    uint32_t constant; /* what FROM_CONSTANT stands for */
    bool nofollow;     /* struct call's follow is not */
    bool is_open;      /* comes only if its flags, behind the path, can change something */
    unsigned when;     /* set of enum guard_kind; 0: FILES */
};
enum guard_kind { GUARD_FILES = 1, GUARD_SOCKETS = 2 };
unsigned guard_kinds(const struct guard *g);
const struct guard_row *guard_row(int nr, unsigned kinds); /* NULL: not ours */
enum { GUARD_FILTER_MAX = 128 };
size_t guard_filter_make(mode_t umask_, unsigned kinds, struct sock_filter code[static GUARD_FILTER_MAX]);

/* guard_mounts.c, guard_links.c: once, at the start */
int guard_find_mounts(struct guard *g, struct err *err);
int guard_protect_targets(struct guard *g, const struct init_text *texts, size_t n, struct err *err);

uint64_t guard_clock_ns(int clock);
uint64_t guard_now_ms(void); /* CLOCK_MONOTONIC */
/* guard.c: takes one call into the queue, if there is room; the listener is readable */
void guard_take(struct guard *g, int listener);
