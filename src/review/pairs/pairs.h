/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files as flat lists of keys and values, so that one table of keys serves every format:
 *
 *     {"scripts": {"test": "make"}}   scripts.test = make
 *     [alias]\n\tx = !sh              alias.x = !sh
 *     a:\n  - b: c                    a[] = {, a[].b = c
 *
 * The readers are lenient on purpose and never trusted: of two equal keys both are listed (programs differ in which they obey),
 * and a line that is not understood is noted in `odd`, upon which the caller says that the file could not be read.
 */
#pragma once

#include "base/buf.h"

enum {
    PAIRS_MAX = 1000000,
    PAIRS_BYTES_MAX = 64 * 1024 * 1024, /* of all keys and values; a deep file repeats its upper keys */
    PAIRS_DEPTH_MAX = 64,
    PAIRS_KEY_MAX = 1024, /* a longer key is cut, and odd */
};

/* Between the names of a key: a byte that no name contains. '.' in what is shown. */
#define PAIR_STEP '\x1f'

struct pair {
    size_t key, value; /* offsets in text */
    unsigned line;     /* from 1 */
};
struct pairs {
    struct pair *v; /* in the order of the file */
    size_t n;
    struct buf text;
    unsigned odd; /* the first line that was not understood; 0: none */
};
#define PAIRS_INIT \
    { .text = BUF_INIT(PAIRS_BYTES_MAX) }

void pairs_done(struct pairs *p);

typedef void pairs_read_fn(struct pairs *p, const char *data, size_t len); /* data[len] is 0 */
pairs_read_fn pairs_read_json; /* with comments and trailing commas; an element that is a table begins with "KEY[] = {" */
pairs_read_fn pairs_read_toml; /* [[x]] begins with "x[] = {" */
pairs_read_fn pairs_read_yaml;
pairs_read_fn pairs_read_ini; /* [section], "key = value", "key: value"; a line that begins with a space goes on with the value */
pairs_read_fn pairs_read_git; /* git's own */
pairs_read_fn pairs_read_go;  /* go.mod: a directive and its operands */

const char *pairs_key(const struct pairs *p, size_t i);
const char *pairs_value(const struct pairs *p, size_t i);

/* For readers. The key is cut into names by PAIR_STEP. */
void pairs_add(struct pairs *p, const char *key, size_t key_len, const char *value, size_t value_len, unsigned line);
void pairs_odd(struct pairs *p, unsigned line);

/* For every pair of `now` that `before` does not have: index in now. For every key of `before` that is gone: index in before. */
typedef void pairs_each_fn(const struct pairs *p, size_t i, void *arg);
int pairs_compare(const struct pairs *before, const struct pairs *now, pairs_each_fn *added, pairs_each_fn *removed, void *arg);
