/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file: its bytes, checked, and the JSON in them. Whoever wrote the file may be hostile (a project's
 * own file), so size, nesting, encoding and duplicate keys are checked before anything looks at the content.
 */
#pragma once

#include <jansson.h>

#include "config/fields/locate.h"

struct err;

enum { DOC_SIZE_MAX = 1024 * 1024, DOC_DEPTH_MAX = 32 };

struct doc {
    char *path; /* for messages */
    char *data; /* NUL-terminated */
    size_t len;
    json_t *root; /* an object */
};

/* Each fails with exit status 64 and "path:line:column: what is wrong" if the content is bad. */
int doc_parse(const char *path, const char *data, size_t len, struct doc *ret, struct err *err);
int doc_read_fd(int fd, const char *path, struct doc *ret, struct err *err); /* wants a regular file */
/* Returns 1 if the file was read, 0 if there is none. Follows symbolic links: only for files the user owns. */
int doc_read(const char *path, struct doc *ret, struct err *err);
void doc_done(struct doc *d);

/* A walk through a doc: what an error message needs to name the place. */
struct doc_reader {
    const struct doc *doc;
    const char *home; /* for "~/"; may be NULL */
    struct locate_step steps[DOC_DEPTH_MAX + 1];
    size_t depth;
};

void reader_enter(struct doc_reader *rd, const char *key);
void reader_enter_index(struct doc_reader *rd, size_t index);
void reader_leave(struct doc_reader *rd);
struct position reader_position(const struct doc_reader *rd, enum locate_what what);

/* "path:line:column: sandbox.network: <text>", exit status 64. */
int reader_fail(const struct doc_reader *rd, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same prefix in front of the message that err already has. */
int reader_ctx(const struct doc_reader *rd, int r, struct err *err);
int reader_wrong_type(const struct doc_reader *rd, const json_t *v, const char *wanted, struct err *err);
/* The last step is a key nobody knows; near (may be NULL) is what was probably meant. */
int reader_unknown_key(const struct doc_reader *rd, const char *near, const char *known, struct err *err);
