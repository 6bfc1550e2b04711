/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as it is stored and given to bawn-task: fields by their names, because the numbers of enum api_field change with the API, and a run
 * that was accepted by one version may be started by the next.
 *
 * Each field is its name with a NUL, u32 length (little-endian), bytes. A pair of a map is `key NUL value`.
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"

struct err;

void taskreq_add(struct buf *to, const char *name, const char *data, size_t len);

struct taskreq_field {
    const char *name, *data; /* data has no NUL behind it */
    size_t len;
};
/* 1: the field at *at, which moves on; 0: no more; -EBADMSG. */
int taskreq_next(const struct buf *b, size_t *at, struct taskreq_field *ret);
/* The first of this name, as a copy; *ret is NULL if there is none. 0 or -errno */
int taskreq_get(const struct buf *b, const char *name, char **ret);
bool taskreq_has(const struct buf *b, const char *name);
bool taskreq_flag(const struct buf *b, const char *name);

/* "bawn", "run", options, "--", the command. name: of the run. setup_fd: of tasksetup.h, in bawn; -1: none. */
int taskreq_argv(const struct buf *b, const char *name, int result_fd, int setup_fd, struct strv *ret, struct err *err);
/* The same for "bawn start NAME". */
int taskreq_start_argv(const struct buf *b, const char *name, struct strv *ret, struct err *err);
