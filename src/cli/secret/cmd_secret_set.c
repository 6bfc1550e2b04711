/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret set`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/secret/secret_options.h"
#include "cli/verb.h"
#include "ops/secret/secret_view.h"

static void print_set(const struct secret_set_result *done, bool has_tokens) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    const struct credential *c = done->c;

    secret_add_place(c, &b);
    buf_adds(&b, " for ");
    for (size_t i = 0; i < c->hosts.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "", c->hosts.v[i]);
    for (size_t i = 0; i < c->env.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "; inside, the placeholder is in ", c->env.v[i]);
    log_line("secret '%s' set: %s", c->name, buf_str(&b));
    if (c->device_url && !has_tokens)
        log_line("now get its tokens: 'bawn secret login %s'", c->name);
    else if (c->token_url && !has_tokens)
        log_line("its tokens are stored when a sandbox gets them");
    for (size_t i = 0; i < done->notes.len; i++)
        log_line("%s", done->notes.v[i]);
}

static int run_secret_set(const struct verb *self, int argc, char **argv) {
    CLEANUP(secret_set_result_done) struct secret_set_result done = SECRET_SET_RESULT_INIT;
    CLEANUP(secret_set_done) struct secret_set q = {0};
    struct err err = {0};
    int r = secret_set_read(argc, argv, &q, &err);

    r = r < 0 ? r : secret_define(&q, &done, &err);
    if (r < 0)
        return verb_fail(self, &err);
    if (done.status == 0)
        print_set(&done, q.refresh_token);
    return done.status;
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
