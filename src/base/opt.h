/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options as tables. One table per verb drives the parser, --help, the man page and the completions,
 * so that they cannot disagree. A row says where its value goes:
 *
 *     struct request {
 *         const char *profile;
 *         uint64_t lines;
 *         bool json;
 *     };
 *     static const struct opt opts[] = {
 *         {0, 'p', "profile", "NAME", "use this profile", "@profile", OPT_TO_TEXT(struct request, profile)},
 *         {0, 'n', "lines", "N", "only the last N", NULL, OPT_TO_NUMBER(struct request, lines, 1, 1000)},
 *         {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct request, json)},
 *     };
 *     struct request q = {.lines = 100};
 *     int words = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 1, &err);
 *     // negative: err says what is wrong (exit status 64); else argv[1] to argv[words] are the operands
 *
 * A row without a place for its value has an id > 0, and opt_next() or opt_fill() hands it to the caller.
 */
#pragma once

#include <errno.h>

#include "base/macros.h"
#include "base/strv.h"

struct err;
struct opt;

/* For values of a kind of their own. to: the member that OPT_TO_CALL() names. value: NULL without an argument. */
typedef int opt_call(const struct opt *o, const char *value, void *to, struct err *err);

enum opt_kind {
    OPT_KIND_NONE, /* the caller's, by id */
    OPT_KIND_FLAG,
    OPT_KIND_TEXT,
    OPT_KIND_COPY,
    OPT_KIND_WORD,
    OPT_KIND_ENUM,
    OPT_KIND_NUMBER,
    OPT_KIND_SIZE,
    OPT_KIND_TIME,
    OPT_KIND_LIST,
    OPT_KIND_CALL,
};

struct opt_slot {
    enum opt_kind kind;
    size_t offset;            /* into the struct that opt_parse() fills */
    uint64_t min, max;        /* of a number */
    const char *const *names; /* of an enum */
    size_t n_names;
    opt_call *call;
};

struct opt {
    int id;             /* > 0, or 0 if there is a slot */
    char letter;        /* 0: no short form */
    const char *name;   /* without the dashes */
    const char *arg;    /* name of the argument in the help; NULL: takes none; "[=X]": optional, --name=X only */
    const char *help;   /* one clause, lower case, no full stop */
    const char *values; /* for completion: "a|b|c", or @file @dir @profile @engine @agent @command; may be NULL */
    struct opt_slot slot;
};

/* Values are the caller's argv; the last one of several counts. */
#define OPT_TO_FLAG(type, member) \
    { .kind = OPT_KIND_FLAG, .offset = OFFSET_AS(type, member, bool) }
#define OPT_TO_TEXT(type, member) \
    { .kind = OPT_KIND_TEXT, .offset = OFFSET_AS(type, member, const char *) }
/* A copy that the struct owns. */
#define OPT_TO_COPY(type, member) \
    { .kind = OPT_KIND_COPY, .offset = OFFSET_AS(type, member, char *) }
/* A const char * that is one of the row's values, "a|b|c". */
#define OPT_TO_WORD(type, member) \
    { .kind = OPT_KIND_WORD, .offset = OFFSET_AS(type, member, const char *) }
/* The place of the value in an array of names; NULL in it: not a value. The member is an enum or int. */
#define OPT_TO_ENUM(type, member, table) \
    { .kind = OPT_KIND_ENUM, .offset = OFFSET_AS_ENUM(type, member), .names = (table), .n_names = ARRAY_LEN(table) }
#define OPT_TO_NUMBER(type, member, least, most) \
    { .kind = OPT_KIND_NUMBER, .offset = OFFSET_AS(type, member, uint64_t), .min = (least), .max = (most) }
#define OPT_TO_SIZE(type, member) /* bytes */ \
    { .kind = OPT_KIND_SIZE, .offset = OFFSET_AS(type, member, uint64_t) }
#define OPT_TO_TIME(type, member) /* milliseconds */ \
    { .kind = OPT_KIND_TIME, .offset = OFFSET_AS(type, member, uint64_t) }
/* May be repeated; the struct owns the list. */
#define OPT_TO_LIST(type, member) \
    { .kind = OPT_KIND_LIST, .offset = OFFSET_AS(type, member, struct strv) }
#define OPT_TO_CALL(type, member, fn) \
    { .kind = OPT_KIND_CALL, .offset = offsetof(type, member), .call = (fn) }

struct opt_iter {
    const struct opt *opts;
    size_t n;
    int argc, pos;
    char **argv;
    const char *cluster;   /* rest of a group of short options */
    const struct opt *opt; /* result: which option */
    int id;                /* result: its id */
    const char *value;     /* result: its argument, or NULL */
    bool dashes;           /* "--" was passed; opt_fill() sees only operands behind it */
};

/* What the functions below return for --help, or -h, that the table does not have. For a program that has no help it is a wrong option. */
enum { OPT_HELP = -ENOMSG };

/*
 * All of argv. Operands may come before options and are moved to argv[1...] in their order; after "--" there are only operands.
 * More than max_words: "unexpected argument". Every row needs a slot. Returns the number of operands. What a failed call has stored in
 * `to` stays there, so that one function frees it either way.
 */
int opt_parse(const struct opt *opts, size_t n, int argc, char **argv, void *to, int max_words, struct err *err);

struct opt_iter opt_iter_init(const struct opt *opts, size_t n, int argc, char **argv); /* starts at argv[1] */
/* One option: 1, and id and value are set; 0: argv[it->pos] is the first operand, or behind "--", which is skipped. */
int opt_next(struct opt_iter *it, struct err *err);
/* As opt_next(), but stores options with a slot into `to` and returns only for one without. */
int opt_fill(struct opt_iter *it, void *to, struct err *err);
/* Stores the option that opt_next() found, which must have a slot: for callers that also pass options on. */
int opt_store(const struct opt_iter *it, void *to, struct err *err);
