/* SPDX-License-Identifier: Apache-2.0 */
/* The user's folders, and the two ways in which Bawn writes small files there. */
#pragma once

#include "base/macros.h"

struct err;

/* The value of a variable in an environment block (may be NULL), or NULL. An empty value counts as not set. */
const char *paths_getenv(char *const *environ_, const char *name);

/* $HOME, or, if it is unset, the home of the effective user in /etc/passwd (never NSS: the program is static).
 * *ret is malloc'ed, NULL if there is none. */
int paths_home(char *const *environ_, char **ret, struct err *err);
/*
 * What is in the workspace may have been written inside, and runs with all the rights of the user if it is taken for the program that is meant. So
 * programs are looked for, by us and by those that we start, in the absolute folders of PATH that are not there. workspace NULL: the current folder.
 * A folder that the home is in is no workspace.
 */
struct strv;
/* environ_ with such a PATH, which comes first. -ENOMEM */
int paths_environ(char *const *environ_, const char *workspace, struct strv *ret);
/* The program of this name there, malloc'ed; NULL: there is none. */
char *paths_program(char *const *environ_, const char *workspace, const char *name);
/* The path of an open folder, as the kernel sees it. */
int paths_of_fd(int fd, char **ret, struct err *err);
/* The absolute path of a folder, symbolic links resolved; dir NULL: the current one. */
int paths_workspace(const char *dir, char **ret, struct err *err);

/* "$XDG_CONFIG_HOME/bawn/<leaf>" and "$XDG_STATE_HOME/bawn/<leaf>" with their defaults below home. *ret is NULL if
 * there is neither the variable (an absolute path) nor a home. */
int paths_config(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err);
int paths_state(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err);

/* The same, but NULL also if there is no variable and the home does not exist, as services have it: none is made for them. */
int paths_state_if_home(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err);
/* The folder of sockets: $XDG_RUNTIME_DIR/bawn, else run/ of the state; *ret is NULL if there is neither. Nothing is made. */
int paths_runtime(char *const *environ_, char **ret, struct err *err);

/* mkdir -p, 0700 for what is new. */
int paths_make_dirs(const char *path, struct err *err);

/* Opens a folder of the user's, made if `make`. -ENOENT if it is not there; refused if it is a link, or others could write in it;
 * `risk` says in the message what would come of that. */
int paths_open_own(const char *path, bool make, const char *risk, struct err *err);

/* The whole of an open regular file, at most max bytes, behind what the buffer has. path is for messages. */
struct buf;
int paths_read_fd(int fd, const char *path, size_t max, struct buf *b, struct err *err);
/* The same of a file that says which programs are run, or who gets what: it must belong to the user, no other user may write it, and it is
 * no link. -ENOENT with no message: it is not there. */
int paths_read_own(const char *path, size_t max, struct buf *b, struct err *err);

enum publish { PUBLISH_NEW, PUBLISH_REPLACE };
/* Writes dir/name (0600) so that it appears whole or not at all. PUBLISH_NEW fails with -EEXIST if it is there. */
int paths_publish(const char *dir, const char *name, const void *data, size_t len, enum publish how, struct err *err);
/* The same below an open folder, with this mode. */
int paths_publish_at(int dir, const char *shown, const char *name, unsigned mode, const void *data, size_t len, enum publish how,
                     struct err *err);
