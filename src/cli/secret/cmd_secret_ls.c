/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret ls` and `test`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/verb.h"
#include "ops/secret/secret_file.h"
#include "ops/secret/secret_test.h"
#include "ops/secret/secret_view.h"

enum { CELL_MAX = 64 * 1024 };

struct secret_row {
    struct credential c; /* borrowed */
    uint64_t used_ns;    /* 0: never */
};

static void add_place(const void *row, struct buf *cell) {
    secret_add_place(&((const struct secret_row *)row)->c, cell);
}

static void add_json_place(const void *row, const char *key, struct jsonout *j) {
    CLEANUP(buf_done) struct buf place = BUF_INIT(CELL_MAX);
    const char *kind = credential_place_names[((const struct secret_row *)row)->c.place];

    add_place(row, &place);
    jsonout_text(j, key, kind);
    jsonout_text(j, "in", buf_str(&place) + strlen(kind) + 1);
}

static void add_store(const void *row, struct buf *cell) {
    const struct credential *c = &((const struct secret_row *)row)->c;

    buf_adds(cell, credential_store_names[c->store]);
    if (c->store == STORE_ENV)
        buf_addf(cell, ":%s", c->variable);
    if (c->token_url)
        buf_adds(cell, " (oauth)");
}

static void add_variables(const void *row, struct buf *cell) {
    const struct credential *c = &((const struct secret_row *)row)->c;
    const char *name;

    buf_adds(cell, credential_variable(c, 0) ? "" : "-");
    for (size_t i = 0; (name = credential_variable(c, i)); i++)
        buf_addf(cell, "%s%s", i ? "," : "", name);
}

static void add_last_use(const void *row, struct buf *cell) {
    time_t t = (time_t)(((const struct secret_row *)row)->used_ns / 1000000000);
    char text[32];
    struct tm tm;

    if (t && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm))
        buf_adds(cell, text);
    else
        buf_adds(cell, "never");
}

static void add_json_use(const void *row, const char *key, struct jsonout *j) {
    const struct credential *c = &((const struct secret_row *)row)->c;

    jsonout_text(j, key, c->only_placeholder ? "placeholder" : "always");
    jsonout_bool(j, "oauth", c->token_url);
}

#define SECRET(kind, member) COLUMN(kind, struct secret_row, member)
static const struct column columns[] = {
    {"NAME", "name", SECRET(TEXT, c.name)},
    {"HOSTS", "hosts", SECRET(LIST, c.hosts)},
    {"PLACE", "place", .text = add_place, .json = add_json_place},
    {"STORE", "store", SECRET(ENUM, c.store), .names = credential_store_names, .text = add_store},
    {"VARIABLES", "env", SECRET(LIST, c.env), .text = add_variables},
    {NULL, "command", SECRET(LIST, c.command), .empty = COLUMN_OMIT},
    {NULL, "inject", .json = add_json_use},
    {"LAST USE (UTC)", "last_use", SECRET(TIME, used_ns), .text = add_last_use},
};
static const struct record_kind secrets = {columns, ARRAY_LEN(columns), sizeof(struct secret_row)};

static int run_secret_ls(struct verb_call *c, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    CLEANUP(freep) struct secret_row *rows = NULL;
    struct jsonout j = {.to = &c->out};
    bool json = false;
    int r = verb_parse(c, &json, 0, err);

    r = r < 0 ? r : secret_file_read(&f, err);
    if (r < 0)
        return r;
    rows = calloc(f.all.len + 1, sizeof *rows);
    if (!rows)
        return err_oom(err);
    for (size_t i = 0; i < f.all.len; i++)
        rows[i] = (struct secret_row){f.all.v[i], (uint64_t)secret_last_use(f.home, f.all.v[i].name) * 1000000000};
    if (json) {
        jsonout_open(&j, NULL, '{');
        record_array(&secrets, rows, f.all.len, "secrets", RECORD_LINES, &j);
        jsonout_close(&j, '}');
        buf_addc(&c->out, '\n');
    } else if (f.all.len) {
        record_table(&secrets, rows, f.all.len, false, &c->out);
    } else {
        log_line("there are no secrets yet (see 'bawn help secret set')");
    }
    return 0;
}

const struct verb verb_secret_ls = {
    .name = "secret ls",
    .summary = "list your secrets: names and hosts, never values",
    .synopsis = "[--json]",
    .description = "Lists the secrets of ~/.config/bawn/secrets.json: for which hosts each one is, how it goes into a request, "
                   "where its value is stored, which variables inside have its placeholder, and when a sandbox last had it.",
    VERB_OPTS(verb_json_opts),
    .run = run_secret_ls,
};

/* -- test ------------------------------------------------------------------------------------------------------------------- */

struct secret_test_request {
    struct policy_here_opts view;
    bool json;
};

static const struct opt test_opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct secret_test_request, json)},
    POLICY_VIEW_OPTS(struct secret_test_request, view),
};

static void add_check_json(const struct secret_check *k, void *arg) {
    CLEANUP(buf_done) struct buf place = BUF_INIT(CELL_MAX);
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
    policy_verdict_add_json(policy_answer_verdict(a), a->host, a->port, NULL, j.to);
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

static int run_secret_test(struct verb_call *c, struct err *err) {
    CLEANUP(buf_done) struct buf found = BUF_INIT(POLICY_OUTPUT_MAX);
    struct secret_test_request q = {0};
    struct secret_tally tally = {0};
    int r = verb_parse(c, &q, 1, err);
    bool ok;

    if (r == 0)
        r = err_usage(err, "name a host or a secret");
    r = r < 0 ? r : secret_test_run(c->argv[1], &q.view, q.json ? add_check_json : add_check_text, &found, &tally, err);
    policy_here_opts_done(&q.view);
    if (r < 0)
        return r;
    if (tally.n == 0 && tally.host[0])
        log_line("no secret is for %s:%u (see 'bawn secret ls')", tally.host, tally.port);
    ok = tally.n && tally.good == tally.n;
    if (q.json)
        buf_addf(&c->out, "{\"ok\": %s, \"secrets\": [", ok ? "true" : "false");
    buf_add(&c->out, buf_str(&found), found.len);
    if (q.json)
        buf_adds(&c->out, tally.n ? "\n]}\n" : "]}\n");
    return !ok;
}

const struct verb verb_secret_test = {
    .name = "secret test",
    .summary = "which secret goes to a host, and can it",
    .synopsis = "[options] HOST|SECRET",
    .description =
        "Says which of your secrets would go with requests to a host, or to the hosts of one secret, from a sandbox started "
        "here; whether the network rules allow the host; and whether the value is available. Nothing is sent to the host. The "
        "exit status is 0 if everything is well, 1 if not.\n\n"
        "    bawn secret test api.github.com\n"
        "    bawn secret test github --json",
    VERB_OPTS(test_opts),
    .run = run_secret_test,
};
