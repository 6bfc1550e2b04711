/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers keys by the file that the passphrase is in. */
#include "vault/filekey.h"

#include <errno.h>

#include "base/sha256.h"
#include "os/keyring.h"
#include "vault/vault.h"

/* What is in the keyring. */
struct filekey {
    char key[SEALED_KEY];
    unsigned char file[SHA256_LEN];
};
enum { ID_TEXT = SEALED_ID_TEXT + sizeof "-file" };

static const char *filekey_id(const struct sealed_head *h, char out[static ID_TEXT]) {
    char id[SEALED_ID_TEXT];

    snprintf(out, ID_TEXT, "%s-file", sealed_id_text(h, id));
    return out;
}

/* A change of its content, its owner or its mode changes st_ctim, which no program can set. */
static void file_digest(const struct stat *st, unsigned char out[static SHA256_LEN]) {
    const uint64_t parts[] = {st->st_dev,
                              st->st_ino,
                              (uint64_t)st->st_size,
                              (uint64_t)st->st_mtim.tv_sec,
                              (uint64_t)st->st_mtim.tv_nsec,
                              (uint64_t)st->st_ctim.tv_sec,
                              (uint64_t)st->st_ctim.tv_nsec};
    struct sha256 hash;

    sha256_init(&hash);
    sha256_add(&hash, parts, sizeof parts);
    sha256_end(&hash, out);
}

void filekey_remember(const struct sealed_head *h, const struct stat *file, const struct secret *key) {
    CLEANUP(secret_done) struct secret both = {0};
    char id[ID_TEXT];

    if (!S_ISREG(file->st_mode) || key->len != SEALED_KEY || secret_alloc(&both, sizeof(struct filekey)) < 0)
        return;
    memcpy(both.p, key->p, SEALED_KEY);
    file_digest(file, (unsigned char *)both.p + SEALED_KEY);
    both.len = sizeof(struct filekey);
    (void)keyring_put(filekey_id(h, id), &both, VAULT_FILEKEY_S); /* without keyrings each vault runs scrypt */
}

int filekey_recall(const struct sealed_head *h, const struct stat *file, struct secret *ret_key) {
    CLEANUP(secret_done) struct secret both = {0}, key = {0};
    unsigned char digest[SHA256_LEN];
    char id[ID_TEXT];

    if (!S_ISREG(file->st_mode) || keyring_get(filekey_id(h, id), &both) < 0 || both.len != sizeof(struct filekey))
        return -ENOKEY;
    file_digest(file, digest);
    if (memcmp(both.p + SEALED_KEY, digest, sizeof digest) != 0 || secret_alloc(&key, SEALED_KEY) < 0 ||
        secret_set(&key, both.p, SEALED_KEY) < 0 || !sealed_key_fits(h, &key))
        return -ENOKEY;
    *ret_key = TAKE(key, (struct secret){0});
    return 0;
}

int filekey_forget(const struct sealed_head *h) {
    char id[ID_TEXT];

    return keyring_drop(filekey_id(h, id));
}
