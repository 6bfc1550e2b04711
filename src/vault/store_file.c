/* SPDX-License-Identifier: Apache-2.0 */
/* The file store: secrets.enc, read, changed under a lock, replaced as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/keyring.h"
#include "vault/filekey.h"
#include "vault/input.h"
#include "vault/lockfile.h"
#include "vault/sealed.h"
#include "vault/service.h"
#include "vault/store.h"
#include "vault/vault.h"

static const char file_name[] = "secrets.enc";
enum { TRIES = 4 }; /* another vault made the store while we asked for its passphrase */

/* The key: the kernel's keyring, the Secret Service, a passphrase ---------------------------------------------------- */

static const char passphrase_variable[] = "BAWN_PASSPHRASE_FILE";

static int passphrase_file(const char *path, struct secret *ret, struct stat *st, struct err *err) {
    CLEANUP(closep) int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    int r;

    if (path[0] != '/') /* bawn starts us in another folder than it was started in */
        return err_usage(err, "%s is not an absolute path", passphrase_variable);
    if (fd < 0 || fstat(fd, st) < 0)
        return err_set(err, -ENOKEY, "open the file '%s' that %s names: %s", path, passphrase_variable, strerror(errno));
    if (S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 077))
        return err_set(err, -ENOKEY, "others may read the passphrase in '%s': chmod 600 it", path);
    r = input_read(fd, VAULT_PASSPHRASE_MAX, ret, err);
    if (r == -E2BIG)
        return err_usage(err, "the passphrase in '%s' has more than %d bytes", path, VAULT_PASSPHRASE_MAX);
    return r < 0 ? err_ctx(err, r, "'%s'", path) : 0;
}

static int locked(struct err *err) {
    return err_set(err, -ENOKEY, "the file store is locked: run 'bawn secret unlock', or set %s", passphrase_variable);
}

static int ask_passphrase(const struct vault *v, const char *question, struct secret *ret, struct err *err) {
    int r = v->may_ask ? input_ask(question, VAULT_PASSPHRASE_MAX, ret, err) : -ENXIO;

    if (r == -ENXIO)
        return locked(err);
    if (r == -E2BIG)
        return err_usage(err, "a passphrase has at most %d bytes", VAULT_PASSPHRASE_MAX);
    return r;
}

/* *ret_file: of the file that it came from; untouched if it was typed. */
static int passphrase(const struct vault *v, struct secret *ret, struct stat *ret_file, struct err *err) {
    const char *path = vault_getenv(v, passphrase_variable);
    int r = path ? passphrase_file(path, ret, ret_file, err) : ask_passphrase(v, "Passphrase of Bawn's file store: ", ret, err);

    if (r < 0)
        return r;
    return ret->len ? 0 : err_set(err, -ENOKEY, "the passphrase is empty");
}

static int from_service(const struct sealed_head *h, struct secret *ret, struct err *err) {
    char id[SEALED_ID_TEXT];
    int r;

    if (secret_alloc(ret, SEALED_KEY) < 0)
        return err_oom(err);
    r = service_get(SERVICE_STORE, sealed_id_text(h, id), ret, err);
    if (r == -ENOENT)
        return err_set(err, -ENOKEY,
                       "the key of the file store is no longer in the Secret Service: its values are lost; remove "
                       "secrets.enc and set them again");
    if (r < 0)
        return err_ctx(err, r, "the file store's key");
    return sealed_key_fits(h, ret) ? 0 : err_set(err, -ENOKEY, "the key in the Secret Service is not that of the file store");
}

/* The key may wait in the keyring, if its passphrase was typed. */
static void remember_key(const struct vault *v, const struct sealed_head *h, const struct secret *key) {
    char id[SEALED_ID_TEXT];

    if (h->kind != SEALED_PASSPHRASE || vault_getenv(v, passphrase_variable))
        return;
    (void)keyring_put(sealed_id_text(h, id), key, VAULT_UNLOCKED_S); /* without keyrings the passphrase is asked for each time */
}

