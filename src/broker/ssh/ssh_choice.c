/* SPDX-License-Identifier: Apache-2.0 */
/* Filters the agent's keys by the user's choice. */
#include "broker/ssh/ssh_choice.h"

#include <errno.h>
#include <openssl/evp.h>

#include "base/buf.h"
#include "base/sha256.h"

static const char certificate[] = "-cert-v01@openssh.com";

void ssh_fingerprint(struct ssh_bytes key, char out[static SSH_FINGERPRINT_SIZE]) {
    unsigned char text[4 * ((SHA256_LEN + 2) / 3) + 1], digest[SHA256_LEN];
    int n;

    sha256_of(key.p, key.len, digest);
    n = EVP_EncodeBlock(text, digest, sizeof digest);
    while (n && text[n - 1] == '=')
        n--;
    snprintf(out, SSH_FINGERPRINT_SIZE, "SHA256:%.*s", n, (const char *)text);
}

static bool is_listed(const char *lines, const char *fingerprint, struct ssh_bytes comment) {
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        struct ssh_bytes line = {(const uint8_t *)lines, n};

        if (n && (ssh_is(line, fingerprint) || ssh_same(line, comment)))
            return true;
        lines += n + (lines[n] == '\n');
    }
    return false;
}

/* lines: each a fingerprint or a comment; "": every key. */
static bool ssh_chosen(const char *lines, const struct ssh_identity *id) {
    char fingerprint[SSH_FINGERPRINT_SIZE];
    struct ssh_bytes type = ssh_key_type(id->key);

    if (!type.len || ssh_ends(type, certificate))
        return false;
    ssh_fingerprint(id->key, fingerprint);
    return !*lines || is_listed(lines, fingerprint, id->comment);
}

int ssh_choice_filter(const char *lines, const uint8_t *msg, size_t len, struct buf *out) {
    CLEANUP(buf_done) struct buf keys = BUF_INIT(SSH_AGENT_MESSAGE_MAX);
    struct ssh_identities i;
    struct ssh_identity id;
    uint32_t n = 0;
    int r = ssh_identities_begin(msg, len, &i);

    while (r >= 0 && (r = ssh_identities_next(&i, &id)) > 0) {
        if (!ssh_chosen(lines, &id))
            continue;
        ssh_put_string(&keys, id.key.p, id.key.len);
        ssh_put_string(&keys, id.comment.p, id.comment.len);
        n++;
    }
    if (r < 0)
        return r;
    buf_addc(out, SSH_AGENT_IDENTITIES_ANSWER);
    ssh_put_u32(out, n);
    if (keys.len)
        buf_add(out, keys.data, keys.len);
    return buf_ok(&keys) && buf_ok(out) ? 0 : -ENOMEM;
}

int ssh_choice_has(const char *lines, const uint8_t *msg, size_t len, struct ssh_bytes key) {
    struct ssh_identities i;
    struct ssh_identity id;
    int found = 0, r = ssh_identities_begin(msg, len, &i);

    while (r >= 0 && (r = ssh_identities_next(&i, &id)) > 0)
        if (ssh_same(id.key, key) && ssh_chosen(lines, &id))
            found = 1;
    return r < 0 ? r : found;
}
