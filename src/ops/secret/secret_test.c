/* SPDX-License-Identifier: Apache-2.0 */
/* Asks settings, policy and bawn-vault about secrets. */
#include "ops/secret/secret_test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ops/secret/secret_file.h"
#include "os/fd.h"
#include "supervisor/credential/vault_spawn.h"

enum { CHECK_MAX = 16 * 1024, PORT_HTTPS = 443 };

struct secret_tester {
    struct policy_here here;
    secret_check_fn *fn;
    void *arg;
    struct secret_tally *tally;
};

/* What bawn-vault says about the value: "" if there is one. */
static int check_value(const char *name, struct buf *why, struct err *err) {
    CLEANUP(closep) int out = memfd_create("bawn-check", MFD_CLOEXEC);
    CLEANUP(json_decrefp) json_t *root = NULL;
    const struct vault_job job = {.verb = "--check", .name = name, .sock = -1, .out = out, .environ_ = environ};
    char text[CHECK_MAX];
    ssize_t n;
    int status, r;

    if (out < 0)
        return err_sys(err, -errno, "memfd_create");
    r = vault_run(&job, &status, err);
    if (r < 0)
        return r;
    n = pread(out, text, sizeof text, 0);
    root = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    if (json_get_bool(root, "ok"))
        return 0;
    if (json_is_string(json_object_get(root, "error")))
        buf_adds(why, json_get_text(root, "error"));
    else
        buf_addf(why, "bawn-vault ended with status %d", status);
    return 0;
}

static int test_one(struct secret_tester *t, const struct credential *c, const char *host, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(CHECK_MAX);
    struct policy_answer a;
    struct secret_check check = {.c = c, .answer = &a, .chosen = choice_has(&t->here.settings.secrets, c->name)};
    int r = secret_ask_policy(&t->here.policy, host, &a, err);

    r = r < 0 ? r : check_value(c->name, &why, err);
    if (r < 0)
        return r;
    check.objection = secret_policy_objects(&a);
    check.problem = buf_str(&why);
    t->fn(&check, t->arg);
    t->tally->n++;
    t->tally->good += check.chosen && !check.objection && why.len == 0;
    return 0;
}

static int test_host(struct secret_tester *t, const struct secret_file *f, const char *word, struct err *err) {
    CLEANUP(credential_done) struct credential parsed = {0}; /* checks the spelling */
    struct host h;
    uint16_t port = 0;
    int r = credential_add_host(&parsed, word, err);

    r = r < 0 ? r : host_parse_with_port(parsed.hosts.v[0], strlen(parsed.hosts.v[0]), &h, &port, err);
    if (r < 0)
        return r;
    snprintf(t->tally->host, sizeof t->tally->host, "%s", h.text);
    t->tally->port = port ? port : PORT_HTTPS;
    for (size_t i = 0; r == 0 && i < f->all.len; i++)
        if (credential_is_for(&f->all.v[i], h.text, t->tally->port))
            r = test_one(t, &f->all.v[i], parsed.hosts.v[0], err);
    return r;
}

static int test_word(struct secret_tester *t, const char *word, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    const struct credential *c;
    int r = secret_file_read(&f, err);

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

int secret_test_run(const char *word, const struct policy_here_opts *here, secret_check_fn *fn, void *arg,
                    struct secret_tally *ret, struct err *err) {
    struct secret_tester t = {.here = POLICY_HERE_INIT, .fn = fn, .arg = arg, .tally = ret};
    int r = policy_here_open(here, &t.here, err);

    *ret = (struct secret_tally){0};
    r = r < 0 ? r : test_word(&t, word, err);
    policy_here_done(&t.here);
    return r;
}
