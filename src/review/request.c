/* SPDX-License-Identifier: Apache-2.0 */
#include "review/request.h"

#include "base/err.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/str.h"

enum {
    Q_FORMAT = 1,
    Q_COLOUR,
    Q_TERMINAL,
    Q_DIFF,
    Q_BLOCK,
    Q_MUST_MATCH,
    Q_FAIL_ON,
    Q_RUN,
    Q_WORKSPACE,
    Q_MODE,
    Q_BEGUN,
    Q_ENDED,
    Q_ONLY,
    Q_PATH,
    Q_BASE
};

static const struct opt opts[] = {
    {Q_FORMAT, 0, "format", "FORMAT", "what to print", NULL},
    {Q_COLOUR, 0, "color", NULL, "with colours", NULL},
    {Q_TERMINAL, 0, "terminal", NULL, "a person reads it", NULL},
    {Q_DIFF, 0, "diff", NULL, "with the diff of each file", NULL},
    {Q_BLOCK, 0, "block", NULL, "without head and summary", NULL},
    {Q_MUST_MATCH, 0, "must-match", NULL, "patterns that name no change are an error", NULL},
    {Q_FAIL_ON, 0, "fail-on", "LEVEL", "the lowest level that makes the exit status 1", NULL},
    {Q_RUN, 0, "run", "NAME", "name of the run", NULL},
    {Q_WORKSPACE, 0, "workspace", "PATH", "path of the workspace, for messages", NULL},
    {Q_MODE, 0, "mode", "MODE", "mode of the run", NULL},
    {Q_BEGUN, 0, "begun", "NS", "when the run began", NULL},
    {Q_ENDED, 0, "ended", "NS", "when it ended", NULL},
    {Q_ONLY, 0, "only", "GLOB", "only these paths", NULL},
    {Q_PATH, 0, "path", "PATH", "only this path", NULL},
    {Q_BASE, 0, "base", "ID", "the commit that the branch of the run began at", NULL},
};

const char *const request_format_names[REQUEST_FORMATS] = {"text", "json", "sarif", "patch", "stat", "names", "paths", "git"};

static int word_find(const char *word, const char *const *words, size_t n, const char *what, struct err *err) {
    for (size_t i = 0; i < n; i++)
        if (str_eq(words[i], word))
            return (int)i;
    return err_usage(err, "unknown %s '%s'", what, word);
}

int request_level(const char *word, enum risk_level *ret, struct err *err) {
    for (size_t i = 0; i < RISK_LEVELS; i++)
        if (str_eq(risk_level_names[i], word)) {
            *ret = (enum risk_level)i;
            return 0;
        }
    return err_usage(err, "unknown level '%s' (known: high, medium, low, none)", word);
}

static int take_string(char **where, const char *value, struct err *err) {
    free(*where);
    *where = strdup(value);
    return *where ? 0 : err_oom(err);
}

static int take(struct review_request *q, const struct opt_iter *it, struct err *err) {
    int r = 0;

    switch (it->id) {
    case Q_FORMAT:
        r = word_find(it->value, request_format_names, REQUEST_FORMATS, "format", err);
        q->format = r < 0 ? q->format : (enum request_format)r;
        break;
    case Q_COLOUR:
        q->colour = true;
        break;
    case Q_TERMINAL:
        q->terminal = true;
        break;
    case Q_DIFF:
        q->diff = true;
        break;
    case Q_BLOCK:
        q->block = true;
        break;
    case Q_MUST_MATCH:
        q->must_match = true;
        break;
    case Q_FAIL_ON:
        r = request_level(it->value, &q->fail_on, err);
        break;
    case Q_RUN:
        r = take_string(&q->run, it->value, err);
        break;
    case Q_WORKSPACE:
        r = take_string(&q->workspace, it->value, err);
        break;
    case Q_MODE:
        r = word_find(it->value, workspace_mode_names, WORKSPACE_MODES, "mode", err);
        q->mode = r < 0 ? q->mode : (enum workspace_mode)r;
        break;
    case Q_BEGUN:
        r = parse_u64(it->value, 0, UINT64_MAX, &q->begun_ns, err);
        break;
    case Q_ENDED:
        r = parse_u64(it->value, 0, UINT64_MAX, &q->ended_ns, err);
        break;
    case Q_ONLY:
        r = strv_add(&q->only, it->value) < 0 ? err_oom(err) : 0;
        break;
    case Q_PATH:
        r = strv_add(&q->paths, it->value) < 0 ? err_oom(err) : 0;
        break;
    case Q_BASE:
        r = take_string(&q->base, it->value, err);
        break;
    }
    return r;
}

int request_parse(int argc, char **argv, struct review_request *ret, struct err *err) {
    struct review_request q = {.fail_on = RISK_MEDIUM};
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0) {
        r = take(&q, &it, err);
        if (r < 0)
            break;
    }
    if (r == 0 && (!q.run || !q.workspace))
        r = err_usage(err, "bawn-review needs --run and --workspace");
    if (r < 0) {
        request_done(&q);
        return r;
    }
    *ret = q;
    return 0;
}

void request_done(struct review_request *q) {
    free(q->run);
    free(q->workspace);
    free(q->base);
    strv_done(&q->only);
    strv_done(&q->paths);
    *q = (struct review_request){0};
}
