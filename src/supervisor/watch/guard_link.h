/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's end of the guard (proto/guardmsg.h): what is about to change in the workspace is put into the journal first,
 * and refusals are reported when the run has ended.
 *
 * Whatever arrives comes from bawn-init, which the command may have taken over. Of what it sends in messages no more is believed than that a path is about
 * to change, and the file is read here, from the host's side. If it cannot be recorded the change is refused. Of small files it puts the content into the
 * spool (workspace/run/spool.h), and that is believed, as it is believed that a name was new: who has taken over bawn-init can write any content into all that the
 * sandbox shows, and need not report it. A lie can only make a rollback put into the workspace what the liar could have put there itself. What was
 * taken over into the journal before, it cannot reach, and about hidden files nothing is believed.
 */
#pragma once

#include <sys/stat.h>

#include "base/strv.h"
#include "workspace/run/journal.h"

struct latecomers;

enum { GUARD_REFUSED_MAX = 20 };

/* Makes the run's folder and opens its journal. Called before the first change: most runs change nothing and need none. */
typedef int guard_begin_fn(void *arg, struct journal **ret, struct err *err);

struct guard_link {
    int sock;      /* for poll(), POLLIN; -1: over */
    int workspace; /* the host's folder; not owned */
    guard_begin_fn *begin;
    void *arg;
    struct latecomers *latecomers; /* learn of folders that move or are closed, and of names; NULL: none. Not owned */
    bool skip_ignored;             /* what git ignores is recorded by name only (ignored_folders.h) */
    struct ignored_folders *ignored;
    struct journal *journal;   /* NULL: nothing has changed yet */
    int failed;                /* why nothing can be recorded any more; 0: all is well */
    bool reported;             /* the user knows about a failure */
    bool spools;               /* the guard has a spool */
    struct strv refused;       /* lines for the user, distinct */
    size_t more_refused;       /* not among them */
    struct guard_share *share; /* NULL: nothing was opened for writing yet. What is in it is bawn-init's word */
    size_t share_size;
    void (*shared)(void *arg); /* it is there: called before the guard goes on; NULL: none */
    bool (*arrived)(void *arg, const char *path,
                    const struct stat *st); /* a rename brought it to this name, and nothing has changed it since */
    void *shared_arg;
};
#define GUARD_INIT \
    { .sock = -1, .workspace = -1 }

/* Takes sock, also on failure; begin() is called with arg at the first change. NULL: nothing is recorded. */
int guard_init(struct guard_link *g, int sock, int workspace, guard_begin_fn *begin, void *arg, struct err *err);
/* Closes the socket and the journal. */
void guard_done(struct guard_link *g);

/* Handles what is waiting, never waits. Some of it may be left, so that the loop can look after others, too. */
void guard_handle(struct guard_link *g);
/* When nothing inside runs any more: handles the rest. */
void guard_finish(struct guard_link *g);
/* One log line for each refusal, or the first of them, and one each for files whose old content was too large, or not stored because git ignores them. */
void guard_report(const struct guard_link *g);

/* The files that were opened for writing inside, as the guard wrote them down (struct guard_share), so that one of two million is found at
 * once. */
struct landing_keys {
    uint64_t *slots; /* 0: free */
    size_t cap, n;
    uint64_t read; /* so many of the guard's are among them */
    bool lost;     /* there was no memory: every file may be one of them */
};

enum landing_touch {
    LANDING_UNTOUCHED,
    LANDING_TOUCHED,
    LANDING_TOUCHED_SAVE /* and the host had made it a moment before: it was just saving it */
};
/* fd: O_PATH will do. Whatever cannot be known counts as touched. */
enum landing_touch landing_keys_find(struct landing_keys *k, const struct guard_link *g, int fd);
void landing_keys_done(struct landing_keys *k);
