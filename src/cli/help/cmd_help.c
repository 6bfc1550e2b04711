/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn help`, `completion` and `version`. */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/help/completion.h"
#include "cli/help/manual.h"
#include "cli/verb.h"

static const struct opt opts[] = {
    {0, 0, "man", NULL, "print the whole manual as a man page, for 'man -l -'", NULL, {.kind = OPT_KIND_FLAG}},
};

/* Names the nearest command, and where the commands of its group are listed. */
static int unknown_verb(const struct manual *all, const char *name, const char *first_word, struct err *err) {
    CLEANUP(buf_done) struct buf near = BUF_INIT(256);
    const struct verb group = {.name = first_word};

    if (manual_nearest(all, name, &near))
        err_usage(err, "there is no command '%.200s' (did you mean '%s'?)", name, buf_str(&near));
    else
        err_usage(err, "there is no command '%.200s'", name);
    return verb_fail(manual_is_group(all, first_word) ? &group : NULL, err);
}

/* Words of the command line are put together again: `bawn help profile ls`. */
static int help_for(const struct manual *all, int argc, char **argv, struct buf *out, struct err *err) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(4096);
    const struct verb *v;

    for (int i = 0; i < argc; i++)
        buf_addf(&name, "%s%s", i ? " " : "", argv[i]);
    if (!buf_ok(&name))
        return err_usage(err, "there is no command '%.200s...'", argv[0]);
    v = manual_find(all, buf_str(&name));
    if (v)
        manual_verb(v, manual_colours(NULL), out);
    else if (manual_is_group(all, buf_str(&name)))
        manual_overview(all, buf_str(&name), manual_colours(NULL), out);
    else
        return unknown_verb(all, buf_str(&name), argv[0], err);
    return 0;
}

int help_unknown(int argc, char **argv) {
    const struct manual all = {verbs, n_verbs};
    bool group = manual_is_group(&all, argv[1]), asks = argc > 2 && (str_eq(argv[2], "--help") || str_eq(argv[2], "-h"));
    bool bare = argc < 3 || argv[2][0] == '-';
    CLEANUP(buf_done) struct buf out = BUF_INIT(MANUAL_MAX);
    struct err err = {0};
    int r = help_for(&all, group && !bare ? 2 : 1, argv + 1, &out, &err);

    r = r < 0 ? verb_fail(NULL, &err) : r;
    if (r == 0 && verb_print(&out, &err) < 0)
        return verb_fail(NULL, &err);
    return r == 0 && !asks ? EXIT_USAGE_ERR : r;
}

static int run_help(struct verb_call *c, struct err *err) {
    const struct manual all = {verbs, n_verbs};
    bool man = false;
    int words = verb_parse(c, &man, c->argc, err);

    if (words < 0)
        return words;
    if (words && !man)
        return help_for(&all, words, c->argv + 1, &c->out, err);
    if (man)
        manual_roff(&all, &c->out);
    else
        manual_overview(&all, NULL, manual_colours(NULL), &c->out);
    return 0;
}

const struct verb cmd_help = {
    .name = "help",
    .summary = "explain a command, or list them all",
    .synopsis = "[--man] [VERB]",
    VERB_OPTS(opts),
    .run = run_help,
};

static int run_completion(struct verb_call *c, struct err *err) {
    const struct manual all = {verbs, n_verbs};
    int n = verb_parse(c, NULL, c->argc, err);

    if (n >= 0 && (n != 1 || !completion_script(&all, c->argv[1], &c->out)))
        n = err_usage(err, "name one shell: bash, zsh or fish");
    return n < 0 ? n : 0;
}

const struct verb cmd_completion = {
    .name = "completion",
    .summary = "print the completion script for a shell",
    .synopsis = "bash|zsh|fish",
    .description =
        "Writes a script to the standard output that teaches a shell the commands, options and values of bawn. `make install` "
        "installs it for all three. For the running shell:\n\n"
        "    source <(bawn completion bash)\n"
        "    bawn completion fish | source",
    .run = run_completion,
};

static int run_version(struct verb_call *c, struct err *err) {
    bool json = false;
    int r = verb_parse(c, &json, c->argc, err);

    buf_addf(&c->out, json ? "{\"version\":\"%s\"}\n" : "bawn %s\n", BAWN_VERSION);
    return r < 0 ? r : 0;
}

const struct verb verb_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "[--json]",
    VERB_OPTS(verb_json_opts),
    .run = run_version,
};
