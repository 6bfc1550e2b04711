/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the file store: encryption, and the entries in it. */
#include "vault/sealed.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "policy/credential/credential.h"

enum { ENTRY_HEAD = 2 + 4 };

static const char magic[8] = {'B', 'A', 'W', 'N', 'S', 'E', 'C', '1'};

static int draw_bytes(void *p, size_t len, struct err *err) {
    return RAND_bytes(p, (int)len) == 1 ? 0 : err_set(err, -EIO, "OpenSSL has no random bytes");
}

int sealed_new(enum sealed_kind kind, struct sealed_head *ret, struct err *err) {
    struct sealed_head h = {.kind = (uint8_t)kind, .log_n = SEALED_LOG_N, .r = SEALED_R, .p = SEALED_P};
    int r = draw_bytes(h.id, sizeof h.id, err);

    r = r < 0 ? r : draw_bytes(h.salt, sizeof h.salt, err);
    if (r < 0)
        return r;
    memcpy(h.magic, magic, sizeof magic);
    *ret = h;
    return 0;
}

const char *sealed_id_text(const struct sealed_head *h, char out[static SEALED_ID_TEXT]) {
    hex_encode(h->id, sizeof h->id, out);
    return out;
}

int sealed_head_read(const char *bytes, size_t len, struct sealed_head *ret, struct err *err) {
    static const uint8_t zero[sizeof ret->zero];
    struct sealed_head h;

    if (len < sizeof h + SEALED_TAG || len > SEALED_FILE_MAX || memcmp(bytes, magic, sizeof magic) != 0)
        return err_set(err, -EBADMSG, "the file is damaged, or not a store of Bawn");
    memcpy(&h, bytes, sizeof h);
    if ((h.kind != SEALED_PASSPHRASE && h.kind != SEALED_SERVICE) || h.log_n < SEALED_LOG_N_MIN || h.log_n > SEALED_LOG_N_MAX ||
        h.r != SEALED_R || h.p != SEALED_P || memcmp(h.zero, zero, sizeof zero) != 0)
        return err_set(err, -EBADMSG, "the file is damaged, or a newer Bawn made it");
    *ret = h;
    return 0;
}

int sealed_random_key(struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};

    if (secret_alloc(&key, SEALED_KEY) < 0)
        return err_oom(err);
    if (RAND_priv_bytes((unsigned char *)key.p, SEALED_KEY) != 1)
        return err_set(err, -EIO, "OpenSSL has no random bytes");
    key.len = SEALED_KEY;
    *ret = TAKE(key, (struct secret){0});
    return 0;
}

static int scrypt(const struct sealed_head *h, const struct secret *passphrase, unsigned char *out) {
    uint64_t n = (uint64_t)1 << h->log_n, memory = 2 * (128 * n * SEALED_R);
    uint32_t r = h->r, p = h->p;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PASSWORD, passphrase->p, passphrase->len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)h->salt, sizeof h->salt),
        OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_N, &n),
        OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_R, &r),
        OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_P, &p),
        OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_MAXMEM, &memory),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "SCRYPT", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    bool ok = ctx && EVP_KDF_derive(ctx, out, SEALED_KEY, params) == 1;

    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok ? 0 : -EIO;
}

int sealed_derive(const struct sealed_head *h, const struct secret *passphrase, struct secret *ret_key, struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};

    if (secret_alloc(&key, SEALED_KEY) < 0)
        return err_oom(err);
    if (scrypt(h, passphrase, (unsigned char *)key.p) < 0)
        return err_set(err, -EIO, "OpenSSL cannot make a key from the passphrase: it needs %u MiB of memory",
                       128u << h->log_n >> 17);
    key.len = SEALED_KEY;
    *ret_key = TAKE(key, (struct secret){0});
    return 0;
}

/* One way, and the key has 256 bits: the file gives away nothing that the passphrase's scrypt does not guard. */
static void check_of(const struct sealed_head *h, const struct secret *key, uint8_t out[static SEALED_CHECK]) {
    static const char domain[] = "bawn file store: key check";
    unsigned char digest[SHA256_LEN];
    struct sha256 hash;

    sha256_init(&hash);
    sha256_add(&hash, domain, sizeof domain);
    sha256_add(&hash, h->id, sizeof h->id);
    sha256_add(&hash, key->p, key->len);
    sha256_end(&hash, digest);
    memcpy(out, digest, SEALED_CHECK);
    explicit_bzero(&hash, sizeof hash);
    explicit_bzero(digest, sizeof digest);
}

void sealed_set_key(struct sealed_head *h, const struct secret *key) {
    check_of(h, key, h->check);
}

bool sealed_key_fits(const struct sealed_head *h, const struct secret *key) {
    uint8_t check[SEALED_CHECK];

    if (key->len != SEALED_KEY)
        return false;
    check_of(h, key, check);
    return CRYPTO_memcmp(check, h->check, sizeof check) == 0;
}

/* GCM in one go, either way; in and out have len bytes. Opening: -EBADMSG. */
static int gcm(const struct sealed_head *h, const struct secret *key, bool close, const char *in, size_t len, char *out,
               unsigned char tag[static SEALED_TAG]) {
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n, aad = (int)sizeof *h;
    bool ok = ctx && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, (const unsigned char *)key->p, h->nonce, close) == 1 &&
              EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)h, aad) == 1 &&
              EVP_CipherUpdate(ctx, (unsigned char *)out, &n, (const unsigned char *)in, (int)len) == 1 && n == (int)len;

    if (ok && !close)
        ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, SEALED_TAG, tag) == 1;
    ok = ok && EVP_CipherFinal_ex(ctx, (unsigned char *)out + len, &n) == 1;
    if (ok && close)
        ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, SEALED_TAG, tag) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return ok ? 0 : -EBADMSG;
}

