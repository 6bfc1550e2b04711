/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/secret/secret_options.h"
#include "cli/secret/secret_view.h"
#include "ops/audit_verb.h"
#include "ops/secret/secret_file.h"
#include "os/fd.h"
#include "supervisor/credential/vault_spawn.h"

/* A value that stays behind in another store would be found by nobody. */
static int check_old(const struct credential *old, const struct secret_request *q, struct err *err) {
    if (!old)
        return 0;
    if (!q->replace)
        return err_usage(err, "there is a secret '%s' already (with --replace its definition and value are replaced)", old->name);
    if (secret_is_kept(old) && old->store != q->c.store)
        return err_usage(err, "the value of '%s' is in the store \"%s\": 'bawn secret rm %s' first", old->name,
                         credential_store_names[old->store], old->name);
    return 0;
}

/* The value comes before the definition: whoever is killed here leaves no definition that has no value, or another one's (vault/vault.h).
 * Tokens of OAuth come later; old ones are for the old definition. */
static int change_value(const struct secret_file *f, const struct secret_request *q, const struct credential *c, int *ret_status,
                        struct err *err) {
    CLEANUP(closep) int defs = -1;
    struct vault_job job = {.name = c->name, .terminal = true, .environ_ = environ};
    int r = secret_file_preview(f, &defs, err);

    if (r < 0)
        return r;
    job.verb = c->token_url && !q->refresh_token ? "--rm" : "--put";
    job.sock = defs;
    return vault_run(&job, ret_status, err);
}

static void note_others(const struct secret_file *f, const struct credential *c) {
    for (size_t i = 0; i < f->all.len; i++) {
        const struct credential *o = &f->all.v[i];

        if (str_eq(o->name, c->name))
            continue;
        for (size_t k = 0; k < c->hosts.len; k++)
            if (strv_has(&o->hosts, c->hosts.v[k]))
                log_line("'%s' is for %s too (%s): a run has both unless 'secrets' or --secret chooses", o->name, c->hosts.v[k],
                         o->place == c->place ? "in the same way" : credential_place_names[o->place]);
        for (size_t k = 0; k < c->env.len; k++)
            if (strv_has(&o->env, c->env.v[k]))
                log_line("'%s' has the variable %s too: in a run with both, one of them goes without", o->name, c->env.v[k]);
    }
}

/* A secret for a host that no sandbox may reach does nothing: better said than searched for. */
static void note_policy(const struct credential *c) {
    CLEANUP(policy_view_done) struct policy_view view = POLICY_VIEW_INIT;
    const struct policy_view_opts here = {0};
    struct policy_answer a;

    if (policy_view_open(&here, &view, NULL) < 0)
        return;
    for (size_t i = 0; i < c->hosts.len; i++) {
        CLEANUP(buf_done) struct buf remedy = BUF_INIT(4096);

        if (secret_ask_policy(&view.policy, c->hosts.v[i], &a, NULL) < 0 || !secret_policy_objects(&a))
            continue;
        secret_add_remedy(&a, &remedy);
        log_line("no rule lets sandboxes started here reach %s:%u yet: %s", a.host, a.port, buf_str(&remedy));
    }
}

static void say(const struct credential *c, bool has_tokens) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    secret_add_place(c, &b);
    buf_adds(&b, " for ");
    for (size_t i = 0; i < c->hosts.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "", c->hosts.v[i]);
    for (size_t i = 0; i < c->env.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "; inside, a placeholder stands in ", c->env.v[i]);
    log_line("secret '%s' set: %s", c->name, buf_str(&b));
    if (c->device_url && !has_tokens)
        log_line("now get its tokens: 'bawn secret login %s'", c->name);
    else if (c->token_url && !has_tokens)
        log_line("its tokens are kept when a sandbox gets them");
}

/* What it is for, and never what it is. */
static int note_set(const struct credential *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", "secret set");
    audit_add(&b, "name", c->name);
    audit_verb_list(&b, "hosts", &c->hosts);
    audit_add(&b, "place", credential_place_names[c->place]);
    audit_add(&b, "store", credential_store_names[c->store]);
    return audit_verb(AUDIT_POLICY, "", &b, err);
}

static int set(struct secret_request *q, int *ret_status, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    CLEANUP(freep) char *name = strdup(q->c.name);
    const struct credential *c;
    int r = name ? secret_file_edit(&f, err) : err_oom(err);

    r = r < 0 ? r : check_old(credentials_find(&f.all, name), q, err);
    r = r < 0 ? r : credentials_put(&f.all, &q->c, err);
    if (r < 0)
        return r;
    c = credentials_find(&f.all, name);
    r = note_set(c, err);
    if (r == 0 && secret_is_kept(c))
        r = change_value(&f, q, c, ret_status, err);
    if (r < 0 || *ret_status)
        return r;
    r = secret_file_save(&f, err);
    if (r < 0)
        return r;
    say(c, q->refresh_token);
    note_others(&f, c);
    note_policy(c);
    return 0;
}

static int run_secret_set(const struct verb *self, int argc, char **argv) {
    CLEANUP(secret_request_done) struct secret_request q = {0};
    struct err err = {0};
    int status = 0, r = secret_request_read(argc, argv, &q, &err);

    r = r < 0 ? r : set(&q, &status, &err);
    return r < 0 ? verb_fail(self, &err) : status;
}

static const char description[] =
    "Keeps a secret for requests to a host. Sandboxes see a placeholder only; the value is put into requests to exactly "
    "this host outside of them, and taken out of the answers. It is read from the standard input, or asked for without "
    "echo on a terminal. For hosts that Bawn knows (api.anthropic.com, api.openai.com, api.github.com, "
    "registry.npmjs.org, ...) header and variables need not be said.\n\n"
    "    bawn secret set anthropic --host api.anthropic.com\n"
    "    bawn secret set forge --host git.example.com:8443 --basic me < token.txt\n"
    "    bawn secret set maps --host maps.example.com --query key --store env:MAPS_KEY\n"
    "    bawn secret set github --host api.github.com --lifetime 10m --store command -- op read op://work/github/token\n"
    "    bawn secret set aws --host s3.eu-central-1.amazonaws.com --sigv4 eu-central-1/s3\n\n"
    "With --sigv4 the value is KEY-ID:SECRET-KEY, or KEY-ID:SECRET-KEY:SESSION-TOKEN.";

const struct verb verb_secret_set = {
    .name = "secret set",
    .summary = "keep a secret for requests to a host",
    .synopsis = "NAME --host HOST [options] [-- COMMAND [ARG...]]",
    .description = description,
    .opts = secret_set_opts,
    .n_opts = N_SECRET_SET_OPTS,
    .run = run_secret_set,
};
