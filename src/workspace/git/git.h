/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the git program so that nothing of a repository's, the user's or the system's configuration holds (ATTACKS 38, 39): it
 * gets a git directory that we made, with a configuration that we wrote and neither hooks nor refs, and an object store handed
 * over as a descriptor, so that no name is looked up again. Attributes in a tree are read, but the filters, drivers and encodings
 * they may name have no command here. The program is taken from a fixed list of folders, never from PATH (ATTACKS 7).
 *
 * Started by root for files of another user, git runs with that owner's ids: what it writes belongs to them, and bytes from
 * their repository are not read with root's rights.
 *
 *     CLEANUP(git_done) struct git g = GIT_INIT;
 *     r = git_init(&g, &(struct git_opts){.folder = rd->path, .owner = workspace}, &err);
 *     struct git_call c = git_call(GIT_ARGS("rev-list", "--count", commit), objects);
 *     r = git_run(&g, &c, &out, &err);
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

struct err;

enum {
    GIT_OUTPUT_MAX = 512 * 1024 * 1024,
    GIT_STDERR_MAX = 600, /* bytes of what git complained about that go into the error */
    GIT_ARGS_MAX = 16,
    GIT_FILE_MAX_LOG2 = 34, /* no file that git writes is larger: a small object can unpack to a disk full of zeros */
};

struct git_opts {
    const char *folder;  /* absolute: our git directory is made in it, or in /var/tmp where git runs as another user */
    int owner;           /* descriptor of a folder: its owner is who git runs as, if we are root */
    bool sha256;         /* the repository's object format */
    const char *shallow; /* content of the repository's `shallow` file, or NULL */
};

struct git {
    const char *program;
    char *dir; /* our git directory: objects/ in it is empty, for whatever the caller puts there */
    int fd;    /* of dir */
    int parent;
    uid_t uid;
    gid_t gid;
    bool drop; /* become uid and gid */
};
#define GIT_INIT \
    { .fd = -1, .parent = -1 }

/* -ENOENT: there is no git program. */
int git_init(struct git *ret, const struct git_opts *opts, struct err *err);
void git_done(struct git *g); /* removes the directory */

struct git_call {
    const char *const *argv; /* without "git"; NULL-terminated, at most GIT_ARGS_MAX */
    int objects;             /* object store: read, and written by the calls that write; -1: objects/ of our own directory */
    int more;                /* a second object store to read from; -1: none */
    int cwd;                 /* the working tree; -1: our git directory, and none */
    const char *index;       /* name of the index file in our directory; NULL: "index" */
    int in;                  /* standard input; -1: /dev/null */
    int out;                 /* standard output; -1: into the buffer */
    bool may_fail;           /* exit status 1 is an answer */
};
#define GIT_ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
static inline struct git_call git_call(const char *const *argv, int objects) {
    return (struct git_call){.argv = argv, .objects = objects, .more = -1, .cwd = -1, .in = -1, .out = -1};
}
/* Returns git's exit status, which is 0 unless may_fail. out NULL: the answer is dropped, or goes to call->out. */
int git_run(const struct git *g, const struct git_call *call, struct buf *out, struct err *err);

/* A descriptor from which text can be read as standard input. */
int git_input(const struct buf *text, struct err *err);
