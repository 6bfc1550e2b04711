/* Ignore rules as bytes: bawn hands the rules that held in a run to bawn-review, which may open no file of the user's. */
#pragma once

#include "base/buf.h"

struct err;
struct ignore;

enum { RULES_MAX = 16 * 1024 * 1024 }; /* IGNORE_BYTES_MAX for each of two sets, and their names */

/* The sets one after the other: what .sandboxignore says now, and what the user accepted if that differs (else NULL). */
void review_rules_write(const struct ignore *now, const struct ignore *accepted, struct buf *b);
/* *ret_accepted is NULL if there was none. */
int review_rules_read(const char *data, size_t len, struct ignore **ret_now, struct ignore **ret_accepted, struct err *err);
