/* SPDX-License-Identifier: Apache-2.0 */
/* The file store: secrets.enc, read, changed under a lock, replaced as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/keyring.h"
#include "vault/lockfile.h"
#include "vault/store.h"
#include "vault/unlock.h"

static const char file_name[] = "secrets.enc";
enum { TRIES = 4 }; /* another vault made the store while we asked for its passphrase */

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
    int r = file_load(v, &b, err);

    if (r == 0 && b.len == 0)
        return -ENOENT;
    r = r < 0 ? r : file_head(v, &b, &h, err);
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
    int r = file_load(v, &b, err);
    bool new = b.len == 0;

    if (r == 0 && new && !value)
        return -ENOENT;
    if (r == 0 && !new)
        r = file_head(v, &b, &h, err);
    if (r < 0)
        return r;
    r = new ? unlock_new(v, &h, &key, err) : unlock_key(v, &h, false, &key, err);
    if (r < 0)
        return r;
    r = file_rewrite(v, c, value, &h, new, &key, err);
    if (r != 0 && new)
        unlock_undo(&h);
    if (r == 0 && new)
        unlock_keep(v, &h, &key);
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

static int file_rm(const struct vault *v, const struct credential *c, struct err *err) {
    return file_change(v, c, NULL, err);
}

const struct store_ops store_file = {.get = file_get, .put = file_change, .rm = file_rm};

int file_unlock(const struct vault *v, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    CLEANUP(secret_done) struct secret key = {0};
    char id[SEALED_ID_TEXT];
    struct sealed_head h;
    int r = file_load(v, &b, err);

    if (r == 0 && b.len == 0)
        return err_set(err, -ENOKEY, "there is no file store yet: 'bawn secret set' makes it");
    r = r < 0 ? r : file_head(v, &b, &h, err);
    r = r < 0 ? r : unlock_key(v, &h, true, &key, err);
    if (r < 0)
        return r;
    if (h.kind == SEALED_SERVICE) {
        log_line("the key of the file store is in the Secret Service: it is unlocked while that is");
        return 0;
    }
    sealed_id_text(&h, id);
    r = keyring_put(id, &key, VAULT_UNLOCKED_S);
    return r < 0 ? err_sys(err, r, "the kernel's keyring cannot be used here (set BAWN_PASSPHRASE_FILE instead)") : 0;
}

int file_lock(const struct vault *v, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEALED_FILE_MAX + 1);
    char id[SEALED_ID_TEXT];
    struct sealed_head h;
    int r = file_load(v, &b, err);

    if (r < 0 || b.len == 0)
        return r;
    r = file_head(v, &b, &h, err);
    if (r < 0)
        return r;
    if (h.kind == SEALED_SERVICE)
        return err_set(err, -ENOKEY, "the key of the file store is in the Secret Service: lock that");
    sealed_id_text(&h, id);
    r = keyring_drop(id);
    /* Where there is no keyring, there is no key in it either. */
    return r < 0 && r != -ENOKEY && r != -ENOSYS && r != -EPERM && r != -EACCES
               ? err_sys(err, r, "take the key out of the keyring")
               : 0;
}
