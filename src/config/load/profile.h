/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: named sets of settings, one file each in the user's profiles folder. The built-in ones are written there at
 * the first use of one of them and are the user's from then on: never overwritten, and read from there.
 */
#pragma once

#include "config/load/builtin.h"
#include "config/load/config_file.h"

/* Where profiles are looked for, and what "~/" means. */
struct profile_place {
    char *folder; /* NULL: there is no home */
    const char *home;
    bool look_only; /* do not write the built-in profiles into the folder */
};

int profile_place_init(struct profile_place *p, char *const *environ_, const char *home, struct err *err);
void profile_place_done(struct profile_place *p);

/* A profile's file, by name or, if it contains '/', by path. *ret_source is "built-in" or the file's path. */
int profile_find(const struct profile_place *p, const char *name, struct jsonfile *ret, char **ret_source, struct err *err);
/* Finds and reads; the layer's origin becomes "profile NAME (SOURCE)". The layer must be empty before. */
int profile_read(const struct profile_place *p, const char *name, struct layer *l, struct err *err);

/* Writes the built-in profiles that are missing. Fails if the folder cannot be written; the programs go on without. */
int profile_install(const struct profile_place *p, struct err *err);
/* The names of all profiles, sorted, built-in ones included. */
int profile_names(const struct profile_place *p, struct strv *ret, struct err *err);
