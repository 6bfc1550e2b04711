/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported to the supervisor, and what the guard remembers: paths that were reported, files that were written inside. */
#pragma once

#include "init/guard/guard_place.h"

/* guard_touch.c */
int seen_init(struct guard_seen *s);
bool seen_add(struct guard_seen *s, unsigned salt, const char *path); /* false: it was there already */
bool seen_has(const struct guard_seen *s, unsigned salt, const char *path);
int guard_touch_new(struct guard *g, const char *rel);                                       /* nothing is there yet */
int guard_touch_at(struct guard *g, const char *rel, const struct stat *st, bool unlinking); /* st: of what is there */
int guard_touch(struct guard *g, const struct place *p, bool unlinking); /* whatever is there; outside: nothing to do */
int guard_ask(struct guard *g, enum guard_msg_type type, const char *rel, int value);                  /* the answer */
void guard_tell(struct guard *g, enum guard_msg_type type, const char *rel, int fd);                   /* fd -1: none */
int guard_refuse(struct guard *g, const char *rel, enum guard_why why, int r);                         /* tells it; returns r */
int guard_refuse_for(struct guard *g, const char *rel, enum guard_why why, int r, const char *detail); /* and why exactly */
int guard_send_share(struct guard *g, int fd);
/* -EBUSY: a program of the host has it open for writing; -EEXIST: none has, and a rename brought it to this name; else it is unknown. */
int guard_ask_open(struct guard *g, const char *rel, const struct stat *st);
/* The inside renamed something to this name, so that a rename by the host looks the same. */
void guard_note_renamed(struct guard *g, const char *rel);
bool guard_has_renamed(const struct guard *g, const char *rel);
bool seen_add_hash(struct guard_seen *s, uint64_t hash);
bool seen_has_hash(const struct guard_seen *s, uint64_t hash);

int guard_ask_spool(struct guard *g, int *ret_fd); /* *ret_fd -1: none came */
/* All names in this folder are stored with their content: the supervisor has said so about one of them. */
void guard_note_plain(struct guard *g, const char *rel);
bool guard_is_plain(const struct guard *g, const char *rel);

/* guard_spool.c: 1: it is put away; 0: the supervisor has to do it; -errno: the change must not happen. st NULL: nothing is there */
int spool_touch(struct guard *g, const char *rel, const struct stat *st, bool named);

/* guard_known.c */
uint64_t time_ns(const struct timespec *t);
int stat_born(int dir, const char *name, int flags, struct stat *ret, uint64_t *ret_birth_ns);
int stat_mount(const char *path, dev_t *ret_dev, uint64_t *ret_mount); /* 0: the kernel does not say; -errno */
int known_init(struct guard *g);
bool known_has(const struct guard *g, const struct stat *st, uint64_t birth_ns);
void known_add(struct guard *g, const struct stat *st, uint64_t birth_ns, bool hosts);
int known_read_links(struct guard *g);
