/* SPDX-License-Identifier: Apache-2.0 */
/* The file store's key: from the keyring, the Secret Service or a passphrase. */
#include "vault/unlock.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/keyring.h"
#include "vault/input.h"
#include "vault/service.h"
#include "vault/vault.h"

static const char passphrase_variable[] = "BAWN_PASSPHRASE_FILE";

static int passphrase_file(const char *path, struct secret *ret, struct err *err) {
    CLEANUP(closep) int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    struct stat st;
    int r;

    if (path[0] != '/') /* bawn starts us in another folder than it was started in */
        return err_usage(err, "%s is no absolute path", passphrase_variable);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -ENOKEY, "open the file '%s' that %s names: %s", path, passphrase_variable, strerror(errno));
    if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077))
        return err_set(err, -ENOKEY, "others may read the passphrase in '%s': chmod 600 it", path);
    r = input_read(fd, VAULT_PASSPHRASE_MAX, ret, err);
    if (r == -E2BIG)
        return err_usage(err, "the passphrase in '%s' has more than %d bytes", path, VAULT_PASSPHRASE_MAX);
    return r < 0 ? err_ctx(err, r, "'%s'", path) : 0;
}

static int locked(struct err *err) {
    return err_set(err, -ENOKEY, "the file store is locked: run 'bawn secret unlock', or set %s", passphrase_variable);
}

static int ask(const struct vault *v, const char *question, struct secret *ret, struct err *err) {
    int r = v->may_ask ? input_ask(question, VAULT_PASSPHRASE_MAX, ret, err) : -ENXIO;

    if (r == -ENXIO)
        return locked(err);
    if (r == -E2BIG)
        return err_usage(err, "a passphrase has at most %d bytes", VAULT_PASSPHRASE_MAX);
    return r;
}

static int passphrase(const struct vault *v, struct secret *ret, struct err *err) {
    const char *path = vault_getenv(v, passphrase_variable);
    int r = path ? passphrase_file(path, ret, err) : ask(v, "Passphrase of Bawn's file store: ", ret, err);

    if (r < 0)
        return r;
    return ret->len ? 0 : err_set(err, -ENOKEY, "the passphrase is empty");
}

static int from_service(const struct sealed_head *h, struct secret *ret, struct err *err) {
    char id[SEALED_ID_TEXT];
    int r;

    sealed_id_text(h, id);
    if (secret_alloc(ret, SEALED_KEY) < 0)
        return err_oom(err);
    r = service_get(SERVICE_STORE, id, ret, err);
    if (r == -ENOENT)
        return err_set(err, -ENOKEY,
                       "the key of the file store is no longer in the Secret Service: its values are lost; remove "
                       "secrets.enc and set them again");
    if (r < 0)
        return err_ctx(err, r, "the file store's key");
    return sealed_key_fits(h, ret) ? 0 : err_set(err, -ENOKEY, "the key in the Secret Service is not that of the file store");
}

static int from_passphrase(const struct vault *v, const struct sealed_head *h, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret phrase = {0};
    int r = passphrase(v, &phrase, err);

    r = r < 0 ? r : sealed_derive(h, &phrase, ret, err);
    if (r < 0)
        return r;
    if (!sealed_key_fits(h, ret))
        return err_set(err, -ENOKEY, "wrong passphrase");
    unlock_keep(v, h, ret);
    return 0;
}

static int from_keyring(const struct sealed_head *h, struct secret *ret) {
    char id[SEALED_ID_TEXT];
    int r;

    sealed_id_text(h, id);
    r = keyring_get(id, ret);
    if (r == 0 && sealed_key_fits(h, ret))
        return 0;
    secret_done(ret);
    return -ENOKEY;
}

static int known_key(const struct vault *v, const struct sealed_head *h, struct secret *ret) {
    if (!v->key || !v->key->p || !sealed_key_fits(h, v->key) || secret_alloc(ret, SEALED_KEY) < 0)
        return -ENOKEY;
    return secret_set(ret, v->key->p, v->key->len);
}

