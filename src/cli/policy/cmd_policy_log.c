/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy log`, `pending`, `approve` and `reject`: what sandboxes ask the network for. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/log_time.h"
#include "cli/verb.h"
#include "ops/policy/policy_live.h"
#include "ops/policy/policy_log.h"

struct policy_log_request {
    struct policy_log_filter filter;
    bool json;
};
static_assert(sizeof(((struct policy_log_filter *)0)->since) == LOG_TIME_SIZE, "log_time_take() fills it");

#define TO(kind, member) OPT_TO_##kind(struct policy_log_request, member)
static const struct opt log_opts[] = {
    {0, 'f', "follow", NULL, "go on with what is added", NULL, TO(FLAG, filter.follow)},
    {0, 0, "denied", NULL, "only what was denied", NULL, TO(FLAG, filter.denied)},
    {0, 0, "host", "HOST", "only this host", NULL, TO(TEXT, filter.host)},
    {0, 0, "sandbox", "NAME", "only this sandbox", NULL, TO(TEXT, filter.sandbox)},
    {0, 0, "since", "TIME", "only what is newer: 10m, 2h, or 2026-01-31T12:00", NULL,
     OPT_TO_CALL(struct policy_log_request, filter.since, log_time_take)},
    {0, 'n', "lines", "N", "only the last N", NULL,
     OPT_TO_NUMBER(struct policy_log_request, filter.lines, 1, POLICY_LOG_LINES_MAX)},
    {0, 0, "json", NULL, "print the lines as they are in the log", NULL, TO(FLAG, json)},
};

static long long event_number(const json_t *v, const char *key) {
    return json_get_int(v, key, 0);
}

/* "2026-01-31T12:00:00.123Z box deny request example.com:443 POST /x credential api BAWN_NET_DENIED_METHOD rule 'r' (user)" */
static void add_event(const json_t *v, struct buf *b) {
    bool end = str_eq(json_get_text(v, "kind"), "end");

    buf_add_printable(b, json_get_text(v, "time"));
    policy_add_text(b, " ", v, "sandbox");
    if (!end)
        policy_add_text(b, " ", v, "action");
    policy_add_text(b, " ", v, "kind");
    policy_add_text(b, " ", v, "host");
    if (event_number(v, "port"))
        buf_addf(b, ":%lld", event_number(v, "port"));
    policy_add_text(b, " ", v, "method");
    policy_add_text(b, " ", v, "path");
    policy_add_text(b, " credential ", v, "secret");
    if (event_number(v, "status"))
        buf_addf(b, " status %lld", event_number(v, "status"));
    policy_add_text(b, " -> ", v, "address");
    if (end || event_number(v, "sent") || event_number(v, "received"))
        buf_addf(b, " sent %lld received %lld in %lld ms", event_number(v, "sent"), event_number(v, "received"),
                 event_number(v, "ms"));
    if (!end && !str_eq(json_get_text(v, "action"), "allow"))
        policy_add_text(b, " ", v, "code");
    if (!end && json_get_text(v, "rule")[0]) {
        policy_add_text(b, " rule '", v, "rule");
        policy_add_text(b, "' (", v, "layer");
        buf_addc(b, ')');
    }
    if (event_number(v, "count") > 1) {
        buf_addf(b, " %lld times since ", event_number(v, "count"));
        buf_add_printable(b, json_get_text(v, "first"));
    }
    buf_addc(b, '\n');
}

static int print_event(const json_t *event, void *arg, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(8 * POLICY_LOG_LINE_MAX);
    const struct policy_log_request *q = arg;

    if (q->json) {
        CLEANUP(freep) char *text = json_dumps(event, JSON_ENSURE_ASCII); /* no control bytes reach the terminal */

        buf_adds(&out, text ? text : "");
        buf_addc(&out, '\n');
    } else {
        add_event(event, &out);
    }
    if (!buf_ok(&out))
        return err_oom(err);
    if (fwrite(buf_str(&out), 1, out.len, stdout) != out.len || (q->filter.follow && fflush(stdout) != 0))
        return err_sys(err, -errno, "write the result");
    return 0;
}

static int run_policy_log(struct verb_call *c, struct err *err) {
    struct policy_log_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    r = r < 0 ? r : policy_log_read(&q.filter, print_event, &q, err);
    if (r == 0 && fflush(stdout) != 0)
        r = err_sys(err, -errno, "write the result");
    return r < 0 ? r : 0;
}

const struct verb verb_policy_log = {
    .name = "policy log",
    .summary = "show what sandboxes asked the network for",
    .synopsis = "[options]",
    .description =
        "Shows what your sandboxes asked the network for, and the verdicts: $XDG_STATE_HOME/bawn/log/network.jsonl, one JSON object "
        "on each line. Times are UTC.\n\n"
        "    bawn policy log --denied --since 1h\n"
        "    bawn policy log -f\n"
        "    bawn policy log --json | jq -r 'select(.action == \"deny\") | .host' | sort | uniq -c",
    VERB_OPTS(log_opts),
    .run = run_policy_log,
};

/* -- questions -------------------------------------------------------------------------------------------------------------- */

/* The option's name is the answer. */
static int take_how(const struct opt *o, const char *value UNUSED, void *how, struct err *err) {
    const char **to = how;

    if (*to && !str_eq(*to, o->name))
        return err_usage(err, "--once, --session and --always exclude each other");
    *to = o->name;
    return 0;
}

struct answer_line {
    const char *how, *said;
};

#define HOW OPT_TO_CALL(struct answer_line, how, take_how)
static const struct opt approve_opts[] = {
    {0, 0, "once", NULL, "only what waits now (default)", NULL, HOW},
    {0, 0, "session", NULL, "until the sandbox ends", NULL, HOW},
    {0, 0, "always", NULL, "for good: writes a rule into your own file", NULL, HOW},
};
static const struct opt reject_opts[] = {
    {0, 0, "reason", "TEXT", "an answer for the agent that asked for access", NULL, OPT_TO_TEXT(struct answer_line, said)},
};

static int add_question_line(const struct pending_question *q, void *arg, struct err *err UNUSED) {
    int64_t port = json_get_int(q->v, "port", 0);
    struct buf *b = arg;

    buf_addf(b, "%s-%lld", q->pid, q->id);
    if (q->name && !str_eq(q->name, q->pid)) {
        buf_adds(b, "  ");
        buf_add_printable(b, q->name);
    }
    policy_add_text(b, "  ", q->v, "host");
    if (port)
        buf_addf(b, ":%lld", (long long)port);
    policy_add_text(b, " ", q->v, "method");
    policy_add_text(b, " ", q->v, "path");
    policy_add_text(b, "  ", q->v, "reason");
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

static int run_pending(struct verb_call *c, struct err *err) {
    bool json = false;
    int r = verb_parse(c, &json, 0, err);

    if (json)
        buf_addc(&c->out, '[');
    r = r < 0 ? r : policy_pending_each(json ? add_question_json : add_question_line, &c->out, err);
    if (r < 0)
        return r;
    if (json)
        buf_adds(&c->out, "]\n");
    else if (c->out.len == 0)
        log_line("no sandbox is waiting for an answer");
    return 0;
}

static int run_answer(struct verb_call *c, struct err *err) {
    CLEANUP(freep) char *note = NULL;
    struct answer_line l = {0};
    int r = verb_parse(c, &l, 1, err);

    if (r == 0)
        r = err_usage(err, "name a question (see 'bawn policy pending')");
    l.how = l.how ? l.how : str_eq(c->argv[0], "approve") ? "once" : "deny";
    r = r < 0 ? r : policy_pending_answer(c->argv[1], l.how, l.said, &note, err);
    if (r >= 0)
        log_line("answered: %s%s%s", l.how, note ? "; " : "", note ? note : "");
    return r < 0 ? r : 0;
}

const struct verb verb_policy_pending = {
    .name = "policy pending",
    .summary = "list connections that wait for your answer",
    .synopsis = "[options]",
    .description =
        "Lists what your running sandboxes wait for: the question's number, host and request. Answer with 'bawn policy approve' "
        "or 'reject'; without an answer in time (askTimeout) it is denied.",
    VERB_OPTS(verb_json_opts),
    .run = run_pending,
};

const struct verb verb_policy_approve = {
    .name = "policy approve",
    .summary = "let a connection that waits go on",
    .synopsis = "[options] ID",
    .description =
        "ID is the number that 'bawn policy pending' shows, as in 4711-3; the part behind the hyphen is enough if only one "
        "sandbox has such a question.",
    VERB_OPTS(approve_opts),
    .run = run_answer,
};

const struct verb verb_policy_reject = {
    .name = "policy reject",
    .summary = "refuse a connection that waits",
    .synopsis = "[options] ID",
    .description = "ID is the number that 'bawn policy pending' shows.",
    VERB_OPTS(reject_opts),
    .run = run_answer,
};
