/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a request: decoded segments of the path, decoded pairs of the query. The path is split before it is decoded, so "%2f" is a
 * slash within a segment, and "." and ".." mean nothing.
 */
#pragma once

#include "base/macros.h"

enum { URI_MAX = 16 * 1024, URI_SEGMENTS_MAX = 8, URI_QUERY_MAX = 32 };

struct uri_text {
    const char *text; /* with a NUL behind it, and none in it */
    size_t len;
};

struct uri {
    char *own; /* what the texts point into */
    struct uri_text segment[URI_SEGMENTS_MAX];
    size_t n_segments;
    struct {
        struct uri_text name, value;
    } query[URI_QUERY_MAX];
    size_t n_query;
};

/* 0; -EINVAL: not a path, or wrongly escaped; -E2BIG: more than there is room for; -ENOMEM. *ret is only written on success. */
int uri_parse(const char *raw, struct uri *ret);
void uri_done(struct uri *u);
