/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy pending`, `approve` and `reject`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "ops/policy/policy_live.h"

struct pending_request {
    bool json;
    const char *how;
};

/* The option's name is the answer. */
static int take_how(const struct opt *o, const char *value UNUSED, void *how, struct err *err) {
    const char **to = how;

    if (*to && !str_eq(*to, o->name))
        return err_usage(err, "--once, --session and --always exclude each other");
    *to = o->name;
    return 0;
}

static const struct opt pending_opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct pending_request, json)},
};
#define HOW OPT_TO_CALL(struct pending_request, how, take_how)
static const struct opt approve_opts[] = {
    {0, 0, "once", NULL, "only what waits now (default)", NULL, HOW},
    {0, 0, "session", NULL, "until the sandbox ends", NULL, HOW},
    {0, 0, "always", NULL, "for good: writes a rule into your own file", NULL, HOW},
};

static void add_part(struct buf *b, const char *before, const struct pending_question *q, const char *key) {
    const char *text = json_get_text(q->v, key);

    if (!text[0])
        return;
    buf_adds(b, before);
    buf_add_printable(b, text);
}

static int add_question_line(const struct pending_question *q, void *arg, struct err *err UNUSED) {
    int64_t port = json_get_int(q->v, "port", 0);
    struct buf *b = arg;

    buf_addf(b, "%s-%lld", q->pid, q->id);
    if (q->name && !str_eq(q->name, q->pid)) {
        buf_adds(b, "  ");
        buf_add_printable(b, q->name);
    }
    add_part(b, "  ", q, "host");
    if (port)
        buf_addf(b, ":%lld", (long long)port);
    add_part(b, " ", q, "method");
    add_part(b, " ", q, "path");
    add_part(b, "  ", q, "reason");
    buf_addc(b, '\n');
    return 0;
}

static int add_question_json(const struct pending_question *q, void *arg, struct err *err) {
    CLEANUP(freep) char *text = json_dumps(q->v, JSON_ENSURE_ASCII);
    struct buf *b = arg;

    if (!text || text[0] != '{')
        return err_oom(err);
    buf_addf(b, "%s\n  {\"ask\": \"%s-%lld\", \"sandbox\": %s, \"name\": ", b->len > 1 ? "," : "", q->pid, q->id, q->pid);
    buf_add_json(b, q->name ? q->name : q->pid);
    buf_addf(b, "%s%s", text[1] == '}' ? "" : ", ", text + 1);
    return 0;
}

static int run_pending(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct pending_request q = {0};
    struct err err = {0};
    int r = opt_parse(pending_opts, ARRAY_LEN(pending_opts), argc, argv, &q, 0, &err);

    if (q.json)
        buf_addc(&out, '[');
    r = r < 0 ? r : policy_pending_each(q.json ? add_question_json : add_question_line, &out, &err);
    if (r < 0)
        return verb_fail(self, &err);
    if (q.json)
        buf_adds(&out, "]\n");
    else if (out.len == 0)
        log_line("no sandbox is waiting for an answer");
    return run_print_result(self, &out, 0);
}

static int run_answer(const struct verb *self, int argc, char **argv, const char *usual) {
    struct pending_request q = {.how = NULL};
    struct err err = {0};
    int r = opt_parse(self->opts, self->n_opts, argc, argv, &q, 1, &err);
    const char *how = q.how ? q.how : usual;

    if (r == 0)
        r = err_usage(&err, "name a question (see 'bawn policy pending')");
    r = r < 0 ? r : policy_pending_answer(argv[1], how, &err);
    if (r < 0)
        return verb_fail(self, &err);
    log_line("answered: %s", how);
    return 0;
}

static int run_approve(const struct verb *self, int argc, char **argv) {
    return run_answer(self, argc, argv, "once");
}

static int run_reject(const struct verb *self, int argc, char **argv) {
    return run_answer(self, argc, argv, "deny");
}

const struct verb verb_policy_pending = {
    .name = "policy pending",
    .summary = "list connections that wait for your answer",
    .synopsis = "[options]",
    .description =
        "Lists what your running sandboxes wait for: the question's number, host and request. Answer with 'bawn policy approve' "
        "or 'reject'; without an answer in time (askTimeout) it is denied.",
    .opts = pending_opts,
    .n_opts = ARRAY_LEN(pending_opts),
    .run = run_pending,
};

const struct verb verb_policy_approve = {
    .name = "policy approve",
    .summary = "let a connection that waits go on",
    .synopsis = "[options] ID",
    .description =
        "ID is the number that 'bawn policy pending' shows, as in 4711-3; the part behind the hyphen is enough if only one "
        "sandbox has such a question.",
    .opts = approve_opts,
    .n_opts = ARRAY_LEN(approve_opts),
    .run = run_approve,
};

const struct verb verb_policy_reject = {
    .name = "policy reject",
    .summary = "refuse a connection that waits",
    .synopsis = "ID",
    .description = "ID is the number that 'bawn policy pending' shows.",
    .run = run_reject,
};
