/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One level of the precedence: the values that one source named, and how to say where each came from. Layers are read
 * one by one and then applied, weakest first; each setting ends with the value of the last layer that had the right to
 * set it.
 */
#pragma once

#include "config/fields/field.h"

struct layer {
    struct settings values;               /* only what `set` has means something */
    uint64_t set;                         /* a bit for each enum setting */
    char *origin;                         /* "user (/home/u/.config/bawn/config.json)" */
    const char *origin_of[SETTING_COUNT]; /* where one setting has a more exact origin, "flag --memory"; static strings */
    char *file;                           /* for notes */
    char *via;                            /* for notes: " of profile 'dev'"; may be NULL */
    struct jsonfile_position at[SETTING_COUNT];
    bool project;     /* comes with the workspace */
    bool narrow_only; /* an untrusted project: may take away, not give */
    bool said;        /* the command line */
    bool enable_only; /* "enabled": true: asks for a sandbox, not against mode require */
};

static_assert(SETTING_COUNT <= 64, "struct layer has a bit for each");

void layer_done(struct layer *l);

static inline bool layer_has(const struct layer *l, enum setting id) {
    return l->set >> id & 1;
}
static inline void layer_mark(struct layer *l, enum setting id) {
    l->set |= UINT64_C(1) << id;
}

/* Reads the object the reader stands on. `where` is IN_SANDBOX, IN_PROFILE or IN_FLOOR; with positions, at[] is filled in. */
int layer_read(struct layer *l, struct jsonwalk *w, json_t *section, unsigned where, bool positions, struct err *err);

/* Sets what the layer may set; what it may not becomes a line in s->notes. */
int layer_apply(const struct layer *l, struct settings *s, struct err *err);
/* Cuts s down to what the organisation allows. A cut in something that was asked for becomes a line in s->notes. */
int layer_apply_floor(const struct layer *floor, struct settings *s, struct err *err);

int settings_set_origin(struct settings *s, enum setting id, const char *origin);
