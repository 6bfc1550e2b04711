/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON files that people write. Their author may be hostile (a project's own file), so size, nesting, encoding and duplicate keys are
 * checked before anything reads the content, and every message names the place: "path:line:column: rules[0].host: must be a string".
 *
 *     static const struct jsonwalk_key keys[] = {{"name", read_name}, {"hosts", read_hosts}};
 *     CLEANUP(jsonfile_done) struct jsonfile f = {0};
 *     r = jsonfile_parse(path, data, len, FILE_MAX, &f, err);
 *     struct jsonwalk w = {.file = &f};
 *     r = r < 0 ? r : jsonwalk_members(&w, f.root, keys, ARRAY_LEN(keys), &result, err);
 */
#pragma once

#include <jansson.h>

#include "base/macros.h"

struct err;

enum { JSONFILE_DEPTH_MAX = 32 };

struct jsonfile {
    char *name; /* for messages */
    char *data; /* NUL-terminated */
    size_t len;
    json_t *root; /* an object */
};

/* Copies name and data. Bad content: exit status 64, -EINVAL. */
int jsonfile_parse(const char *name, const char *data, size_t len, size_t max, struct jsonfile *ret, struct err *err);
void jsonfile_done(struct jsonfile *f);

/* The way down from the root to the value that is being read. */
struct jsonwalk {
    const struct jsonfile *file;
    const char *home; /* for values with "~/"; may be NULL */
    struct {
        const char *key; /* NULL: the element `index` of an array */
        size_t index;
    } steps[JSONFILE_DEPTH_MAX];
    size_t depth;
};

void jsonwalk_enter(struct jsonwalk *w, const char *key);
void jsonwalk_enter_index(struct jsonwalk *w, size_t index);
void jsonwalk_leave(struct jsonwalk *w);

struct jsonfile_position {
    unsigned line, column; /* from 1; characters, as editors count */
};
struct jsonfile_position jsonwalk_position(const struct jsonwalk *w); /* of the value */

/* Each member of an object by the row of its name; other names are refused. The way is the one to the value while read() runs. */
typedef int jsonwalk_read(struct jsonwalk *w, json_t *v, void *arg, struct err *err);
struct jsonwalk_key {
    const char *name;
    jsonwalk_read *read;
    size_t offset; /* read() gets arg + offset: where the struct in arg has this value */
};
int jsonwalk_members(struct jsonwalk *w, json_t *v, const struct jsonwalk_key *keys, size_t n, void *arg, struct err *err);
/* Each member of an object, whatever its name, which jsonwalk_key_of() says. */
int jsonwalk_each(struct jsonwalk *w, json_t *v, jsonwalk_read *read, void *arg, struct err *err);
const char *jsonwalk_key_of(const struct jsonwalk *w);
/* Each element of an array of at most max. */
int jsonwalk_elements(struct jsonwalk *w, json_t *v, size_t max, jsonwalk_read *read, void *arg, struct err *err);
/* The value itself, or each element if it is an array, which must not be empty then. */
int jsonwalk_one_or_more(struct jsonwalk *w, json_t *v, size_t max, jsonwalk_read *read, void *arg, struct err *err);

/* "path:line:column: rules[0].host: <text>", exit status 64, -EINVAL. fail_key: the position is that of the key. */
int jsonwalk_fail(const struct jsonwalk *w, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
int jsonwalk_fail_key(const struct jsonwalk *w, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same in front of the message that err has already, if r is -EINVAL; returns r. */
int jsonwalk_ctx(const struct jsonwalk *w, int r, struct err *err);
int jsonwalk_wrong_type(const struct jsonwalk *w, const json_t *v, const char *wanted, struct err *err);
/* The last step is a key that is not known; near: what was probably meant, or NULL and then known: "a, b, c" */
int jsonwalk_unknown_key(const struct jsonwalk *w, const char *near, const char *known, struct err *err);
