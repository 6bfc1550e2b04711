/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy explain` and `test`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "ops/policy/policy_test.h"

struct policy_explain_request {
    struct policy_here_opts view;
    const char *address;
    bool json;
};

static const struct opt explain_opts[] = {
    {0, 0, "address", "ADDRESS", "as if the name led to this address", NULL, OPT_TO_TEXT(struct policy_explain_request, address)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct policy_explain_request, json)},
    POLICY_VIEW_OPTS(struct policy_explain_request, view),
};

static const char *const look_names[] = {[LOOK_NO] = "no", [LOOK_HTTP] = "http", [LOOK_TLS] = "tls"};

/* The verdict's own object, opened again for what follows. */
static void add_verdict_open(const struct policy_answer *a, const struct policy_verdict *v, struct buf *b) {
    CLEANUP(buf_done) struct buf one = BUF_INIT(POLICY_OUTPUT_MAX);

    policy_verdict_add_json(v, a->host, a->port, NULL, &one);
    buf_add(b, buf_str(&one), one.len ? one.len - 1 : 0);
}

static void add_json_answer(const struct policy_here *view, const struct policy_answer *a, struct buf *b) {
    const struct policy_verdict *v = policy_answer_verdict(a);
    struct jsonout j = {.to = b};

    add_verdict_open(a, v, b);
    jsonout_text(&j, "stage", policy_stage_names[a->last]);
    jsonout_text(&j, "file", v->rule ? policy_files_source(&view->files, v->layer) : NULL);
    jsonout_bool(&j, "needs_port", v->needs & NEEDS_PORT);
    jsonout_bool(&j, "needs_request", v->needs & NEEDS_HTTP);
    jsonout_text(&j, "look", look_names[v->look]);
    jsonout_u64(&j, "max_body", v->max_body);
    jsonout_open(&j, "stages", '[');
    for (enum policy_stage i = 0; i < POLICY_STAGES; i++)
        if (a->asked[i]) {
            jsonout_key(&j, NULL);
            add_verdict_open(a, &a->v[i], b);
            jsonout_text(&j, "stage", policy_stage_names[i]);
            jsonout_close(&j, '}');
        }
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
    buf_addc(b, '\n');
}

static void add_cause(const struct policy_here *view, const struct policy_verdict *v, struct buf *b) {
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
        buf_addf(b, "The gate inspects the connection%s.\n", v->look == LOOK_TLS ? ", with a certificate of its own" : "");
    if (v->max_body) {
        format_size(v->max_body, size);
        buf_addf(b, "A request may carry at most %s.\n", size);
    }
}

/* What a deny by name cannot do where everything else is allowed. */
static void add_limits(const struct policy_here *view, const struct policy_verdict *v, struct buf *b) {
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

static void add_answer(const struct policy_here *view, const struct policy_answer *a, struct buf *b) {
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
    if (v->action == RULE_ASK && view->settings.question.mode == ASK_AUTO)
        buf_adds(b, "Without a terminal and without askHook there is no answer, and it is denied.\n");
}

/* Returns the exit status, or negative. */
static int explain(const struct policy_explain_request *q, const struct policy_question *question, struct buf *out,
                   struct err *err) {
    static const int status[RULE_ACTIONS] = {[RULE_ALLOW] = 0, [RULE_DENY] = 1, [RULE_ASK] = 2};
    CLEANUP(policy_here_done) struct policy_here view = POLICY_HERE_INIT;
    struct policy_answer answer;
    int r = policy_here_open(&q->view, &view, err);

    r = r < 0 ? r : policy_ask(&view.policy, question, &answer, err);
    if (r < 0)
        return r;
    if (q->json)
        add_json_answer(&view, &answer, out);
    else
        add_answer(&view, &answer, out);
    return status[policy_answer_verdict(&answer)->action];
}

static int run_policy_explain(struct verb_call *c, struct err *err) {
    struct policy_explain_request q = {0};
    struct policy_question question = {0};
    int r = verb_parse(c, &q, 3, err);

    if (r == 0)
        r = err_usage(err, "name a host, e.g. bawn policy explain example.com:443 GET /index.html");
    if (r == 2)
        r = err_usage(err, "a method needs a path, e.g. bawn policy explain %.200s GET /index.html", c->argv[1]);
    if (r > 0)
        question = (struct policy_question){.address = q.address, .host = c->argv[1], .host_len = strlen(c->argv[1])};
    if (r == 3) {
        question.method = c->argv[2];
        question.path = c->argv[3];
        question.path_len = strlen(c->argv[3]);
    }
    r = r < 0 ? r : explain(&q, &question, &c->out, err);
    policy_here_opts_done(&q.view);
    return r;
}

const struct verb verb_policy_explain = {
    .name = "policy explain",
    .summary = "say what would happen to a connection, and which rule decides",
    .synopsis = "[options] HOST[:PORT] [METHOD PATH]",
    .description =
        "Says what would happen to a connection or request of a sandbox that is started here, stage by stage as the gate decides: "
        "the name when it is looked up, the connection, the address that was found (with --address), the request. Nothing is looked "
        "up and nothing is sent.\n\n"
        "The exit status is 0 if it is allowed, 1 if it is denied, 2 if the user would be asked.\n\n"
        "    bawn policy explain registry.npmjs.org:443\n"
        "    bawn policy explain api.github.com POST /repos/o/r/issues\n"
        "    bawn policy explain db.lan:5432 --address 10.0.0.7",
    VERB_OPTS(explain_opts),
    .run = run_policy_explain,
};

/* -- test ------------------------------------------------------------------------------------------------------------------- */

static const struct opt test_opts[] = {
    {0, 0, "rules", "FILE", "ask this file with rules alone, not the policy in force here", "@file",
     OPT_TO_TEXT(struct policy_cases, rules)},
    POLICY_VIEW_OPTS(struct policy_cases, here),
};

static void add_failure(const struct policy_test_failure *f, void *arg) {
    struct buf *out = arg;

    buf_addf(out, "line %zu: wanted %s, got %s (%s) for ", f->line, rule_action_names[f->wanted],
             rule_action_names[f->got->action], policy_codes[f->got->code].name);
    for (size_t i = 0; f->words[i]; i++) {
        buf_adds(out, i ? " " : "");
        buf_add_printable(out, f->words[i]);
    }
    buf_addf(out, ": %s\n", f->got->reason);
}

static int run_policy_test(struct verb_call *c, struct err *err) {
    struct policy_tally tally = {0};
    struct policy_cases t = {0};
    int r = verb_parse(c, &t, 1, err);

    if (r == 0)
        r = err_usage(err, "name a file with cases");
    t.cases = c->argv[1];
    r = r < 0 ? r : policy_test_run(&t, add_failure, &c->out, &tally, err);
    policy_here_opts_done(&t.here);
    if (r < 0)
        return r;
    buf_addf(&c->out, "%zu of %zu %s\n", tally.cases - tally.failed, tally.cases,
             str_plural(tally.cases, "case holds", "cases hold"));
    return tally.failed > 0;
}

const struct verb verb_policy_test = {
    .name = "policy test",
    .summary = "check the policy against a file of cases",
    .synopsis = "[options] FILE",
    .description =
        "Checks the policy against a list of cases, for CI: one on each line, '#' starts a comment. The exit status is 1 if a case "
        "does not hold.\n\n"
        "    allow registry.npmjs.org:443\n"
        "    allow api.github.com:443 GET /repos/o/r\n"
        "    deny  api.github.com:443 POST /gists\n"
        "    deny  pypi.org:443 address=10.0.0.1\n"
        "    ask   example.com:443",
    VERB_OPTS(test_opts),
    .run = run_policy_test,
};
