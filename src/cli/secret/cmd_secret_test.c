/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/secret/secret_view.h"
#include "ops/secret/secret_file.h"
#include "os/fd.h"
#include "supervisor/credential/vault_spawn.h"

enum { OPT_JSON = 1, CHECK_MAX = 16 * 1024, LINE_MAX_BYTES = 64 * 1024 };

static const struct opt opts[] = {{OPT_JSON, 0, "json", NULL, "print JSON", NULL}, POLICY_VIEW_OPTS};

struct secret_test_request {
    struct policy_view_opts view;
    bool json;
};

struct test {
    const struct secret_test_request *q;
    struct policy_view view;
    struct buf *out;
    size_t n, good;
};

/* What bawn-vault says about the value: "" if it can be had. */
static int check_value(const char *name, struct buf *why, struct err *err) {
    CLEANUP(closep) int out = memfd_create("bawn-check", MFD_CLOEXEC);
    const struct vault_job job = {.verb = "--check", .name = name, .sock = -1, .out = out, .environ_ = environ};
    char text[CHECK_MAX];
    json_t *root;
    ssize_t n;
    int status, r;

    if (out < 0)
        return err_sys(err, -errno, "memfd_create");
    r = vault_run(&job, &status, err);
    if (r < 0)
        return r;
    n = pread(out, text, sizeof text, 0);
    root = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    if (!root || (!json_is_true(json_object_get(root, "ok")) && !json_is_string(json_object_get(root, "error"))))
        buf_addf(why, "bawn-vault ended with status %d", status);
    else if (!json_is_true(json_object_get(root, "ok")))
        buf_adds(why, json_string_value(json_object_get(root, "error")));
    json_decref(root);
    return 0;
}

static void add_json(const struct test *t, const struct credential *c, const struct policy_answer *a, bool chosen,
                     const char *why, struct buf *b) {
    CLEANUP(buf_done) struct buf verdict = BUF_INIT(LINE_MAX_BYTES), place = BUF_INIT(LINE_MAX_BYTES);

    policy_verdict_add_json(policy_answer_verdict(a), a->host, a->port, &verdict);
    secret_add_place(c, &place);
    buf_adds(b, t->n ? ",\n  {\"name\": " : "\n  {\"name\": ");
    buf_add_json(b, c->name);
    buf_adds(b, ", \"host\": ");
    buf_add_json(b, a->host);
    buf_addf(b, ", \"port\": %u, \"place\": ", a->port);
    buf_add_json(b, buf_str(&place));
    buf_addf(b, ", \"store\": \"%s\", \"chosen\": %s, \"allowed\": %s, \"policy\": %s, \"value\": {\"ok\": %s",
             credential_store_names[c->store], chosen ? "true" : "false", secret_policy_objects(a) ? "false" : "true",
             buf_str(&verdict), *why ? "false" : "true");
    if (*why) {
        buf_adds(b, ", \"error\": ");
        buf_add_json(b, why);
    }
    buf_adds(b, "}}");
}

static void add_text(const struct credential *c, const struct policy_answer *a, bool chosen, const char *why, struct buf *b) {
    const struct policy_verdict *v = policy_answer_verdict(a);
    const char *objection = secret_policy_objects(a);

    buf_addf(b, "%s for %s:%u (", c->name, a->host, a->port);
    secret_add_place(c, b);
    buf_adds(b, ")\n");
    if (!chosen)
        buf_adds(b, "  settings  no   it is not among the secrets of runs in this folder\n");
    if (objection) {
        buf_addf(b, "  policy    no   %s\n                 ", objection);
        secret_add_remedy(a, b);
        buf_addc(b, '\n');
    } else {
        buf_addf(b, "  policy    yes  %s%s%s\n", v->rule ? "rule '" : "the mode allows it", v->rule ? v->rule->id : "",
                 v->rule ? "'" : "");
    }
    buf_addf(b, "  value     %s", *why ? "no   " : "yes  ");
    buf_add_printable(b, *why ? why : credential_store_names[c->store]);
    buf_addc(b, '\n');
}

static int test_one(struct test *t, const struct credential *c, const char *host, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(CHECK_MAX);
    bool chosen = choice_has(&t->view.settings.secrets, c->name);
    struct policy_answer a;
    int r = secret_ask_policy(&t->view.policy, host, &a, err);

    r = r < 0 ? r : check_value(c->name, &why, err);
    if (r < 0)
        return r;
    if (t->q->json)
        add_json(t, c, &a, chosen, buf_str(&why), t->out);
    else
        add_text(c, &a, chosen, buf_str(&why), t->out);
    t->n++;
    t->good += chosen && !secret_policy_objects(&a) && why.len == 0;
    return 0;
}

static int test_host(struct test *t, const struct secret_file *f, const char *word, struct err *err) {
    struct credential parsed = {0}; /* its spelling, and what people get wrong */
    struct host h;
    uint16_t port = 0;
    int r = credential_add_host(&parsed, word, err);

    if (r == 0)
        r = host_parse_with_port(parsed.hosts.v[0], strlen(parsed.hosts.v[0]), &h, &port, err);
    for (size_t i = 0; r == 0 && i < f->all.len; i++)
        if (credential_is_for(&f->all.v[i], h.text, port ? port : 443))
            r = test_one(t, &f->all.v[i], parsed.hosts.v[0], err);
    if (r == 0 && t->n == 0)
        log_line("no secret is for %s:%u (see 'bawn secret ls')", h.text, port ? port : 443);
    credential_done(&parsed);
    return r;
}

static int test_word(struct test *t, const char *word, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    const struct credential *c;
    int r = secret_file_read(&f, err);

    r = r < 0 ? r : policy_view_open(&t->q->view, &t->view, err);
    if (r < 0)
        return r;
    c = credential_name_ok(word) ? credentials_find(&f.all, word) : NULL;
    if (!c && !strpbrk(word, ".:"))
        return secret_file_find(&f, word, &c, err);
    if (!c)
        return test_host(t, &f, word, err);
    for (size_t i = 0; r == 0 && i < c->hosts.len; i++)
        r = test_one(t, c, c->hosts.v[i], err);
    return r;
}

static int take(void *arg, int id, const char *value, struct err *err UNUSED) {
    struct secret_test_request *q = arg;

    if (id == OPT_JSON)
        q->json = true;
    else
        policy_view_take(&q->view, id, value);
    return 0;
}

static int run_secret_test(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf found = BUF_INIT(POLICY_OUTPUT_MAX), out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_words words = {0};
    struct secret_test_request q = {0};
    struct test t = {.q = &q, .view = POLICY_VIEW_INIT, .out = &found};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);
    bool ok;

    if (r == 0)
        r = words.n == 1 ? test_word(&t, words.v[0], &err) : err_usage(&err, "which host or secret?");
    policy_view_done(&t.view);
    if (r < 0)
        return verb_fail(self, &err);
    ok = t.n && t.good == t.n;
    if (q.json)
        buf_addf(&out, "{\"ok\": %s, \"secrets\": [", ok ? "true" : "false");
    buf_add(&out, buf_str(&found), found.len);
    if (q.json)
        buf_adds(&out, t.n ? "\n]}\n" : "]}\n");
    return policy_print(self, &out, !ok);
}

static const char description[] =
    "Says which of your secrets would go with requests to a host, or to the hosts of one secret, from a sandbox started "
    "here; whether the network rules allow the host; and whether the value can be had. Nothing is sent to the host. The "
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
