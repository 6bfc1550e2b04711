/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/plan.h"
#include "os/fd.h"
#include "os/keyring.h"
#include "supervisor/credential/credentials_priv.h"
#include "supervisor/credential/vault_spawn.h"
#include "vault/sealed.h"

enum { NAMES_MAX = 1000 };

/* Only the head, which is not secret: what is behind it is for bawn-vault. */
static bool read_head(const struct host_facts *facts, struct sealed_head *ret) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int fd = -1;

    if (paths_config(facts->environ_, facts->home, "secrets.enc", &path, NULL) < 0 || !path)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd >= 0 && fd_read_some(fd, ret, sizeof *ret) == (ssize_t)sizeof *ret;
}

static bool is_unlocked(const struct sealed_head *h) {
    char id[SEALED_ID_TEXT];

    hex_encode(h->id, SEALED_ID, id);
    return keyring_has(id);
}

static bool is_locked(const struct host_facts *facts) {
    struct sealed_head h;

    return !paths_getenv(facts->environ_, "BAWN_PASSPHRASE_FILE") && read_head(facts, &h) && h.kind == SEALED_PASSPHRASE &&
           !is_unlocked(&h);
}

static void list_names(const struct run_credentials *c, const struct credentials *defined, struct buf *out) {
    for (size_t i = 0; i < c->n_grants; i++) {
        const struct credential *d = credentials_find(defined, c->grants[i].c.name);

        if (!d || d->store != STORE_FILE)
            continue;
        buf_adds(out, out->len ? ", " : "");
        buf_adds(out, d->name);
    }
}

static int ask(const struct host_facts *facts, struct err *err) {
    const struct vault_job job = {.verb = "--unlock", .sock = -1, .terminal = true, .environ_ = facts->environ_};
    int status = 0, r = vault_run(&job, &status, err);

    if (r < 0 || status == 0)
        return r;
    return err_set(err, -ENOKEY, "the file store of secrets stays locked; --no-secrets runs without them");
}

int credentials_unlock(const struct run_credentials *c, const struct credentials *defined, const struct host_facts *facts,
                       struct err *err) {
    CLEANUP(buf_done) struct buf names = BUF_INIT(NAMES_MAX);

    list_names(c, defined, &names);
    if (!names.len || !is_locked(facts))
        return 0;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        return ask(facts, err);
    log_line("the file store is locked: requests that need %s are refused until 'bawn secret unlock'",
             buf_ok(&names) ? buf_str(&names) : "its secrets");
    return 0;
}