static int from_passphrase(const struct vault *v, const struct sealed_head *h, bool skip_keyring, struct secret *ret,
                           struct err *err) {
    CLEANUP(secret_done) struct secret phrase = {0};
    struct stat file = {0};
    int r = passphrase(v, &phrase, &file, err);

    if (r == 0 && !skip_keyring && filekey_recall(h, &file, ret) == 0)
        return 0;
    r = r < 0 ? r : sealed_derive(h, &phrase, ret, err);
    if (r < 0)
        return r;
    if (!sealed_key_fits(h, ret))
        return err_set(err, -ENOKEY, "wrong passphrase");
    remember_key(v, h, ret);
    filekey_remember(h, &file, ret);
    return 0;
}

static int from_keyring(const struct sealed_head *h, struct secret *ret) {
    char id[SEALED_ID_TEXT];

    if (keyring_get(sealed_id_text(h, id), ret) == 0 && sealed_key_fits(h, ret))
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

/* A passphrase that is typed is asked for once in VAULT_UNLOCKED_S, where there is a keyring. -ENOKEY: locked, or a wrong
 * passphrase. ret_key was empty. skip_keyring: proves that the passphrase is known. */
static int unlock_key(const struct vault *v, const struct sealed_head *h, bool skip_keyring, struct secret *ret_key,
                      struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};
    int r;

    if (known_key(v, h, &key) == 0)
        r = 0;
    else if (h->kind == SEALED_SERVICE)
        r = from_service(h, &key, err);
    else
        r = !skip_keyring && from_keyring(h, &key) == 0 ? 0 : from_passphrase(v, h, skip_keyring, &key, err);
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
    r = r < 0 ? r : service_put(SERVICE_STORE, sealed_id_text(&h, id), "Bawn: key of the file store", &key, err);
    if (r < 0)
        return r;
    sealed_set_key(&h, &key);
    *ret = h;
    *ret_key = TAKE(key, (struct secret){0});
    return 0;
}

static int ask_twice(const struct vault *v, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret again = {0};
    int r = ask_passphrase(v, "New passphrase for Bawn's file store: ", ret, err);

    if (r == 0 && ret->len == 0)
        return err_set(err, -ENOKEY, "the passphrase is empty");
    r = r < 0 ? r : ask_passphrase(v, "The same again: ", &again, err);
    if (r < 0)
        return r;
    if (again.len != ret->len || CRYPTO_memcmp(again.p, ret->p, ret->len) != 0)
        return err_set(err, -ENOKEY, "the two passphrases are not the same");
    return 0;
}

static int new_with_passphrase(const struct vault *v, struct sealed_head *ret, struct secret *ret_key, struct err *err) {
    CLEANUP(secret_done) struct secret phrase = {0};
    struct stat file = {0};
    struct sealed_head h;
    int r = vault_getenv(v, passphrase_variable) ? passphrase(v, &phrase, &file, err) : ask_twice(v, &phrase, err);

    r = r < 0 ? r : sealed_new(SEALED_PASSPHRASE, &h, err);
    r = r < 0 ? r : sealed_derive(&h, &phrase, ret_key, err);
    if (r < 0)
        return r;
    sealed_set_key(&h, ret_key);
    filekey_remember(&h, &file, ret_key);
    *ret = h;
    return 0;
}

/* A new store's head and key: the Secret Service if there is one, otherwise a passphrase, typed twice. */
static int unlock_new(const struct vault *v, struct sealed_head *ret, struct secret *ret_key, struct err *err) {
    struct err why = {0};

    if (!vault_getenv(v, passphrase_variable) && new_in_service(ret, ret_key, &why) == 0)
        return 0;
    return new_with_passphrase(v, ret, ret_key, err);
}

/* The new store did not come to be: takes its key out of the Secret Service and the keyring again. */
static void unlock_undo(const struct sealed_head *h) {
    char id[SEALED_ID_TEXT];

    if (h->kind == SEALED_SERVICE)
        (void)service_rm(SERVICE_STORE, sealed_id_text(h, id), NULL);
    else
        (void)filekey_forget(h);
}

