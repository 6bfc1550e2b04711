/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: built-in ones and those in the user's folder (`bawn profile`). */
#pragma once

#include "base/err.h"
#include "config/load/profile.h"

struct profiles {
    struct profile_place place; /* for profile_names(); nothing is written there */
    char *home;
};
int profiles_open(struct profiles *ret, struct err *err);
void profiles_done(struct profiles *p);

/* One profile. A broken one has its error instead of values. */
struct profile_entry {
    struct layer layer;
    char *source;
    struct err problem;
};
void profiles_load(const struct profiles *p, const char *name, struct profile_entry *ret);
void profile_entry_done(struct profile_entry *e);

/* A copy of `base` under a new name in the user's folder. *ret_path: the new file, malloc'ed. */
int profiles_create(const char *name, const char *base, char **ret_path, struct err *err);
/* Reads a file as a profile. */
int profiles_check(const char *path, struct err *err);
