/* SPDX-License-Identifier: Apache-2.0 */
/* Ignore rules as bytes: bawn hands the rules that held in a run to bawn-review, which may open no file of the user's. */
#pragma once

#include "base/buf.h"

struct err;
struct ignore;

enum { RULES_MAX = 16 * 1024 * 1024 }; /* IGNORE_BYTES_MAX for each of three sets, and their names */

struct review_rules {
    struct ignore *now;      /* what .sandboxignore says; never NULL once read */
    struct ignore *accepted; /* what the user accepted if that differs, else NULL */
    struct ignore *protect;  /* what is protected in this workspace; NULL: the built-in list */
};
void review_rules_done(struct review_rules *r);

/* The sets one after the other. */
void review_rules_write(const struct review_rules *r, struct buf *b);
int review_rules_read(const char *data, size_t len, struct review_rules *ret, struct err *err);
