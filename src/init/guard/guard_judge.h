/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done where: rules, the host's saves, hidden names, repositories. */
#pragma once

#include "init/guard/guard_place.h"

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
int judge_remove_shown(struct guard *g, const struct place *p); /* it is not hidden */
int judge_end_of_move(struct guard *g, const struct place *p);  /* beyond the rules: what the host saves by, or is saving */
/* What the rules protect, and hooks and configuration of every folder that git takes for a repository (ATTACKS 37). */
bool judge_is_protected(const struct guard *g, const char *path, enum rules_kind kind);
int judge_repository(struct guard *g, const struct place *p);   /* would its folder become one? */
bool judge_completes_repository(int dir, const char *new_name); /* with this name in it */

/* A folder in which there is nothing else, folders aside. */
bool judge_holds_only_hidden(const struct guard *g, const struct place *p);

/* guard_walk.c: everything below a folder, links not followed. suffix: from that folder on, with a '/' in front. The visitor's
 * result ends the walk if it is not 0. *left counts down; at 0, or below GUARD_DEPTH_MAX folders: -E2BIG. */
struct guard_walk_entry {
    int dir;
    const char *name, *suffix;
    enum rules_kind kind;
};
int guard_walk(int dir, const char *name, unsigned *left, int (*visit)(void *arg, const struct guard_walk_entry *e), void *arg);
