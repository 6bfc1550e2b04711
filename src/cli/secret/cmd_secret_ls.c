/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret ls`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "ops/secret/secret_file.h"
#include "ops/secret/secret_view.h"

enum { CELL_MAX = 64 * 1024 };

struct secret_ls_request {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct secret_ls_request, json)},
};

struct secret_row {
    const struct credential *c;
    uint64_t used_ns; /* 0: never */
};

static void add_secret_name(const void *row, struct buf *cell) {
    buf_adds(cell, ((const struct secret_row *)row)->c->name);
}

static void add_joined(const struct strv *list, struct buf *b) {
    for (size_t i = 0; i < list->len; i++)
        buf_addf(b, "%s%s", i ? "," : "", list->v[i]);
}

static void add_hosts(const void *row, struct buf *cell) {
    add_joined(&((const struct secret_row *)row)->c->hosts, cell);
}

static void add_secret_place(const void *row, struct buf *cell) {
    secret_add_place(((const struct secret_row *)row)->c, cell);
}

static void add_store(const void *row, struct buf *cell) {
    const struct credential *c = ((const struct secret_row *)row)->c;

    buf_adds(cell, credential_store_names[c->store]);
    if (c->store == STORE_ENV)
        buf_addf(cell, ":%s", c->variable);
    if (c->token_url)
        buf_adds(cell, " (oauth)");
}

static void add_variables(const void *row, struct buf *cell) {
    const struct credential *c = ((const struct secret_row *)row)->c;

    buf_adds(cell, c->place == PLACE_SIGV4 ? "AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY" : c->env.len ? "" : "-");
    add_joined(&c->env, cell);
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

/* What has no single member. */
static void add_members(const void *row, const char *key UNUSED, struct jsonout *j) {
    const struct credential *c = ((const struct secret_row *)row)->c;
    CLEANUP(buf_done) struct buf place = BUF_INIT(CELL_MAX);

    secret_add_place(c, &place);
    jsonout_text(j, "name", c->name);
    jsonout_list(j, "hosts", &c->hosts);
    jsonout_text(j, "place", credential_place_names[c->place]);
    jsonout_text(j, "in", buf_str(&place) + strlen(credential_place_names[c->place]) + 1);
    jsonout_text(j, "store", credential_store_names[c->store]);
    jsonout_list(j, "env", &c->env);
    if (c->store == STORE_COMMAND)
        jsonout_list(j, "command", &c->command);
    jsonout_text(j, "inject", c->only_placeholder ? "placeholder" : "always");
    jsonout_bool(j, "oauth", c->token_url);
}

static const struct column columns[] = {
    {"NAME", NULL, .text = add_secret_name},
    {"HOSTS", NULL, .text = add_hosts},
    {"PLACE", NULL, .text = add_secret_place},
    {"STORE", NULL, .text = add_store},
    {"VARIABLES", NULL, .text = add_variables},
    {NULL, "name", .json = add_members},
    {"LAST USE (UTC)", "last_use", COLUMN(TIME, struct secret_row, used_ns), .text = add_last_use},
};
static const struct record_kind secrets = {columns, ARRAY_LEN(columns), sizeof(struct secret_row)};

static int list_secrets(bool json, struct buf *out, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    CLEANUP(freep) struct secret_row *rows = NULL;
    struct jsonout j = {.to = out};
    int r = secret_file_read(&f, err);

    if (r < 0)
        return r;
    rows = calloc(f.all.len + 1, sizeof *rows);
    if (!rows)
        return err_oom(err);
    for (size_t i = 0; i < f.all.len; i++)
        rows[i] = (struct secret_row){&f.all.v[i], (uint64_t)secret_last_use(f.home, f.all.v[i].name) * 1000000000};
    if (json) {
        jsonout_open(&j, NULL, '{');
        record_array(&secrets, rows, f.all.len, "secrets", RECORD_LINES, &j);
        jsonout_close(&j, '}');
        buf_addc(out, '\n');
    } else if (f.all.len) {
        record_table(&secrets, rows, f.all.len, false, out);
    } else {
        log_line("there are no secrets yet (see 'bawn help secret set')");
    }
    return 0;
}

static int run_secret_ls(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct secret_ls_request q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 0, &err);

    r = r < 0 ? r : list_secrets(q.json, &out, &err);
    return r < 0 ? verb_fail(self, &err) : run_print_result(self, &out, 0);
}

const struct verb verb_secret_ls = {
    .name = "secret ls",
    .summary = "list your secrets: names and hosts, never values",
    .synopsis = "[--json]",
    .description = "Lists the secrets of ~/.config/bawn/secrets.json: for which hosts each one is, how it goes into a request, "
                   "where its value is stored, which variables inside have its placeholder, and when a sandbox last had it.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_secret_ls,
};
