/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs on the host put into protected places while a sandbox in direct mode runs. Most programs save a file by writing another one and renaming it. The
 * guard keeps the inside away from what the host is just saving (init/guard/guard_fresh.c), but anything may be renamed, linked or moved into such a place at any
 * time, also a file that the inside has open for writing: what was an ordinary file then is one that the host obeys, and the inside still writes to it.
 *
 * Every name that appears in the workspace is reported here (latecomers.h watches all folders). If it is protected and the inside ever had that file open for
 * writing, it counts which processes can write to it now:
 *   - some process can, or it cannot be known: everything inside is ended. If that leaves a writer the file is replaced by a copy;
 *   - the host made the file while the sandbox ran, so that it is a save which the inside has touched: the same;
 *   - no process can, and none will, as the place is protected: it is reported when the run has ended.
 * A link makes what it leads to protected, and a new file in a protected place makes the guard look again which files these are: any of them may have
 * another name somewhere.
 *
 * The inside can write for as long as it takes us to notice, a millisecond or so: for what the host is just saving, the guard is the wall.
 */
#pragma once

#include <sys/stat.h>

#include "base/strv.h"
#include "supervisor/watch/guard_link.h"

struct err;
struct ignore;

enum {
    LANDING_REPORTED_MAX = 20,
    LANDING_WAITING_MAX = 4096,
    LANDING_LINKS_MAX = 1024,
    LANDING_DEPTH_MAX = 64,
    LANDING_ARRIVALS = 64
};

struct landing {
    const struct guard_link *guard; /* NULL: nothing is protected; borrowed */
    const struct ignore *protect;   /* borrowed */
    int workspace;                  /* borrowed */
    const char *path;               /* of the workspace; borrowed */
    struct landing_keys keys;
    struct strv waiting;                 /* what landed while the guard was at work on a call, and what was touched inside */
    uint32_t turns[LANDING_WAITING_MAX]; /* on which call, for each of them */
    struct landing_arrival {
        char *path;
        uint64_t at_ns;
    } arrivals[LANDING_ARRIVALS]; /* the last ones */
    size_t next_arrival;
    bool again;           /* there was more: the whole workspace has to be looked at once more */
    struct strv reported; /* paths for the user to check */
    struct strv links;    /* what was found already */
    struct strv behind;   /* where links lead: pairs of a place and the path that leads there */
    size_t n_shared;      /* of them the guard has these */
    char *stopped;        /* why the sandbox had to end: this path; NULL: it had not */
};
#define LANDING_INIT \
    { .workspace = -1 }

void landing_init(struct landing *l, const struct guard_link *g, const struct ignore *protect, int workspace, const char *path);
void landing_done(struct landing *l);

/* A name that is in the workspace, or appeared there just now. Negative: out of memory, or more than can be watched. */
int landing_see(struct landing *l, const char *path, bool is_dir);
/* A rename, of the host's or from inside, brought something to this name; and whether it is still what the rename brought. arg: the struct landing. */
void landing_arrive(struct landing *l, const char *path);
bool landing_has_arrived(void *arg, const char *path, const struct stat *st);
/* Hands the guard what was found before it had anywhere to put it; arg: the struct landing. */
void landing_share(void *arg);
/* Milliseconds until there is work, -1: none. */
int landing_timeout(const struct landing *l);
/* Decides about what was seen. Negative: the sandbox has to end; err says why. */
int landing_settle(struct landing *l, struct err *err);
/* Nothing inside runs any more: decides about what was seen last; what is still open for writing is replaced by a copy. */
void landing_last(struct landing *l);
/* A log line for each file that the user should look at. */
void landing_report(const struct landing *l);