/* The file ----------------------------------------------------------------------------------------------------------- */

/* Bytes as they are on disk; 0 of them if there is no store yet. */
static int file_load(const struct vault *v, struct buf *b, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", v->dir, file_name);
    CLEANUP(closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    struct stat st;

    if (!path)
        return err_oom(err);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, -errno, "open '%s'", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, -EPERM, "'%s' must be yours and unreadable for other users: chmod 600 it", path);
    return paths_read_fd(fd, path, SEALED_FILE_MAX, b, err);
}

static int file_head(const struct vault *v, const struct buf *b, struct sealed_head *ret, struct err *err) {
    int r = sealed_head_read(buf_str(b), b->len, ret, err);

    return r < 0 ? err_ctx(err, r, "%s/%s", v->dir, file_name) : 0;
}

/* 1: there is a store, and *ret_head is its head; 0: there is none yet. */
static int file_open(const struct vault *v, struct buf *b, struct sealed_head *ret_head, struct err *err) {
    int r = file_load(v, b, err);

    r = r < 0 || b->len == 0 ? r : file_head(v, b, ret_head, err);
    return r < 0 ? r : b->len > 0;
}

static int file_entries(const struct vault *v, const struct buf *b, const struct secret *key, struct secret *ret,
                        struct err *err) {
    int r = sealed_open(buf_str(b), b->len, key, ret, err);

    return r < 0 ? err_ctx(err, r, "%s/%s", v->dir, file_name) : 0;
}

static int damaged(const struct vault *v, struct err *err) {
    return err_set(err, -EBADMSG, "%s/%s: the file is damaged", v->dir, file_name);
}

static int file_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    CLEANUP(secret_done) struct secret key = {0}, entries = {0};
    struct sealed_head h;
    const char *p;
    size_t len;
    int r = file_open(v, &b, &h, err);

    if (r == 0)
        return -ENOENT;
    r = r < 0 ? r : unlock_key(v, &h, false, &key, err);
    r = r < 0 ? r : file_entries(v, &b, &key, &entries, err);
    if (r < 0)
        return r;
    r = sealed_find(&entries, c->name, &p, &len);
    if (r < 0)
        return r == -ENOENT ? r : damaged(v, err);
    return secret_set(ret, p, len) < 0 ? damaged(v, err) : 0;
}

/* Files of a vault that was killed before its rename. No other vault writes while we have the lock. */
static void sweep_temporaries(const struct vault *v) {
    CLEANUP(freep) char *prefix = str_dupf(".%s.", file_name);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    (void)dir_open_linked(v->dir, &d);
    while (prefix && (e = dir_next(&d)))
        if (str_starts(e->d_name, prefix))
            unlinkat(d.fd, e->d_name, 0);
}

/* A rename is on disk only when the folder is: power may fail right after we have said that it is done. Others see the new file already, so
 * a failure here takes nothing back. */
static int file_replace(const struct vault *v, const struct buf *b, struct err *err) {
    CLEANUP(closep) int dir = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err why = {0};
    int r;

    if (dir < 0)
        return err_sys(err, -errno, "open the folder '%s'", v->dir);
    sweep_temporaries(v);
    r = paths_publish_at(dir, v->dir, file_name, 0600, buf_str(b), b->len, PUBLISH_REPLACE, err);
    if (r == 0 && fsync(dir) < 0 && errno != EINVAL) {
        err_sys(&why, -errno, "write the folder '%s'", v->dir);
        log_err(&why);
    }
    return r;
}

static int change_entries(const struct secret *entries, const struct credential *c, const struct secret *value,
                          struct secret *ret, const struct vault *v, struct err *err) {
    int r = sealed_change(entries, c->name, value, ret);

    if (r == -ENOSPC)
        return err_set(err, r, "the file store is full: it holds %d values", SEALED_ENTRIES_MAX);
    if (r == -ENOMEM)
        return err_oom(err);
    return r < 0 && r != -ENOENT ? damaged(v, err) : r;
}

