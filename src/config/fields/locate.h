/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a JSON text a value stands. jansson knows positions only while it parses, so an error found later (unknown
 * key, wrong type) is looked up here by its path. The text must have passed the parser; other bytes only make the
 * answer "not found".
 */
#pragma once

#include "base/macros.h"

/* One step down: into the member `key`, or, if key is NULL, into the element `index` of an array. */
struct locate_step {
    const char *key;
    size_t index;
};

struct position {
    unsigned line, column; /* from 1; the column counts characters, as editors do */
};

enum locate_what { LOCATE_KEY, LOCATE_VALUE };

/* LOCATE_KEY of a path that ends in an array element is its value. False if there is no such path. */
bool locate(const char *text, size_t len, const struct locate_step *path, size_t n, enum locate_what what, struct position *ret);
struct position locate_offset(const char *text, size_t offset);
