/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of an HTTP request in the one form that rules are compared with (ATTACKS 47, 54). The gate sends on this form,
 * so that the server reads the request that was judged.
 *
 *     "/a/%7euser/./b/../c?x"  ->  "/a/~user/c"       unreserved characters decoded, dot segments removed, query cut off
 *     "//a///b"                ->  "/a/b"
 *     "/@scope%2fname"         ->  "/@scope%2Fname", and a second reading "/@scope/name"
 *     "/a/%5c..", "/%00", "/..;/a", "/../a", "/%252e", "/%c0%ae", "/a b", "/%zz"   ->  refused
 *
 * An encoded slash is a separator to some servers and a character to others. Such a path has two readings: a rule that allows
 * must match both, for a rule that denies or asks one is enough.
 */
#pragma once

#include "base/macros.h"

struct err;

enum { HTTP_PATH_MAX = 8192, PATH_GLOB_MAX = 1024 };

struct http_path {
    char text[HTTP_PATH_MAX + 1];
    char other[HTTP_PATH_MAX + 1]; /* the second reading; "" if there is none */
    size_t len;
    size_t query; /* where the query starts in what came, the '?' included; its length if there is none */
    bool changed; /* text is not what came */
};

/* The request target without scheme and host: "/..." or, for OPTIONS, "*". */
int http_path_parse(const char *data, size_t len, struct http_path *ret, struct err *err);

/* A pattern for paths: '*' is any run of characters but '/', '**' any run at all; "/a/" followed by '**' at the end matches "/a"
 * too. Case counts; the query is not compared. Writes the normal form, which is that of a path. */
int path_glob_parse(const char *data, size_t len, char out[static PATH_GLOB_MAX + 1], struct err *err);
bool path_glob_match(const char *glob, const char *path);

/*
 * For rules that deny or ask: also what a server may take for such a path, without regard to case, to how often a character is
 * encoded, to parameters ("/admin;a=b"), dots and spaces at the end of a segment, empty segments and a slash at the end. A
 * character that is not ASCII stands for any one: some servers make plain letters of them. Where servers differ it matches.
 */
bool path_glob_match_loose(const char *glob, const struct http_path *path);
