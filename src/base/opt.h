/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options as tables. One table per verb drives the parser, --help, the man page and the completions,
 * so that they cannot disagree.
 *
 *     static const struct opt opts[] = {
 *         {OPT_PROFILE, 'p', "profile", "NAME", "use this profile", "@profile"},
 *     };
 *     struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
 *     while ((r = opt_next(&it, &err)) > 0)
 *         switch (it.id) ...
 *     // r == 0: argv[it.pos] is the first operand; r < 0: err says what is wrong (exit status 64)
 *
 * Parsing stops at the first operand and at "--" (which is skipped).
 */
#pragma once

#include "base/macros.h"

struct err;

struct opt {
    int id;             /* > 0 */
    char letter;        /* 0: no short form */
    const char *name;   /* without the dashes */
    const char *arg;    /* name of the argument in the help; NULL: takes none; "[=X]": optional, --name=X only */
    const char *help;   /* one clause, lower case, no full stop */
    const char *values; /* for completion: "a|b|c", or @file @dir @profile @engine @agent @command; may be NULL */
};

struct opt_iter {
    const struct opt *opts;
    size_t n;
    int argc, pos;
    char **argv;
    const char *cluster; /* rest of a group of short options */
    int id;              /* result: which option */
    const char *value;   /* result: its argument, or NULL */
};

struct opt_iter opt_iter_init(const struct opt *opts, size_t n, int argc, char **argv); /* starts at argv[1] */
int opt_next(struct opt_iter *it, struct err *err);
