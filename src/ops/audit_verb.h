/* SPDX-License-Identifier: Apache-2.0 */
/* What the user does, for the audit log: written before it is done, and not done if it cannot be written. */
#pragma once

#include "audit/audit.h"

struct change_set;
struct err;
struct strv;

/* run: the run, or persistent sandbox, that it is about; "": none. members: as audit_add() makes them. */
int audit_verb(enum audit_type type, const char *run, const struct buf *members, struct err *err);
/* The same for what a word says: "what", and "name" if it is not NULL. */
int audit_verb_word(enum audit_type type, const char *run, const char *what, const char *name, struct err *err);
/* The same with how many changes of a run it is about, and the first of their paths. only: patterns; may be NULL. */
int audit_verb_changes(enum audit_type type, const char *run, const char *what, const struct change_set *s,
                       const struct strv *only, struct err *err);
/* "key":["a","b"], so many as fit. */
void audit_verb_list(struct buf *b, const char *key, const struct strv *list);
