/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON by jansson: tables for our own files and messages, and the few things that readers of single members share.
 *
 *     static const struct json_field fields[] = {
 *         JSON_VERSION("version", 1),
 *         JSON_PATH("workspace", struct info, workspace),
 *         JSON_U64("created_ns", struct info, created_ns),
 *         JSON_ENUM("mode", struct info, mode, mode_names),
 *     };
 *     static const struct json_table table = {fields, ARRAY_LEN(fields)};
 *     r = json_table_parse(&table, text, len, INFO_MAX, &info, err);      "key 'mode': expected one of overlay, sync"
 *     r = json_table_write(&table, &info, JSON_INDENT(2), &out, err);     keys in the order of the table
 */
#pragma once

#include <jansson.h>

#include "base/macros.h"
#include "base/strv.h"

struct buf;
struct err;

/* -- tables -------------------------------------------------------------------------------------------------------------- */

enum json_kind {
    JSON_KIND_VERSION,
    JSON_KIND_STRING,
    JSON_KIND_CHARS,
    JSON_KIND_BOOL,
    JSON_KIND_INT,
    JSON_KIND_U64,
    JSON_KIND_ENUM,
    JSON_KIND_STRINGS,
    JSON_KIND_CALL,
};

enum json_flags {
    JSON_OPTIONAL = 1, /* reading: may be missing, and leaves the member as it is. Writing: left out if 0, "" or NULL */
    JSON_NULLABLE = 2, /* null is the NULL of a string */
    JSON_ENCODED = 4,  /* strings of any bytes, by base/pathtext.h */
    JSON_ABSOLUTE = 8, /* strings begin with '/' */
};

struct json_field {
    const char *key;
    enum json_kind kind;
    unsigned flags;
    size_t offset, size;      /* of the member */
    int64_t min, max;         /* of a number; max of a list: the most elements */
    const char *const *names; /* of an enum */
    size_t n_names;
    /* A kind of its own. read: -EBADMSG, and err says what is expected. write: a new reference, NULL if memory runs out. */
    int (*read)(const json_t *v, void *member, struct err *err);
    json_t *(*write)(const void *member);
};

struct json_table {
    const struct json_field *v;
    size_t n;
    bool strict; /* keys that are not in the table are refused; else ignored */
};

#define JSON_AT(type, member, checked) .offset = (checked), .size = sizeof(((type *)0)->member)
#define JSON_AS(type, member, want) JSON_AT(type, member, OFFSET_AS(type, member, want))
#define JSON_VERSION(name, number) \
    { .key = (name), .kind = JSON_KIND_VERSION, .min = (number) }
/* char *, malloc'ed */
#define JSON_STRING_OF(name, type, member, how) \
    { .key = (name), .kind = JSON_KIND_STRING, JSON_AS(type, member, char *), .flags = (how) }
/* char *: an absolute path */
#define JSON_PATH(name, type, member) JSON_STRING_OF(name, type, member, JSON_ENCODED | JSON_ABSOLUTE)
/* char[]; a string that does not fit is refused */
#define JSON_CHARS(name, type, member, how) \
    { .key = (name), .kind = JSON_KIND_CHARS, JSON_AT(type, member, OFFSET_AS_CHARS(type, member)), .flags = (how) }
#define JSON_BOOL(name, type, member) \
    { .key = (name), .kind = JSON_KIND_BOOL, JSON_AS(type, member, bool) }
#define JSON_INT(name, type, member, least, most) /* int, pid_t */ \
    { .key = (name), .kind = JSON_KIND_INT, JSON_AS(type, member, int), .min = (least), .max = (most) }
#define JSON_U64(name, type, member) \
    { .key = (name), .kind = JSON_KIND_U64, JSON_AS(type, member, uint64_t), .max = INT64_MAX }
/* An enum by an array of its names. */
#define JSON_ENUM(name, type, member, table)                                                                          \
    {                                                                                                                 \
        .key = (name), .kind = JSON_KIND_ENUM, JSON_AT(type, member, OFFSET_AS_ENUM(type, member)), .names = (table), \
        .n_names = ARRAY_LEN(table)                                                                                   \
    }
#define JSON_STRINGS(name, type, member, how, most) /* struct strv */ \
    { .key = (name), .kind = JSON_KIND_STRINGS, JSON_AS(type, member, struct strv), .flags = (how), .max = (most) }
#define JSON_CALL(name, type, member, how, reader, writer)                                                                      \
    {                                                                                                                           \
        .key = (name), .kind = JSON_KIND_CALL, JSON_AT(type, member, offsetof(type, member)), .flags = (how), .read = (reader), \
        .write = (writer)                                                                                                       \
    }

/* -EBADMSG with "key 'x': expected a number"; what was read until then stays in `to`, for the caller's cleanup. */
int json_table_read(const struct json_table *t, const json_t *object, void *to, struct err *err);
/* The same from text of at most max bytes. */
int json_table_parse(const struct json_table *t, const char *text, size_t len, size_t max, void *to, struct err *err);
/* NULL if memory runs out. */
json_t *json_table_make(const struct json_table *t, const void *from);
/* flags: of json_dumps(). A line feed follows. -EFBIG: more than the ceiling of the buffer */
int json_table_write(const struct json_table *t, const void *from, size_t flags, struct buf *out, struct err *err);

/* -- single members ------------------------------------------------------------------------------------------------------ */

/* An object without duplicate keys, from text of at most max bytes; -EBADMSG, -EFBIG. CLEANUP(json_decrefp) */
int json_parse_object(const char *text, size_t len, size_t max, json_t **ret, struct err *err);
/* object may be NULL or anything else: then nothing is in it. */
const char *json_get_text(const json_t *object, const char *key);              /* "" if it is no string */
int64_t json_get_int(const json_t *object, const char *key, int64_t fallback); /* reals are cut */
bool json_get_bool(const json_t *object, const char *key);
