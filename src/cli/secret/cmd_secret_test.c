/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret test`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "ops/secret/secret_test.h"

enum { LINE_MAX_BYTES = 64 * 1024 };

struct secret_test_request {
    struct policy_here_opts view;
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct secret_test_request, json)},
    POLICY_VIEW_OPTS(struct secret_test_request, view),
};

static void add_check_json(const struct secret_check *k, void *arg) {
    CLEANUP(buf_done) struct buf place = BUF_INIT(LINE_MAX_BYTES);
    const struct policy_answer *a = k->answer;
    struct jsonout j = {.to = arg};

    secret_add_place(k->c, &place);
    jsonout_break(&j, "\n  ");
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "name", k->c->name);
    jsonout_text(&j, "host", a->host);
    jsonout_u64(&j, "port", a->port);
    jsonout_text(&j, "place", buf_str(&place));
    jsonout_text(&j, "store", credential_store_names[k->c->store]);
    jsonout_bool(&j, "chosen", k->chosen);
    jsonout_bool(&j, "allowed", !k->objection);
    jsonout_key(&j, "policy");
    policy_verdict_add_json(policy_answer_verdict(a), a->host, a->port, j.to);
    jsonout_open(&j, "value", '{');
    jsonout_bool(&j, "ok", !*k->problem);
    if (*k->problem)
        jsonout_text(&j, "error", k->problem);
    jsonout_close(&j, '}');
    jsonout_close(&j, '}');
}

static void add_check_text(const struct secret_check *k, void *arg) {
    const struct policy_verdict *v = policy_answer_verdict(k->answer);
    struct buf *b = arg;

    buf_addf(b, "%s for %s:%u (", k->c->name, k->answer->host, k->answer->port);
    secret_add_place(k->c, b);
    buf_adds(b, ")\n");
    if (!k->chosen)
        buf_adds(b, "  settings  no   it is not among the secrets of runs in this folder\n");
    if (k->objection) {
        buf_addf(b, "  policy    no   %s\n                 ", k->objection);
        secret_add_remedy(k->answer, b);
        buf_addc(b, '\n');
    } else {
        buf_addf(b, "  policy    yes  %s%s%s\n", v->rule ? "rule '" : "the mode allows it", v->rule ? v->rule->id : "",
                 v->rule ? "'" : "");
    }
    buf_addf(b, "  value     %s", *k->problem ? "no   " : "yes  ");
    buf_add_printable(b, *k->problem ? k->problem : credential_store_names[k->c->store]);
    buf_addc(b, '\n');
}

static int run_secret_test(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf found = BUF_INIT(POLICY_OUTPUT_MAX), out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct secret_test_request q = {0};
    struct secret_tally tally = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 1, &err);
    bool ok;

    if (r == 0)
        r = err_usage(&err, "name a host or a secret");
    r = r < 0 ? r : secret_test_run(argv[1], &q.view, q.json ? add_check_json : add_check_text, &found, &tally, &err);
    policy_here_opts_done(&q.view);
    if (r < 0)
        return verb_fail(self, &err);
    if (tally.n == 0 && tally.host[0])
        log_line("no secret is for %s:%u (see 'bawn secret ls')", tally.host, tally.port);
    ok = tally.n && tally.good == tally.n;
    if (q.json)
        buf_addf(&out, "{\"ok\": %s, \"secrets\": [", ok ? "true" : "false");
    buf_add(&out, buf_str(&found), found.len);
    if (q.json)
        buf_adds(&out, tally.n ? "\n]}\n" : "]}\n");
    return run_print_result(self, &out, !ok);
}

static const char description[] =
    "Says which of your secrets would go with requests to a host, or to the hosts of one secret, from a sandbox started "
    "here; whether the network rules allow the host; and whether the value is available. Nothing is sent to the host. The "
    "exit status is 0 if everything is well, 1 if not.\n\n"
    "    bawn secret test api.github.com\n"
    "    bawn secret test github --json";

const struct verb verb_secret_test = {
    .name = "secret test",
    .summary = "which secret goes to a host, and can it",
    .synopsis = "[options] HOST|SECRET",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_secret_test,
};
