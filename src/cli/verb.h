/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs of the command line. Each cmd_<verb>.c opens with its option table and its `const struct verb`;
 * verbs.c lists them. Help, man page and completions are made from these tables (manual.c, completion.c).
 */
#pragma once

#include "base/opt.h"
#include "ops/notice.h"

struct verb {
    const char *name;        /* "run", "profile ls" */
    const char *summary;     /* one line, lower case, no full stop */
    const char *synopsis;    /* what follows the name, e.g. "[options] [--] COMMAND [ARG...]" */
    const char *description; /* paragraphs, plain text, for --help and the man page; may be NULL */
    const struct opt *opts;
    size_t n_opts;
    int (*run)(const struct verb *self, int argc, char **argv); /* argv[0] is the last word of name; returns the exit status */
    bool hidden;                                                /* for tests and generators only */
};

extern const struct verb *const verbs[];
extern const size_t n_verbs;

/* Finds the verb that the command line names and runs it; returns the exit status. */
int verb_dispatch(int argc, char **argv);

void verb_help(const struct verb *v); /* to stdout */
/* Prints "bawn: <message>" and, for usage errors, where help is. Returns the exit status. */
int verb_fail(const struct verb *v, const struct err *err);

/* Notices of operations go to stderr. */
extern const struct notice verb_notice;