/* Under the lock; 1: the store is not the one any more that h was read from (new: h was made for). */
static int file_rewrite(const struct vault *v, const struct credential *c, const struct secret *value,
                        const struct sealed_head *h, bool new, const struct secret *key, struct err *err) {
    CLEANUP(buf_done) struct buf now = BUF_INIT(SEALED_FILE_MAX + 1), out = BUF_INIT(SEALED_FILE_MAX + 1);
    CLEANUP(secret_done) struct secret entries = {0}, changed = {0};
    CLEANUP(closep) int lock = -1;
    struct sealed_head there;
    int r = lockfile_take(v->dir, LOCKFILE_STORE, &lock, err);

    r = r < 0 ? r : file_load(v, &now, err);
    if (r < 0)
        return r;
    if (new != (now.len == 0))
        return 1;
    if (!new) {
        r = file_head(v, &now, &there, err);
        if (r == 0 && memcmp(there.id, h->id, sizeof h->id) != 0)
            return 1;
        r = r < 0 ? r : file_entries(v, &now, key, &entries, err);
    }
    r = r < 0 ? r : change_entries(&entries, c, value, &changed, v, err);
    r = r < 0 ? r : sealed_close(h, key, &changed, &out, err);
    r = r < 0 || !value ? r : vault_withdraw(v, c, err);
    return r < 0 ? r : file_replace(v, &out, err);
}

static int try_change(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    CLEANUP(secret_done) struct secret key = {0};
    struct sealed_head h;
    int r = file_open(v, &b, &h, err);
    bool new = r == 0;

    if (new && !value)
        return -ENOENT;
    if (r < 0)
        return r;
    r = new ? unlock_new(v, &h, &key, err) : unlock_key(v, &h, false, &key, err);
    if (r < 0)
        return r;
    r = file_rewrite(v, c, value, &h, new, &key, err);
    if (r != 0 && new)
        unlock_undo(&h);
    if (r == 0 && new)
        remember_key(v, &h, &key);
    return r;
}

static int file_change(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err) {
    for (int i = 0; i < TRIES; i++) {
        int r = try_change(v, c, value, err);

        if (r <= 0)
            return r;
    }
    return err_set(err, -EBUSY, "another process keeps making and removing the file store");
}

const struct store_ops store_file = {.get = file_get, .put = file_change};

int file_unlock(const struct vault *v, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    CLEANUP(secret_done) struct secret key = {0};
    char id[SEALED_ID_TEXT];
    struct sealed_head h;
    int r = file_open(v, &b, &h, err);

    if (r == 0)
        return err_set(err, -ENOKEY, "there is no file store yet: 'bawn secret set' makes it");
    r = r < 0 ? r : unlock_key(v, &h, true, &key, err);
    if (r < 0)
        return r;
    if (h.kind == SEALED_SERVICE) {
        log_line("the key of the file store is in the Secret Service: it is unlocked while that is");
        return 0;
    }
    r = keyring_put(sealed_id_text(&h, id), &key, VAULT_UNLOCKED_S);
    return r < 0 ? err_sys(err, r, "the kernel's keyring cannot be used here (set BAWN_PASSPHRASE_FILE instead)") : 0;
}

/* Where there is no keyring, there is no key in it either. */
static bool is_dropped(int r) {
    return r == 0 || r == -ENOKEY || r == -ENOSYS || r == -EPERM || r == -EACCES;
}

int file_lock(const struct vault *v, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    char id[SEALED_ID_TEXT];
    struct sealed_head h;
    int r = file_open(v, &b, &h, err);

    if (r <= 0)
        return r;
    if (h.kind == SEALED_SERVICE)
        return err_set(err, -ENOKEY, "the key of the file store is in the Secret Service: lock that");
    r = filekey_forget(&h);
    r = is_dropped(r) ? keyring_drop(sealed_id_text(&h, id)) : r;
    return is_dropped(r) ? 0 : err_sys(err, r, "take the key out of the keyring");
}
