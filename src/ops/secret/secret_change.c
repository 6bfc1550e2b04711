/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of secrets, changed in step with the values that bawn-vault has. */
#include "ops/secret/secret_change.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/policy/policy_here.h"
#include "ops/secret/secret_view.h"
#include "os/fd.h"
#include "supervisor/credential/vault_spawn.h"

void secret_set_result_done(struct secret_set_result *r) {
    secret_file_done(&r->file);
    strv_done(&r->notes);
}

static int run_vault(const char *verb, const char *name, int definitions, int *ret_status, struct err *err) {
    const struct vault_job job = {.verb = verb, .name = name, .sock = definitions, .terminal = true, .environ_ = environ};

    return vault_run(&job, ret_status, err);
}

/* -- set ---------------------------------------------------------------------------------------------------------------- */

/* A value that stays behind in another store would never be found again. */
static int check_old(const struct credential *old, const struct secret_set *s, struct err *err) {
    if (!old)
        return 0;
    if (!s->replace)
        return err_usage(err, "secret '%s' already exists (--replace replaces its definition and value)", old->name);
    if (secret_is_stored(old) && old->store != s->c.store)
        return err_usage(err, "the value of '%s' is in the store \"%s\": 'bawn secret rm %s' first", old->name,
                         credential_store_names[old->store], old->name);
    return 0;
}

/* The value comes before the definition. A crash in between leaves no definition without a value, or with another one's
 * (vault/vault.h). Tokens of OAuth come later; old ones are for the old definition. */
static int change_value(const struct secret_set *s, struct secret_set_result *r, struct err *err) {
    CLEANUP(closep) int definitions = -1;
    int e = secret_file_preview(&r->file, &definitions, err);

    return e < 0 ? e
                 : run_vault(r->c->token_url && !s->refresh_token ? "--rm" : "--put", r->c->name, definitions, &r->status, err);
}

static int add_overlap(const struct credential *c, const struct credential *o, struct strv *notes) {
    const char *variable;
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->hosts.len; i++)
        if (strv_has(&o->hosts, c->hosts.v[i]))
            r = strv_addf(notes, "'%s' is for %s too (%s): a run has both unless 'secrets' or --secret chooses", o->name,
                          c->hosts.v[i], o->place == c->place ? "in the same way" : credential_place_names[o->place]);
    for (size_t i = 0; r == 0 && (variable = credential_variable(c, i)); i++)
        if (credential_has_variable(o, variable))
            r = strv_addf(notes,
                          "'%s' has the variable %s too: a run with both is refused; choose with --secret or the setting "
                          "'secrets', or set '%s' with --no-env",
                          o->name, variable, c->name);
    return r;
}

/* A secret for a host that no sandbox may reach does nothing. */
static int add_unreachable(const struct credential *c, struct strv *notes) {
    CLEANUP(policy_here_done) struct policy_here here = POLICY_HERE_INIT;
    const struct policy_here_opts opts = {0};
    struct policy_answer a;
    int r = 0;

    if (policy_here_open(&opts, &here, NULL) < 0)
        return 0;
    for (size_t i = 0; r == 0 && i < c->hosts.len; i++) {
        CLEANUP(buf_done) struct buf remedy = BUF_INIT(4096);

        if (secret_ask_policy(&here.policy, c->hosts.v[i], &a, NULL) < 0 || !secret_policy_objects(&a))
            continue;
        secret_add_remedy(&a, &remedy);
        r = strv_addf(notes, "no rule lets sandboxes started here reach %s:%u yet: %s", a.host, a.port, buf_str(&remedy));
    }
    return r;
}

static int find_notes(struct secret_set_result *r, struct err *err) {
    int e = 0;

    for (size_t i = 0; e == 0 && i < r->file.all.len; i++)
        if (&r->file.all.v[i] != r->c)
            e = add_overlap(r->c, &r->file.all.v[i], &r->notes);
    e = e < 0 ? e : add_unreachable(r->c, &r->notes);
    return e < 0 ? err_oom(err) : 0;
}

/* What it is for, and never what it is. */
static int log_set(const struct credential *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", "secret set");
    audit_add(&b, "name", c->name);
    audit_verb_list(&b, "hosts", &c->hosts);
    audit_add(&b, "place", credential_place_names[c->place]);
    audit_add(&b, "store", credential_store_names[c->store]);
    return audit_verb(AUDIT_POLICY, "", &b, err);
}

int secret_define(struct secret_set *s, struct secret_set_result *ret, struct err *err) {
    CLEANUP(freep) char *name = strdup(s->c.name);
    int r = name ? secret_file_edit(&ret->file, err) : err_oom(err);

    r = r < 0 ? r : check_old(credentials_find(&ret->file.all, name), s, err);
    r = r < 0 ? r : credentials_put(&ret->file.all, &s->c, err);
    if (r < 0)
        return r;
    ret->c = credentials_find(&ret->file.all, name);
    r = log_set(ret->c, err);
    if (r == 0 && secret_is_stored(ret->c))
        r = change_value(s, ret, err);
    if (r < 0 || ret->status)
        return r;
    r = secret_file_save(&ret->file, err);
    return r < 0 ? r : find_notes(ret, err);
}

/* -- others ------------------------------------------------------------------------------------------------------------- */

static void forget_use(const char *home, const char *name) {
    CLEANUP(freep) char *leaf = str_dupf("secret-use/%s", name);
    CLEANUP(freep) char *path = NULL;

    if (leaf && paths_state(environ, home, leaf, &path, NULL) == 0 && path)
        unlink(path);
}

/* The value first: one without definition would never be found again. */
int secret_remove(struct secret_file *f, const char *name, bool force, struct secret_removed *ret, struct err *err) {
    const struct credential *c;
    int r = secret_file_find(f, name, &c, err);

    *ret = (struct secret_removed){0};
    r = r < 0 ? r : audit_verb_word(AUDIT_POLICY, "", "secret removed", name, err);
    if (r < 0)
        return r;
    r = secret_is_stored(c) ? run_vault("--rm", name, -1, &ret->status, &ret->problem) : 0;
    if (r < 0 && !force) {
        *err = ret->problem;
        return r;
    }
    if (ret->status && !force)
        return 0;
    credentials_remove(&f->all, name);
    r = secret_file_save(f, err);
    if (r < 0)
        return r;
    ret->removed = true;
    forget_use(f->home, name);
    return 0;
}

static int run_logged(const char *verb, const char *what, const char *name, int *ret_status, struct err *err) {
    int r = audit_verb_word(AUDIT_POLICY, "", what, name, err);

    return r < 0 ? r : run_vault(verb, name, -1, ret_status, err);
}

int secret_lock(bool lock, int *ret_status, struct err *err) {
    return run_logged(lock ? "--lock" : "--unlock", lock ? "secrets locked" : "secrets unlocked", NULL, ret_status, err);
}

int secret_login(const char *name, int *ret_status, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    const struct credential *c;
    int r = secret_file_read(&f, err);

    r = r < 0 ? r : secret_file_find(&f, name, &c, err);
    if (r < 0)
        return r;
    if (!c->device_url && !c->authorize_url)
        return err_usage(err, "the secret '%s' has no oauth with a device or authorize URL: there is nothing to log in to", name);
    return run_logged("--login", "secret login", name, ret_status, err);
}
