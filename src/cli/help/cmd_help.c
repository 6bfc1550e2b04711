/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn help`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "cli/verb.h"

struct help_request {
    bool man;
};

static const struct opt opts[] = {
    {0, 0, "man", NULL, "print the whole manual as a man page, for 'man -l -'", NULL, OPT_TO_FLAG(struct help_request, man)},
};

static void print_man(const struct manual *all) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_roff(all, &b);
    fputs(buf_str(&b), stdout);
}

static void print_group(const struct manual *all, const char *group) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_overview(all, group, manual_colours(), &b);
    fputs(buf_str(&b), stdout);
}

static int unknown_verb(const struct manual *all, const char *name) {
    CLEANUP(buf_done) struct buf near = BUF_INIT(256);
    struct err err = {0};

    if (manual_nearest(all, name, &near))
        err_usage(&err, "there is no command '%s' (did you mean '%s'?)", name, buf_str(&near));
    else
        err_usage(&err, "there is no command '%s'", name);
    return verb_fail(NULL, &err);
}

/* Words of the command line are put together again: `bawn help profile ls`. */
static int help_for(const struct manual *all, int argc, char **argv) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(256);
    const struct verb *v;

    for (int i = 0; i < argc; i++)
        buf_addf(&name, "%s%s", i ? " " : "", argv[i]);
    v = manual_find(all, buf_str(&name));
    if (v)
        verb_help(v);
    else if (manual_is_group(all, buf_str(&name)))
        print_group(all, buf_str(&name));
    else
        return unknown_verb(all, buf_str(&name));
    return 0;
}

static int run_help(const struct verb *self, int argc, char **argv) {
    const struct manual all = {verbs, n_verbs};
    struct help_request q = {0};
    struct err err = {0};
    int words = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    if (words < 0)
        return verb_fail(self, &err);
    if (words && !q.man)
        return help_for(&all, words, argv + 1);
    if (q.man)
        print_man(&all);
    else
        verb_help(NULL);
    return 0;
}

const struct verb cmd_help = {
    .name = "help",
    .summary = "explain a command, or list them all",
    .synopsis = "[--man] [VERB]",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_help,
};
