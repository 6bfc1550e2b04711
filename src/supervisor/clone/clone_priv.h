/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of clone share. */
#pragma once

#include "supervisor/clone/clone_box.h"

/*
 * A faithful copy of a tree that the inside of a sandbox filled (home/, upper/, tree/), within Bawn's own state: links as links, modes and
 * times, user.* attributes, as root the owners, whiteouts of overlayfs. Blocks are shared where the file system can. Devices, FIFOs and sockets
 * are left out. Nothing is followed, nothing is waited for; setuid and setgid bits are dropped.
 */
struct clone_tree {
    int from, to;      /* folders; `to` is empty and gets owner, mode and attributes of `from` */
    bool whiteouts;    /* an upper/: character devices 0:0 mean "deleted" */
    const char *leave; /* a path below that is not copied; NULL: none */
    void (*copied)(const char *path, const struct stat *from, const struct stat *to, void *arg); /* may be NULL */
    void *arg;
    int (*report)(uint64_t files, uint64_t bytes, void *arg,
                  struct err *err); /* after each file; negative ends it. May be NULL */
    void *report_arg;
    uint64_t files, bytes, left_out; /* results; they are added to */
};

int clone_tree_make(struct clone_tree *c, struct err *err);

/* clone_run.c: what a run's folder holds of the workspace, to an empty folder. count: progress and sums; its folders are not used. */
int clone_run_parts(int from, int to, enum workspace_mode mode, struct clone_tree *count, struct err *err);
/* A folder of this name, made new in `to`; nothing if `from` has none. */
int clone_folder(int from, int to, const char *name, struct clone_tree *how, struct err *err);
/* The same of a sandbox's or a checkpoint's folder, whose files may belong to several ids (clone_ids.c). */
int clone_folder_of_box(int from, int to, const char *name, struct clone_tree *how, struct err *err);
/* The same by rename, within one file system. */
int clone_move_parts(int from, int to, struct err *err);
int clone_move_folder(int from, int to, const char *name, struct err *err);

/* clone_place.c: the folder checkpoints/ of a sandbox, made if `make`; -ENOENT without a message. */
int clone_open_place(const struct box *box, bool make, struct err *err);
/* A hidden folder, and its name. Sweeps what crashes left. */
int clone_make_hidden(int place, char ret_name[static HIDDEN_NAME_SIZE], struct err *err);
int clone_open_tag(const struct box *box, int place, const char *tag, bool exclusive,
                   struct err *err); /* place < 0: there is none */
int clone_check_tag(const char *tag, struct err *err);
int checkpoint_save(int dir, const struct checkpoint *c, struct err *err);
int checkpoint_load(int dir, struct checkpoint *ret); /* -errno */
