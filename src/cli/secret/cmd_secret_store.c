/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret rm`, `unlock`, `lock` and `login`: what bawn-vault does, which alone opens the stores. */
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/secret/secret_change.h"

static const struct opt rm_opts[] = {
    {0,
     0,
     "force",
     NULL,
     "also if the value cannot be removed, because its store is locked or gone",
     NULL,
     {.kind = OPT_KIND_FLAG}},
};

static void print_removed(const char *name, const struct secret_removed *done) {
    if (done->problem.code)
        log_err(&done->problem);
    if (done->removed)
        log_line("secret '%s' removed", name);
    else
        log_line("the secret '%s' stays (with --force its definition goes, and its value may stay in the store)", name);
}

/* Returns the exit status, or negative. */
static int remove_named(char **names, int n, bool force, struct err *err) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    const struct credential *c;
    int status = 0, r = secret_file_edit(&f, err);

    for (int i = 0; r == 0 && i < n; i++) /* a slip in the last name removes nothing */
        r = secret_file_find(&f, names[i], &c, err);
    for (int i = 0; r == 0 && i < n; i++) {
        struct secret_removed done;

        r = secret_remove(&f, names[i], force, &done, err);
        if (r == 0)
            print_removed(names[i], &done);
        if (r == 0 && !done.removed)
            status = done.status;
    }
    return r < 0 ? r : status;
}

static int run_rm(struct verb_call *c, struct err *err) {
    bool force = false;
    int r = verb_parse(c, &force, c->argc, err);

    if (r == 0)
        r = err_usage(err, "name a secret (see 'bawn secret ls')");
    return r < 0 ? r : remove_named(c->argv + 1, r, force, err);
}

/* `lock` and `unlock`: the last word of the verb. */
static int run_lock(struct verb_call *c, struct err *err) {
    int status = 0, r = verb_parse(c, NULL, 0, err);

    r = r < 0 ? r : secret_lock(str_eq(c->argv[0], "lock"), &status, err);
    return r < 0 ? r : status;
}

static int run_login(struct verb_call *c, struct err *err) {
    int status = 0, r = verb_parse(c, NULL, 1, err);

    if (r == 0)
        r = err_usage(err, "name a secret (see 'bawn secret ls')");
    r = r < 0 ? r : secret_login(c->argv[1], &status, err);
    return r < 0 ? r : status;
}

const struct verb verb_secret_rm = {
    .name = "secret rm",
    .summary = "remove secrets, values included",
    .synopsis = "[options] SECRET...",
    .description =
        "Removes the value from its store and then the definition. Sandboxes that run keep what they were started with "
        "until they end.",
    VERB_OPTS(rm_opts),
    .run = run_rm,
};

const struct verb verb_secret_unlock = {
    .name = "secret unlock",
    .summary = "open the encrypted file of secrets for 8 hours",
    .synopsis = "",
    .description =
        "Asks for the passphrase of ~/.config/bawn/secrets.enc. The key waits in the kernel's keyring, so that sandboxes "
        "can use secrets without asking again; 'bawn secret lock' forgets it. With a Secret Service there is no "
        "passphrase.",
    .run = run_lock,
};

const struct verb verb_secret_lock = {
    .name = "secret lock",
    .summary = "forget the key of the encrypted file",
    .synopsis = "",
    .description =
        "After this, secrets in the encrypted file are not available until 'bawn secret unlock'. Values that a running "
        "sandbox has used already stay with its broker until it ends.",
    .run = run_lock,
};

const struct verb verb_secret_login = {
    .name = "secret login",
    .summary = "get OAuth tokens in a browser",
    .synopsis = "SECRET",
    .description =
        "Shows a code and an address to open in a browser on any device, waits until you have confirmed there, and keeps "
        "the tokens. A secret without a device URL: shows an address to open in a browser on this machine. Tokens are renewed by themselves; when that fails, log in again.",
    .run = run_login,
};
