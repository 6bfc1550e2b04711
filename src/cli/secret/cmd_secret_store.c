/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret rm`, `unlock`, `lock` and `login`: what bawn-vault does, which alone opens the stores. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/secret/secret_view.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/secret/secret_file.h"
#include "supervisor/credential/vault_spawn.h"

enum { OPT_FORCE = 1 };

static const struct opt rm_opts[] = {
    {OPT_FORCE, 0, "force", NULL, "also if the value cannot be removed, because its store is locked or gone", NULL},
};

static int vault(const char *verb, const char *name, int *ret_status, struct err *err) {
    const struct vault_job job = {.verb = verb, .name = name, .sock = -1, .terminal = true, .environ_ = environ};

    return vault_run(&job, ret_status, err);
}

static int take_force(void *arg, int id UNUSED, const char *value UNUSED, struct err *err UNUSED) {
    *(bool *)arg = true;
    return 0;
}

static void forget_use(const char *home, const char *name) {
    CLEANUP(freep) char *leaf = str_dupf("secret-use/%s", name);
    CLEANUP(freep) char *path = NULL;

    if (leaf && paths_state(environ, home, leaf, &path, NULL) == 0 && path)
        unlink(path);
}

/* The value first: one without definition would never be found again. Returns the exit status or -errno. */
static int remove_one(struct secret_file *f, const char *name, bool force, struct err *err) {
    const struct credential *c;
    int status = 0, r = secret_file_find(f, name, &c, err);

    if (r < 0)
        return r;
    r = audit_verb_word(AUDIT_POLICY, "", "secret removed", name, err);
    if (r < 0)
        return r;
    r = secret_is_kept(c) ? vault("--rm", name, &status, err) : 0;
    if (r < 0 && force)
        log_err(err);
    else if (r < 0)
        return r;
    if ((r < 0 || status) && !force) {
        log_line("the secret '%s' stays (with --force its definition goes, and its value may stay in the store)", name);
        return status;
    }
    credentials_remove(&f->all, name);
    r = secret_file_save(f, err);
    if (r < 0)
        return r;
    forget_use(f->home, name);
    log_line("secret '%s' removed", name);
    return 0;
}

static int run_rm(const struct verb *self, int argc, char **argv) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    struct policy_words words = {0};
    struct err err = {0};
    bool force = false;
    int status = 0, r = policy_read_words(self, argc, argv, take_force, &force, POLICY_WORDS_MAX, &words, &err);
    const struct credential *c;

    if (r == 0 && words.n == 0)
        r = err_usage(&err, "which secret? (see 'bawn secret ls')");
    r = r < 0 ? r : secret_file_edit(&f, &err);
    for (size_t i = 0; r == 0 && i < words.n; i++) /* a slip in the last name removes nothing */
        r = secret_file_find(&f, words.v[i], &c, &err);
    for (size_t i = 0; r >= 0 && i < words.n; i++) {
        r = remove_one(&f, words.v[i], force, &err);
        status = r > 0 ? r : status;
    }
    return r < 0 ? verb_fail(self, &err) : status;
}

static int run_plain(const struct verb *self, int argc, char **argv, const char *vault_verb) {
    struct policy_words words = {0};
    struct err err = {0};
    int status = 0, r = policy_read_words(self, argc, argv, take_force, NULL, 0, &words, &err);

    r = r < 0
            ? r
            : audit_verb_word(AUDIT_POLICY, "", str_eq(vault_verb, "--lock") ? "secrets locked" : "secrets unlocked", NULL, &err);
    r = r < 0 ? r : vault(vault_verb, NULL, &status, &err);
    return r < 0 ? verb_fail(self, &err) : status;
}

static int run_unlock(const struct verb *self, int argc, char **argv) {
    return run_plain(self, argc, argv, "--unlock");
}

static int run_lock(const struct verb *self, int argc, char **argv) {
    return run_plain(self, argc, argv, "--lock");
}

static int run_login(const struct verb *self, int argc, char **argv) {
    CLEANUP(secret_file_done) struct secret_file f = SECRET_FILE_INIT;
    struct policy_words words = {0};
    const struct credential *c;
    struct err err = {0};
    int status = 0, r = policy_read_words(self, argc, argv, take_force, NULL, 1, &words, &err);

    if (r == 0 && words.n == 0)
        r = err_usage(&err, "which secret? (see 'bawn secret ls')");
    r = r < 0 ? r : secret_file_read(&f, &err);
    r = r < 0 ? r : secret_file_find(&f, words.v[0], &c, &err);
    if (r == 0 && !c->device_url && !c->authorize_url)
        r = err_usage(&err, "the secret '%s' has no oauth with a device or authorize URL: there is nothing to log in to",
                      c->name);
    r = r < 0 ? r : audit_verb_word(AUDIT_POLICY, "", "secret login", words.v[0], &err);
    r = r < 0 ? r : vault("--login", words.v[0], &status, &err);
    return r < 0 ? verb_fail(self, &err) : status;
}

const struct verb verb_secret_rm = {
    .name = "secret rm",
    .summary = "remove secrets, values included",
    .synopsis = "[options] SECRET...",
    .description =
        "Removes the value from its store and then the definition. Sandboxes that run keep what they were started with "
        "until they end.",
    .opts = rm_opts,
    .n_opts = ARRAY_LEN(rm_opts),
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
    .run = run_unlock,
};

const struct verb verb_secret_lock = {
    .name = "secret lock",
    .summary = "forget the key of the encrypted file",
    .synopsis = "",
    .description = "After this, secrets in the encrypted file cannot be had until 'bawn secret unlock'. Values that a running "
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
