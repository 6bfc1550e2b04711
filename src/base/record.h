/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text and JSON from one description: a table of columns says what a row has, by what heading and by what key.
 *
 *     static const struct column columns[] = {
 *         {"TAG", "tag", COLUMN(CHARS, struct checkpoint, tag), .width = 24},
 *         {"FILES", "files", COLUMN(U64, struct checkpoint, files), .width = -8},
 *         {"SIZE", "bytes", COLUMN(SIZE, struct checkpoint, bytes)},
 *         {NULL, "running", COLUMN(BOOL, struct checkpoint, running)},
 *     };
 *     static const struct record_kind checkpoints = {columns, ARRAY_LEN(columns), sizeof(struct checkpoint)};
 *
 *     record_table(&checkpoints, list.v, list.n, colours, out);            a heading, then a line for each
 *     record_array(&checkpoints, list.v, list.n, NULL, RECORD_BETWEEN, &json);
 *
 * A buffer that fails says so by buf_ok(). Texts are made safe for a terminal (buf_add_printable()); callbacks do that themselves.
 */
#pragma once

#include "base/macros.h"

struct buf;
struct jsonout;
struct strv;

enum column_kind {
    COLUMN_NONE,  /* by callbacks only */
    COLUMN_TEXT,  /* const char *, char * */
    COLUMN_CHARS, /* char[] */
    COLUMN_BOOL,  /* yes, no; true, false */
    COLUMN_INT,
    COLUMN_U32,
    COLUMN_U64,
    COLUMN_SIZE, /* uint64_t: "4 KiB"; the number of bytes */
    COLUMN_TIME, /* uint64_t, ns: "2026-01-31T12:00:00Z" */
    COLUMN_ENUM, /* by names */
    COLUMN_LIST, /* struct strv: "a,b"; ["a", "b"] */
};

/* What an empty value (NULL, "", 0, no elements) is. In a table it is always a cell. */
enum column_empty {
    COLUMN_SHOW, /* as it is; NULL and time 0 are null */
    COLUMN_NULL, /* null */
    COLUMN_OMIT, /* no member, no line */
};

struct column {
    const char *title; /* heading, or name of the line; NULL: only in JSON */
    const char *key;   /* NULL: only in text */
    enum column_kind kind;
    size_t offset;
    int width;        /* of a table's column at least; negative: aligned to the right */
    const char *none; /* the text of an empty value; NULL: as it is */
    enum column_empty empty;
    const char *const *names;
    /* In place of what the kind does. json adds the member (or several, or none) by its key. */
    void (*text)(const void *row, struct buf *cell);
    void (*json)(const void *row, const char *key, struct jsonout *j);
    const char *(*colour)(const void *row); /* of the text: an escape sequence that ends with 'm' */
};

/* Kind and place of a column; a member of another type does not compile. {"FILES", "files", COLUMN(U64, struct x, files)} */
#define COLUMN(kind, type, member) COLUMN_##kind, COLUMN_AT_##kind(type, member)
#define COLUMN_AT_TEXT(type, member) \
    OFFSET_IF(type, member, MEMBER_IS(type, member, char *) || MEMBER_IS(type, member, const char *))
#define COLUMN_AT_CHARS(type, member) OFFSET_AS_CHARS(type, member)
#define COLUMN_AT_BOOL(type, member) OFFSET_AS(type, member, bool)
#define COLUMN_AT_INT(type, member) OFFSET_AS(type, member, int)
#define COLUMN_AT_U32(type, member) OFFSET_AS(type, member, uint32_t)
#define COLUMN_AT_U64(type, member) OFFSET_AS(type, member, uint64_t)
#define COLUMN_AT_SIZE(type, member) OFFSET_AS(type, member, uint64_t)
#define COLUMN_AT_TIME(type, member) OFFSET_AS(type, member, uint64_t)
#define COLUMN_AT_ENUM(type, member) OFFSET_AS_ENUM(type, member)
#define COLUMN_AT_LIST(type, member) OFFSET_AS(type, member, struct strv)

enum { RECORD_COLUMNS_MAX = 32 };

struct record_kind {
    const struct column *v;
    size_t n;        /* at most RECORD_COLUMNS_MAX with a title */
    size_t row_size; /* rows are an array of these */
    bool no_heading;
};

/* Columns are as wide as their widest cell, two spaces apart. The last is not padded. */
void record_table(const struct record_kind *k, const void *rows, size_t n, bool colours, struct buf *out);
/* The members of an object that the caller opens and closes. */
void record_members(const struct record_kind *k, const void *row, struct jsonout *j);

enum record_layout {
    RECORD_INLINE,  /* [{...}, {...}] */
    RECORD_BETWEEN, /* [{...},\n {...}] */
    RECORD_LINES,   /* [\n  {...},\n  {...}\n], and [] without any */
};
/* key: NULL for the outermost value. */
void record_array(const struct record_kind *k, const void *rows, size_t n, const char *key, enum record_layout layout,
                  struct jsonout *j);

/* Cells in rows of `columns` each, aligned as above: for tables whose columns are not members of a struct. */
void record_cells(const struct strv *cells, size_t columns, struct buf *out);
