/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages of the ssh-agent protocol. */
#include "proto/ssh_agent.h"

#include <errno.h>

enum { SSH2_MSG_USERAUTH_REQUEST = 50, LENGTH = 4 };

static const char bind_name[] = "session-bind@openssh.com";
static const char sshsig_magic[] = "SSHSIG";

long ssh_agent_frame(const uint8_t *data, size_t len) {
    struct ssh_reader r = ssh_reader_of(data, len);
    uint32_t n = ssh_get_u32(&r);

    if (r.bad)
        return 0;
    if (n == 0 || n > SSH_AGENT_MESSAGE_MAX)
        return -EMSGSIZE;
    return len - LENGTH >= n ? (long)n + LENGTH : 0;
}

int ssh_bind_parse(struct ssh_bytes payload, struct ssh_bind *ret) {
    struct ssh_reader r = ssh_reader_of(payload.p, payload.len);
    struct ssh_bind b = {.host_key = ssh_get_string(&r)};

    b.session = ssh_get_string(&r);
    b.signature = ssh_get_string(&r);
    b.forwarding = ssh_get_bool(&r);
    if (!ssh_end(&r) || !b.host_key.len || !b.session.len || !b.signature.len)
        return -EBADMSG;
    *ret = b;
    return 0;
}

int ssh_sign_parse(struct ssh_bytes payload, struct ssh_sign *ret) {
    struct ssh_reader r = ssh_reader_of(payload.p, payload.len);
    struct ssh_sign s = {.key = ssh_get_string(&r)};

    s.data = ssh_get_string(&r);
    s.flags = ssh_get_u32(&r);
    if (!ssh_end(&r) || !s.key.len || (s.flags & ~(uint32_t)(SSH_AGENT_RSA_SHA2_256 | SSH_AGENT_RSA_SHA2_512)))
        return -EBADMSG;
    *ret = s;
    return 0;
}

static int parse_list(struct ssh_reader *r, struct ssh_agent_request *q UNUSED) {
    return r->left ? -EBADMSG : 0;
}

static int parse_sign(struct ssh_reader *r, struct ssh_agent_request *q) {
    q->payload = (struct ssh_bytes){r->p, r->left};
    return ssh_sign_parse(q->payload, &q->sign);
}

static int parse_extension(struct ssh_reader *r, struct ssh_agent_request *q) {
    struct ssh_bytes name = ssh_get_string(r);

    if (r->bad)
        return -EBADMSG;
    if (!ssh_is(name, bind_name))
        return -EOPNOTSUPP;
    q->payload = (struct ssh_bytes){r->p, r->left};
    return ssh_bind_parse(q->payload, &q->bind);
}

static const struct {
    uint8_t type;
    int (*parse)(struct ssh_reader *r, struct ssh_agent_request *q);
} messages[] = {
    {SSH_AGENTC_REQUEST_IDENTITIES, parse_list},
    {SSH_AGENTC_SIGN_REQUEST, parse_sign},
    {SSH_AGENTC_EXTENSION, parse_extension},
};

int ssh_agent_parse(const uint8_t *msg, size_t len, struct ssh_agent_request *ret) {
    struct ssh_reader r = ssh_reader_of(msg, len);
    struct ssh_agent_request q = {.type = ssh_get_u8(&r)};
    int n = -EOPNOTSUPP;

    for (size_t i = 0; i < ARRAY_LEN(messages); i++)
        if (messages[i].type == q.type)
            n = messages[i].parse(&r, &q);
    if (n == 0)
        *ret = q;
    return n;
}

int ssh_identities_begin(const uint8_t *msg, size_t len, struct ssh_identities *ret) {
    struct ssh_identities i = {.r = ssh_reader_of(msg, len)};
    uint8_t type = ssh_get_u8(&i.r);

    i.left = ssh_get_u32(&i.r);
    if (i.r.bad || type != SSH_AGENT_IDENTITIES_ANSWER || i.left > SSH_AGENT_KEYS_MAX)
        return -EBADMSG;
    *ret = i;
    return 0;
}

int ssh_identities_next(struct ssh_identities *i, struct ssh_identity *ret) {
    struct ssh_identity id;

    if (!i->left)
        return ssh_end(&i->r) ? 0 : -EBADMSG;
    id.key = ssh_get_string(&i->r);
    id.comment = ssh_get_string(&i->r);
    if (i->r.bad)
        return -EBADMSG;
    i->left--;
    *ret = id;
    return 1;
}

struct ssh_bytes ssh_key_type(struct ssh_bytes key) {
    struct ssh_reader r = ssh_reader_of(key.p, key.len);

    return ssh_get_string(&r);
}

int ssh_userauth_parse(struct ssh_bytes data, struct ssh_userauth *ret) {
    struct ssh_reader r = ssh_reader_of(data.p, data.len);
    struct ssh_userauth u = {.session = ssh_get_string(&r)};
    uint8_t type = ssh_get_u8(&r);
    struct ssh_bytes service, method;
    bool signs, bound;

    u.user = ssh_get_string(&r);
    service = ssh_get_string(&r);
    method = ssh_get_string(&r);
    signs = ssh_get_bool(&r);
    u.algorithm = ssh_get_string(&r);
    u.key = ssh_get_string(&r);
    if (r.bad)
        return -EBADMSG;
    bound = ssh_is(method, "publickey-hostbound-v00@openssh.com");
    if (bound)
        u.host_key = ssh_get_string(&r);
    if (!ssh_end(&r) || type != SSH2_MSG_USERAUTH_REQUEST || !signs || !u.session.len)
        return -EBADMSG;
    if (!ssh_is(service, "ssh-connection") || (!bound && !ssh_is(method, "publickey")) || (bound && !u.host_key.len))
        return -EBADMSG;
    *ret = u;
    return 0;
}

int ssh_sshsig_parse(struct ssh_bytes data, struct ssh_sshsig *ret) {
    const size_t magic = sizeof sshsig_magic - 1;
    struct ssh_sshsig s;
    struct ssh_reader r;
    struct ssh_bytes reserved, digest;

    if (data.len < magic || memcmp(data.p, sshsig_magic, magic) != 0)
        return -EBADMSG;
    r = ssh_reader_of(data.p + magic, data.len - magic);
    s.purpose = ssh_get_string(&r);
    reserved = ssh_get_string(&r);
    s.hash = ssh_get_string(&r);
    digest = ssh_get_string(&r);
    if (!ssh_end(&r) || reserved.len || !s.purpose.len)
        return -EBADMSG;
    if (!(ssh_is(s.hash, "sha256") && digest.len == 32) && !(ssh_is(s.hash, "sha512") && digest.len == 64))
        return -EBADMSG;
    *ret = s;
    return 0;
}