static void make_known(const struct vault *v, const struct secret *key) {
    if (v->key && (v->key->p || secret_alloc(v->key, SEALED_KEY) == 0))
        (void)secret_set(v->key, key->p, key->len);
}

int unlock_key(const struct vault *v, const struct sealed_head *h, bool skip_keyring, struct secret *ret_key, struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};
    int r;

    if (known_key(v, h, &key) == 0)
        r = 0;
    else if (h->kind == SEALED_SERVICE)
        r = from_service(h, &key, err);
    else
        r = !skip_keyring && from_keyring(h, &key) == 0 ? 0 : from_passphrase(v, h, &key, err);
    if (r < 0)
        return r;
    make_known(v, &key);
    *ret_key = TAKE(key, (struct secret){0});
    return 0;
}

/* A service that is there but cannot keep the key (locked, no collection) is as good as none: a passphrase works everywhere. */
static int new_in_service(struct sealed_head *ret, struct secret *ret_key, struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};
    char id[SEALED_ID_TEXT];
    struct sealed_head h;
    int r = sealed_new(SEALED_SERVICE, &h, err);

    r = r < 0 ? r : sealed_random_key(&key, err);
    if (r < 0)
        return r;
    sealed_id_text(&h, id);
    r = service_put(SERVICE_STORE, id, "Bawn: key of the file store", &key, err);
    if (r < 0)
        return r;
    sealed_set_key(&h, &key);
    *ret = h;
    *ret_key = TAKE(key, (struct secret){0});
    return 0;
}

static int ask_twice(const struct vault *v, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret again = {0};
    int r = ask(v, "New passphrase for Bawn's file store: ", ret, err);

    if (r == 0 && ret->len == 0)
        return err_set(err, -ENOKEY, "the passphrase is empty");
    r = r < 0 ? r : ask(v, "The same again: ", &again, err);
    if (r < 0)
        return r;
    if (again.len != ret->len || CRYPTO_memcmp(again.p, ret->p, ret->len) != 0)
        return err_set(err, -ENOKEY, "the two passphrases are not the same");
    return 0;
}

static int new_with_passphrase(const struct vault *v, struct sealed_head *ret, struct secret *ret_key, struct err *err) {
    CLEANUP(secret_done) struct secret phrase = {0};
    struct sealed_head h;
    int r = vault_getenv(v, passphrase_variable) ? passphrase(v, &phrase, err) : ask_twice(v, &phrase, err);

    r = r < 0 ? r : sealed_new(SEALED_PASSPHRASE, &h, err);
    r = r < 0 ? r : sealed_derive(&h, &phrase, ret_key, err);
    if (r < 0)
        return r;
    sealed_set_key(&h, ret_key);
    *ret = h;
    return 0;
}

int unlock_new(const struct vault *v, struct sealed_head *ret, struct secret *ret_key, struct err *err) {
    struct err why = {0};

    if (!vault_getenv(v, passphrase_variable) && new_in_service(ret, ret_key, &why) == 0)
        return 0;
    return new_with_passphrase(v, ret, ret_key, err);
}

void unlock_keep(const struct vault *v, const struct sealed_head *h, const struct secret *key) {
    char id[SEALED_ID_TEXT];

    if (h->kind != SEALED_PASSPHRASE || vault_getenv(v, passphrase_variable))
        return;
    sealed_id_text(h, id);
    (void)keyring_put(id, key, VAULT_UNLOCKED_S); /* without keyrings the passphrase is asked for each time */
}

void unlock_undo(const struct sealed_head *h) {
    char id[SEALED_ID_TEXT];

    if (h->kind != SEALED_SERVICE)
        return;
    sealed_id_text(h, id);
    (void)service_rm(SERVICE_STORE, id, NULL);
}
