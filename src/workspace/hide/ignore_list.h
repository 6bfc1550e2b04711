/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of one ignore file, compiled and indexed. Private to the matcher: others use ignore.h. */
#pragma once

#include "workspace/hide/ignore.h"
#include "workspace/hide/ignore_glob.h"

/* Most patterns need no wildcard matching: they are looked up by their bytes. */
enum rule_kind {
    RULE_NAME,      /* "foo": the last name of the path */
    RULE_SUFFIX,    /* "*.pem" */
    RULE_PREFIX,    /* "id_rsa*" */
    RULE_PATH,      /* "a/foo": all of the path */
    RULE_NAME_GLOB, /* the rest, one after the other */
    RULE_PATH_GLOB,
};

enum {
    AFFIX_MAX = 255, /* no name is longer; longer affixes are globs */
    ANY_BYTE = 256,
};

struct ignore_rule {
    const char *text; /* the line, NUL-terminated */
    unsigned line;
    uint8_t kind;
    bool negative, dir_only;
    int next;          /* the next older rule in the same bucket or row of globs; -1 */
    const char *bytes; /* these, or what a glob starts with: in the text, or owned */
    char *owned;
    size_t len;
    struct ignore_glob glob;
    size_t tail; /* a glob ends with that many plain bytes */
};

struct ignore_list {
    char *dir, *origin, *data; /* data: the file, cut into strings */
    size_t dir_len;
    struct ignore_rule *rules; /* in the order of the file: the last one that matches decides */
    size_t n;
    int *buckets;
    size_t mask;
    int globs[2][ANY_BYTE + 1]; /* the newest glob for names, for paths: by its first byte, or ANY_BYTE if that is a wildcard */
    uint64_t lengths[RULE_PATH + 1][4]; /* per kind: which lengths of bytes occur, modulo 256 */
    uint64_t edges[2][4];               /* which bytes suffixes end with, prefixes start with */
    const struct ignore_list *up;       /* the rules that count where these say nothing */
    int next;                           /* for the table of lists */
};

int ignore_list_new(const char *dir, const char *origin, const char *data, size_t len, struct ignore_list **ret, struct err *err);
void ignore_list_free(struct ignore_list *l);

/* The number of the rule that decides about a path relative to the list's folder, whose last name starts at `name`; or -1. */
int ignore_list_find(const struct ignore_list *l, const char *path, size_t len, size_t name, bool is_dir);

/* Looks at length and last bytes only, which tell names with one extension apart no worse than all bytes would. */
static inline uint32_t ignore_hash(unsigned salt, const char *s, size_t len) {
    uint64_t h = 0;

    memcpy(&h, s + (len > sizeof h ? len - sizeof h : 0), MIN_OF(len, sizeof h));
    h = (h ^ (uint64_t)len << 3 ^ salt) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 45);
}
