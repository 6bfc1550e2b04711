/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the file store: a head in clear, then AES-256-GCM over the entries; the head is authenticated with them, so that
 * no byte of the file can be changed unseen. Pure: no file, no prompt.
 */
#pragma once

#include "base/secret.h"

struct err;
struct buf;

enum {
    SEALED_KEY = 32,
    SEALED_ID = 16,
    SEALED_ID_TEXT = 2 * SEALED_ID + 1,
    SEALED_SALT = 16,
    SEALED_CHECK = 16,
    SEALED_NONCE = 12,
    SEALED_TAG = 16,
    SEALED_ENTRIES_MAX = 128,
    SEALED_PLAIN_MAX = 8 * 1024 * 1024,
    SEALED_FILE_MAX = SEALED_PLAIN_MAX + 1024,
    /* scrypt: 128 MiB and about half a second (OWASP's first choice). A file may ask for less than double that memory, no
     * more. */
    SEALED_LOG_N = 17,
    SEALED_LOG_N_MIN = 10,
    SEALED_LOG_N_MAX = 18,
    SEALED_R = 8,
    SEALED_P = 1
};

enum sealed_kind { SEALED_PASSPHRASE = 1, SEALED_SERVICE = 2 };

struct sealed_head {
    char magic[8];
    uint8_t kind; /* enum sealed_kind */
    uint8_t log_n, r, p;
    uint8_t zero[4];
    uint8_t id[SEALED_ID]; /* names the key in a keyring or the Secret Service */
    uint8_t salt[SEALED_SALT];
    uint8_t check[SEALED_CHECK]; /* of the key: tells a wrong passphrase from a damaged file */
    uint8_t nonce[SEALED_NONCE];
};
static_assert(sizeof(struct sealed_head) == 16 + SEALED_ID + SEALED_SALT + SEALED_CHECK + SEALED_NONCE, "bytes of a file");

/* A new store: random id and salt. */
int sealed_new(enum sealed_kind kind, struct sealed_head *ret, struct err *err);
const char *sealed_id_text(const struct sealed_head *h, char out[static SEALED_ID_TEXT]); /* out */
/* Only what can be seen without a key. */
int sealed_head_read(const char *bytes, size_t len, struct sealed_head *ret, struct err *err);

int sealed_random_key(struct secret *ret, struct err *err); /* ret was empty */
int sealed_derive(const struct sealed_head *h, const struct secret *passphrase, struct secret *ret_key, struct err *err);
void sealed_set_key(struct sealed_head *h, const struct secret *key);
bool sealed_key_fits(const struct sealed_head *h, const struct secret *key);

/* Entries out of a file's bytes; -EBADMSG if one of them was changed. ret was empty. */
int sealed_open(const char *bytes, size_t len, const struct secret *key, struct secret *ret, struct err *err);
/* A file's bytes, with a new nonce. */
int sealed_close(const struct sealed_head *h, const struct secret *key, const struct secret *entries, struct buf *out,
                 struct err *err);

/* Entries: each 2 bytes length of the name, 4 of the value (little end first), name, value. */
int sealed_find(const struct secret *entries, const char *name, const char **ret, size_t *ret_len); /* -ENOENT, -EBADMSG */
/* A copy with this name replaced or added, or without it (value NULL). ret was empty. -ENOENT if there is nothing to leave
 * out. */
int sealed_change(const struct secret *entries, const char *name, const struct secret *value, struct secret *ret);
