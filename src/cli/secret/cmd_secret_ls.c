/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/secret/secret_view.h"
#include "ops/secret/secret_file.h"

enum { OPT_JSON = 1 };

static const struct opt opts[] = {{OPT_JSON, 0, "json", NULL, "print JSON", NULL}};

enum { COLUMNS = 6, CELL_MAX = 64 * 1024 };

static void add_list(const struct strv *list, const char *separator, struct buf *b) {
    for (size_t i = 0; i < list->len; i++)
        buf_addf(b, "%s%s", i ? separator : "", list->v[i]);
}

static void add_time(time_t t, const char *format, const char *never, struct buf *b) {
    char text[32];
    struct tm tm;

    if (t && gmtime_r(&t, &tm) && strftime(text, sizeof text, format, &tm))
        buf_adds(b, text);
    else
        buf_adds(b, never);
}

static void add_store(const struct credential *c, struct buf *b) {
    buf_adds(b, credential_store_names[c->store]);
    if (c->store == STORE_ENV)
        buf_addf(b, ":%s", c->variable);
    if (c->token_url)
        buf_adds(b, " (oauth)");
}

/* Cells of one line, each NUL-terminated, in `b`. */
static void add_cells(const struct credential *c, const char *home, struct strv *cells) {
    struct buf b[COLUMNS];

    for (size_t i = 0; i < COLUMNS; i++)
        b[i] = (struct buf)BUF_INIT(CELL_MAX);
    buf_adds(&b[0], c->name);
    add_list(&c->hosts, ",", &b[1]);
    secret_add_place(c, &b[2]);
    add_store(c, &b[3]);
    buf_adds(&b[4], c->place == PLACE_SIGV4 ? "AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY" : c->env.len ? "" : "-");
    add_list(&c->env, ",", &b[4]);
    add_time(secret_last_use(home, c->name), "%Y-%m-%d %H:%M", "never", &b[5]);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (strv_add(cells, buf_str(&b[i])) < 0)
            strv_done(cells);
        buf_done(&b[i]);
    }
}

static int add_text(const struct secret_file *f, struct buf *out, struct err *err) {
    static const char *const titles[COLUMNS] = {"NAME", "HOSTS", "PLACE", "STORE", "VARIABLES", "LAST USE (UTC)"};
    CLEANUP(strv_done) struct strv cells = {0};
    int width[COLUMNS] = {0};

    for (size_t i = 0; i < COLUMNS; i++)
        if (strv_add(&cells, titles[i]) < 0)
            return err_oom(err);
    for (size_t i = 0; i < f->all.len; i++)
        add_cells(&f->all.v[i], f->home, &cells);
    if (cells.len != (f->all.len + 1) * COLUMNS)
        return err_oom(err);
    for (size_t i = 0; i < cells.len; i++)
        width[i % COLUMNS] = MAX_OF(width[i % COLUMNS], (int)strlen(cells.v[i]));
    for (size_t i = 0; i < cells.len; i++) {
        bool last = i % COLUMNS == COLUMNS - 1;

        buf_addf(out, "%-*s%s", last ? 0 : width[i % COLUMNS] + 2, cells.v[i], last ? "\n" : "");
    }
    return 0;
}

static void add_json_list(const char *key, const struct strv *list, struct buf *b) {
    buf_addf(b, "\"%s\": [", key);
    for (size_t i = 0; i < list->len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, list->v[i]);
    }
    buf_adds(b, "], ");
}

static void add_json(const struct credential *c, const char *home, struct buf *b) {
    CLEANUP(buf_done) struct buf place = BUF_INIT(CELL_MAX), used = BUF_INIT(64);
    time_t last = secret_last_use(home, c->name);

    secret_add_place(c, &place);
    buf_adds(b, "  {\"name\": ");
    buf_add_json(b, c->name);
    buf_adds(b, ", ");
    add_json_list("hosts", &c->hosts, b);
    buf_addf(b, "\"place\": \"%s\", \"in\": ", credential_place_names[c->place]);
    buf_add_json(b, buf_str(&place) + strlen(credential_place_names[c->place]) + 1);
    buf_addf(b, ", \"store\": \"%s\", ", credential_store_names[c->store]);
    add_json_list("env", &c->env, b);
    if (c->store == STORE_COMMAND)
        add_json_list("command", &c->command, b);
    buf_addf(b, "\"inject\": \"%s\", \"oauth\": %s, \"last_use\": ", c->only_placeholder ? "placeholder" : "always",
             c->token_url ? "true" : "false");
    add_time(last, "%Y-%m-%dT%H:%M:%SZ", "", &used);
    if (used.len)
        buf_add_json(b, buf_str(&used));
    else
        buf_adds(b, "null");
    buf_addc(b, '}');
}

static int list(bool json, struct buf *out, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    int r = secret_file_read(&f, err);

    if (r < 0)
        return r;
    if (!json && f.all.len == 0) {
        log_line("there are no secrets yet (see 'bawn help secret set')");
        return 0;
    }
    if (!json)
        return add_text(&f, out, err);
    buf_adds(out, "{\"secrets\": [");
    for (size_t i = 0; i < f.all.len; i++) {
        buf_adds(out, i ? ",\n" : "\n");
        add_json(&f.all.v[i], f.home, out);
    }
    buf_adds(out, f.all.len ? "\n]}\n" : "]}\n");
    return 0;
}

static int take(void *arg, int id UNUSED, const char *value UNUSED, struct err *err UNUSED) {
    *(bool *)arg = true;
    return 0;
}

static int run_secret_ls(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_words words = {0};
    struct err err = {0};
    bool json = false;
    int r = policy_read_words(self, argc, argv, take, &json, 0, &words, &err);

    r = r < 0 ? r : list(json, &out, &err);
    return r < 0 ? verb_fail(self, &err) : policy_print(self, &out, 0);
}

const struct verb verb_secret_ls = {
    .name = "secret ls",
    .summary = "list your secrets: names and hosts, never values",
    .synopsis = "[--json]",
    .description = "Lists the secrets of ~/.config/bawn/secrets.json: for which hosts each one is, how it goes into a request, "
                   "where its value is kept, which variables inside have its placeholder, and when a sandbox last had it.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_secret_ls,
};