int sealed_open(const char *bytes, size_t len, const struct secret *key, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret s = {0};
    struct sealed_head h;
    unsigned char tag[SEALED_TAG];
    int r = sealed_head_read(bytes, len, &h, err);

    if (r < 0)
        return r;
    if (secret_alloc(&s, len) < 0)
        return err_oom(err);
    memcpy(tag, bytes + len - SEALED_TAG, SEALED_TAG);
    s.len = len - sizeof h - SEALED_TAG;
    if (key->len != SEALED_KEY || gcm(&h, key, false, bytes + sizeof h, s.len, s.p, tag) < 0)
        return err_set(err, -EBADMSG, "the file is damaged: some of its bytes have changed");
    *ret = TAKE(s, (struct secret){0});
    return 0;
}

int sealed_close(const struct sealed_head *h, const struct secret *key, const struct secret *entries, struct buf *out,
                 struct err *err) {
    CLEANUP(secret_done) struct secret hidden = {0};
    struct sealed_head fresh = *h;
    unsigned char tag[SEALED_TAG];
    int r = draw_bytes(fresh.nonce, sizeof fresh.nonce, err);

    if (r < 0)
        return r;
    if (entries->len > SEALED_PLAIN_MAX)
        return err_set(err, -E2BIG, "the file store is full");
    if (secret_alloc(&hidden, entries->len + EVP_MAX_BLOCK_LENGTH) < 0)
        return err_oom(err);
    if (key->len != SEALED_KEY || gcm(&fresh, key, true, entries->p ? entries->p : "", entries->len, hidden.p, tag) < 0)
        return err_set(err, -EIO, "OpenSSL cannot encrypt the store");
    buf_add(out, &fresh, sizeof fresh);
    buf_add(out, hidden.p, entries->len);
    buf_add(out, tag, sizeof tag);
    return buf_ok(out) ? 0 : err_oom(err);
}

/* Entries ---------------------------------------------------------------------------------------------------------- */

struct sealed_entry {
    const char *name, *value;
    size_t name_len, value_len, size; /* size: of all of it */
};

static int entry_at(const struct secret *s, size_t at, struct sealed_entry *ret) {
    const uint8_t *p = (const uint8_t *)s->p + at;
    size_t left = s->len - at;
    struct sealed_entry e;

    if (left < ENTRY_HEAD)
        return -EBADMSG;
    e.name_len = (size_t)p[0] | (size_t)p[1] << 8;
    e.value_len = (size_t)p[2] | (size_t)p[3] << 8 | (size_t)p[4] << 16 | (size_t)p[5] << 24;
    left -= ENTRY_HEAD;
    if (e.name_len > CREDENTIAL_NAME_MAX || e.name_len > left || e.value_len > left - e.name_len)
        return -EBADMSG;
    e.name = (const char *)p + ENTRY_HEAD;
    e.value = e.name + e.name_len;
    e.size = ENTRY_HEAD + e.name_len + e.value_len;
    *ret = e;
    return 0;
}

static bool is_named(const struct sealed_entry *e, const char *name) {
    return strlen(name) == e->name_len && memcmp(name, e->name, e->name_len) == 0;
}

int sealed_find(const struct secret *entries, const char *name, const char **ret, size_t *ret_len) {
    struct sealed_entry e;

    for (size_t at = 0; at < entries->len; at += e.size) {
        int r = entry_at(entries, at, &e);

        if (r < 0)
            return r;
        if (!is_named(&e, name))
            continue;
        *ret = e.value;
        *ret_len = e.value_len;
        return 0;
    }
    return -ENOENT;
}

/* All but this name; how many of them, or -errno. */
static int copy_others(const struct secret *from, const char *name, struct secret *to) {
    struct sealed_entry e;
    int n = 0;

    for (size_t at = 0; at < from->len; at += e.size) {
        int r = entry_at(from, at, &e);

        if (r < 0)
            return r;
        if (is_named(&e, name))
            continue;
        memcpy(to->p + to->len, from->p + at, e.size);
        to->len += e.size;
        n++;
    }
    return n;
}

static void append_entry(struct secret *to, const char *name, const struct secret *value) {
    size_t name_len = strlen(name);
    uint8_t head[ENTRY_HEAD] = {(uint8_t)name_len, (uint8_t)(name_len >> 8)};

    for (int i = 0; i < 4; i++)
        head[2 + i] = (uint8_t)(value->len >> 8 * i);
    memcpy(to->p + to->len, head, sizeof head);
    memcpy(to->p + to->len + sizeof head, name, name_len);
    memcpy(to->p + to->len + sizeof head + name_len, value->p, value->len);
    to->len += sizeof head + name_len + value->len;
}

int sealed_change(const struct secret *entries, const char *name, const struct secret *value, struct secret *ret) {
    CLEANUP(secret_done) struct secret s = {0};
    size_t more = value ? ENTRY_HEAD + strlen(name) + value->len : 0;
    int n;

    if (strlen(name) > CREDENTIAL_NAME_MAX || more > SEALED_PLAIN_MAX)
        return -EINVAL;
    if (secret_alloc(&s, entries->len + more) < 0)
        return -ENOMEM;
    n = copy_others(entries, name, &s);
    if (n < 0)
        return n;
    if (!value && s.len == entries->len)
        return -ENOENT;
    if (value && (n >= SEALED_ENTRIES_MAX || s.len + more > SEALED_PLAIN_MAX))
        return -ENOSPC;
    if (value)
        append_entry(&s, name, value);
    *ret = TAKE(s, (struct secret){0});
    return 0;
}
