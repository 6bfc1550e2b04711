/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs of the command line. Each cmd_<verb>.c opens with its option table and its `const struct verb`;
 * verbs.c lists them. Help, man page and completions are made from these tables (manual.c, completion.c).
 */
#pragma once

#include "base/buf.h"
#include "base/opt.h"
#include "ops/notice.h"

struct verb;

/* A verb that was called. */
struct verb_call {
    const struct verb *verb;
    int argc;
    char **argv;    /* argv[0] is the last word of its name */
    struct buf out; /* for the standard output; printed at the end, unless the verb fails */
};

struct verb {
    const char *name;        /* "run", "profile ls" */
    const char *summary;     /* one line, lower case, no full stop */
    const char *synopsis;    /* what follows the name, e.g. "[options] [--] COMMAND [ARG...]" */
    const char *description; /* paragraphs, plain text, for --help and the man page; may be NULL */
    const struct opt *opts;
    size_t n_opts;
    int (*run)(struct verb_call *c, struct err *err); /* returns the exit status, or negative */
};
#define VERB_OPTS(table) .opts = (table), .n_opts = ARRAY_LEN(table)

extern const struct verb *const verbs[];
extern const size_t n_verbs;

/* Finds the verb that the command line names and runs it; returns the exit status. */
int verb_dispatch(int argc, char **argv);

/* opt_parse() of the verb's own options. */
int verb_parse(const struct verb_call *c, void *to, int max_words, struct err *err);
/* --json alone: it fills a bool. */
#define VERB_JSON(help)                   \
    {                                     \
        0, 0, "json", NULL, help, NULL, { \
            .kind = OPT_KIND_FLAG         \
        }                                 \
    }
extern const struct opt verb_json_opts[1];
/* --quiet: log_set_quiet(); it fills nothing. */
#define VERB_QUIET_OPT                                                                                  \
    {                                                                                                   \
        0, 'q', "quiet", NULL, "no notices and no summary; errors and dangers are still named", NULL, { \
            .kind = OPT_KIND_CALL, .call = verb_quiet                                                   \
        }                                                                                               \
    }
opt_call verb_quiet;
/* Now, all of it, or why not. Empties the buffer. */
int verb_print(struct buf *b, struct err *err);

void verb_help(const struct verb *v, struct buf *out); /* NULL: of all */
/* Prints "bawn: <message>" and, for usage errors, where help is. Returns the exit status. */
int verb_fail(const struct verb *v, const struct err *err);

/* Notices of operations go to stderr, as do these; with --quiet only alerts do. */
extern const struct notice verb_notice, verb_alert;
void verb_say(const struct strv *lines);
