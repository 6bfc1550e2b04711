/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a persistent sandbox, for the verbs that reach into one (`bawn cp`, `put`, `get`, `collect`): how a place in it is written, and how it
 * is opened. Paths are the user's words, tidied as text. bawn-init opens them, inside, and follows no link.
 */
#pragma once

#include <sys/stat.h>

#include "ops/sandbox/sandbox_pick.h"

struct err;

/* "NAME:PATH": *ret_name is malloc'ed, *ret_path points into word. False: a path of the host's, which has no ':' or a '/' before it. */
bool inside_split(const char *word, char **ret_name, const char **ret_path);

/* Absolute and without "." and "..": relative to the workspace; "~" is the home; "/workspace" the workspace. */
int inside_path(const struct sandbox_pick *p, const char *path, char **ret, struct err *err);
/* how: enum exec_open (proto/execmsg.h). path: from inside_path(). */
int inside_open(const struct sandbox_pick *p, const char *path, int how, int *ret_fd, struct err *err);
/* The folder that a file is to be put in, and its name there (malloc'ed). If path is a folder: it, and `name`; *ret_name is NULL if name is. */
int inside_open_target(const struct sandbox_pick *p, const char *path, const char *name, int *ret_dir, char **ret_name,
                       struct err *err);

/* The event for the audit log of the sandbox, before anything is done. host NULL: left out. */
int inside_audit(const struct sandbox_pick *p, const char *verb, const char *path, const char *host, struct err *err);

/* A place in a sandbox that runs. */
struct inside_file {
    struct sandbox_pick pick;
    char *path; /* from inside_path() */
};
#define INSIDE_FILE_INIT \
    { .pick = SANDBOX_PICK_INIT }
int inside_file_pick(const char *sandbox, const char *path, struct inside_file *ret, struct err *err);
void inside_file_done(struct inside_file *f);

mode_t inside_umask(void); /* of this process */
