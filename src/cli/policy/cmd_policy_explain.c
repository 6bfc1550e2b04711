/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_question.h"
#include "cli/policy/policy_view.h"

enum { OPT_ADDRESS = 1, OPT_JSON };

static const struct opt opts[] = {
    {OPT_ADDRESS, 0, "address", "ADDRESS", "as if the name led to this address", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
    POLICY_VIEW_OPTS,
};

struct policy_explain_request {
    struct policy_view_opts view;
    const char *address;
    bool json;
};

static int take(void *arg, int id, const char *value, struct err *err) {
    struct policy_explain_request *q = arg;

    if (id == OPT_ADDRESS)
        q->address = value;
    else if (id == OPT_JSON)
        q->json = true;
    else
        policy_view_take(&q->view, id, value);
    return 0;
}

static const char *look_name(enum policy_look look) {
    static const char *const names[] = {[LOOK_NO] = "no", [LOOK_HTTP] = "http", [LOOK_TLS] = "tls"};

    return names[look];
}

/* The verdict's own object, opened again for what follows. */
static void add_verdict_open(const struct policy_answer *a, const struct policy_verdict *v, struct buf *b) {
    CLEANUP(buf_done) struct buf one = BUF_INIT(POLICY_OUTPUT_MAX);

    policy_verdict_add_json(v, a->host, a->port, &one);
    buf_add(b, buf_str(&one), one.len ? one.len - 1 : 0);
}

static void add_json(const struct policy_view *view, const struct policy_answer *a, struct buf *b) {
    const struct policy_verdict *v = policy_answer_verdict(a);
    bool first = true;

    add_verdict_open(a, v, b);
    buf_adds(b, ", \"stage\": ");
    buf_add_json(b, policy_stage_names[a->last]);
    buf_adds(b, ", \"file\": ");
    if (v->rule)
        buf_add_json(b, policy_files_source(&view->files, v->layer));
    else
        buf_adds(b, "null");
    buf_addf(b, ", \"needs_port\": %s, \"needs_request\": %s, \"look\": \"%s\", \"max_body\": %llu, \"stages\": [",
             v->needs & NEEDS_PORT ? "true" : "false", v->needs & NEEDS_HTTP ? "true" : "false", look_name(v->look),
             (unsigned long long)v->max_body);
    for (enum policy_stage i = 0; i < POLICY_STAGES; i++)
        if (a->asked[i]) {
            buf_adds(b, first ? "" : ", ");
            add_verdict_open(a, &a->v[i], b);
            buf_addf(b, ", \"stage\": \"%s\"}", policy_stage_names[i]);
            first = false;
        }
    buf_adds(b, "]}\n");
}

static void add_cause(const struct policy_view *view, const struct policy_verdict *v, struct buf *b) {
    if (!v->rule) {
        buf_addf(b, "no rule (%s)", v->layer);
        return;
    }
    buf_addf(b, "rule '%s' for %s (%s", v->rule->id, v->pattern, v->layer);
    if (!str_eq(v->layer, policy_layer_names[LAYER_BUILTIN])) {
        buf_adds(b, ", ");
        buf_add_printable(b, policy_files_source(&view->files, v->layer));
    }
    buf_addc(b, ')');
}

static void add_open_questions(const struct policy_verdict *v, struct buf *b) {
    char size[24];

    if (v->needs & NEEDS_PORT)
        buf_adds(b, "It depends on the port: name one, as in HOST:443.\n");
    if (v->needs & NEEDS_HTTP)
        buf_adds(b, "It depends on the request: name method and path, as in GET /index.html.\n");
    if (v->look != LOOK_NO)
        buf_addf(b, "The gate looks into the connection%s.\n", v->look == LOOK_TLS ? ", with a certificate of its own" : "");
    if (v->max_body) {
        format_size(v->max_body, size);
        buf_addf(b, "A request may carry at most %s.\n", size);
    }
}

/* What a deny by name cannot do where everything else is allowed. */
static void add_limits(const struct policy_view *view, const struct policy_verdict *v, struct buf *b) {
    enum rule_action unlisted;
    enum net_mode mode = policy_mode(&view->policy, &unlisted);

    if (v->action != RULE_DENY || !v->rule || v->code == POLICY_DENIED_ADDRESS || (mode != NET_FULL && mode != NET_LIMITED))
        return;
    buf_addf(
        b,
        "Under '%s' the same server stays reachable by another name, if it has one that no rule denies. Mode 'list' allows only "
        "what rules name.\n",
        net_mode_names[mode]);
}

static void add_text(const struct policy_view *view, const struct policy_answer *a, struct buf *b) {
    const struct policy_verdict *v = policy_answer_verdict(a);

    for (enum policy_stage i = 0; i < POLICY_STAGES; i++)
        if (a->asked[i]) {
            buf_addf(b, "%-11s %-6s", policy_stage_names[i], rule_action_names[a->v[i].action]);
            add_cause(view, &a->v[i], b);
            buf_addc(b, '\n');
        }
    buf_addf(b, "\n%s\n%s\n", policy_codes[v->code].name, v->reason);
    if (v->hint[0])
        buf_addf(b, "%s\n", v->hint);
    add_open_questions(v, b);
    add_limits(view, v, b);
    if (v->action == RULE_ASK && view->settings.ask == ASK_AUTO)
        buf_adds(b, "Without a terminal and without askHook nobody can answer, and it is denied.\n");
}

static int explain(const struct policy_explain_request *q, const struct policy_words *w, struct buf *out, struct err *err) {
    static const int status[RULE_ACTIONS] = {[RULE_ALLOW] = 0, [RULE_DENY] = 1, [RULE_ASK] = 2};
    CLEANUP(policy_view_done) struct policy_view view = POLICY_VIEW_INIT;
    struct policy_question question = {.address = q->address};
    struct policy_answer answer;
    int r;

    if (w->n != 1 && w->n != 3)
        return err_usage(err, "which host? e.g. bawn policy explain example.com:443 GET /index.html");
    question.host = w->v[0];
    question.host_len = strlen(w->v[0]);
    question.method = w->n == 3 ? w->v[1] : NULL;
    question.path = w->n == 3 ? w->v[2] : NULL;
    question.path_len = w->n == 3 ? strlen(w->v[2]) : 0;
    r = policy_view_open(&q->view, &view, err);
    r = r < 0 ? r : policy_ask(&view.policy, &question, &answer, err);
    if (r < 0)
        return r;
    if (q->json)
        add_json(&view, &answer, out);
    else
        add_text(&view, &answer, out);
    return status[policy_answer_verdict(&answer)->action];
}

static int run_policy_explain(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_words words = {0};
    struct policy_explain_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 3, &words, &err);

    r = r < 0 ? r : explain(&q, &words, &out, &err);
    return r < 0 ? verb_fail(self, &err) : policy_print(self, &out, r);
}

static const char description[] =
    "Says what would happen to a connection or request of a sandbox that is started here, stage by stage as the gate decides: "
    "the name when it is looked up, the connection, the address that was found (with --address), the request. Nothing is looked "
    "up and nothing is sent.\n\n"
    "The exit status is 0 if it is allowed, 1 if it is denied, 2 if the user would be asked.\n\n"
    "    bawn policy explain registry.npmjs.org:443\n"
    "    bawn policy explain api.github.com POST /repos/o/r/issues\n"
    "    bawn policy explain db.lan:5432 --address 10.0.0.7";

const struct verb verb_policy_explain = {
    .name = "policy explain",
    .summary = "say what would happen to a connection, and which rule decides",
    .synopsis = "[options] HOST[:PORT] [METHOD PATH]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_policy_explain,
};
