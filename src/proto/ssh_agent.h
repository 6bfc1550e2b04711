/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of ssh-agent (draft-miller-ssh-agent; OpenSSH's PROTOCOL.agent) as far as Bawn lets it through: list keys, sign,
 * and session-bind@openssh.com. Every other message is not known here, and its sender is answered SSH_AGENT_FAILURE: add,
 * remove, lock, smartcards and PKCS#11 (ATTACKS 76: the agent loads a library of the sender's choice, CVE-2023-38408).
 *
 * And what a key is asked to sign, because an agent that signs whatever comes is as good as the key:
 *
 *     userauth    "log me in": RFC 4252, section 7, and publickey-hostbound-v00@openssh.com; names the session
 *     SSHSIG      PROTOCOL.sshsig, how git signs commits; names a purpose
 */
#pragma once

#include "proto/ssh_wire.h"

enum {
    SSH_AGENT_MESSAGE_MAX = 256 * 1024, /* as OpenSSH has it */
    SSH_AGENT_KEYS_MAX = 2048,
    SSH_AGENT_FAILURE = 5,
    SSH_AGENT_SUCCESS = 6,
    SSH_AGENTC_REQUEST_IDENTITIES = 11,
    SSH_AGENT_IDENTITIES_ANSWER = 12,
    SSH_AGENTC_SIGN_REQUEST = 13,
    SSH_AGENT_SIGN_RESPONSE = 14,
    SSH_AGENTC_EXTENSION = 27,
    SSH_AGENT_RSA_SHA2_256 = 2, /* flags of SIGN_REQUEST; 1 is older than SHA-2 and in no use */
    SSH_AGENT_RSA_SHA2_512 = 4
};

/* A message is 4 bytes length and so many bytes. How many bytes the first one takes with its length; 0: more have to come;
 * -EMSGSIZE: it is empty or longer than SSH_AGENT_MESSAGE_MAX. */
long ssh_agent_frame(const uint8_t *data, size_t len);

/* The payload of session-bind@openssh.com: host_key signed session, which is what proves that session is with that host. */
struct ssh_bind {
    struct ssh_bytes host_key, session, signature;
    bool forwarding;
};

struct ssh_sign {
    struct ssh_bytes key, data;
    uint32_t flags;
};

struct ssh_agent_request {
    uint8_t type;             /* REQUEST_IDENTITIES, SIGN_REQUEST, or EXTENSION, which is always a bind */
    struct ssh_bytes payload; /* behind the type; EXTENSION: behind the extension's name */
    struct ssh_sign sign;
    struct ssh_bind bind;
};

/* A message without its length. -EOPNOTSUPP: one that is not let through. -EBADMSG: broken. Points into msg. */
int ssh_agent_parse(const uint8_t *msg, size_t len, struct ssh_agent_request *ret);
int ssh_bind_parse(struct ssh_bytes payload, struct ssh_bind *ret); /* -EBADMSG */
int ssh_sign_parse(struct ssh_bytes payload, struct ssh_sign *ret); /* -EBADMSG; also for unknown flags */

/* The keys of an IDENTITIES_ANSWER (without its length), one after the other. */
struct ssh_identity {
    struct ssh_bytes key, comment;
};
struct ssh_identities {
    struct ssh_reader r;
    uint32_t left;
};
int ssh_identities_begin(const uint8_t *msg, size_t len, struct ssh_identities *ret); /* -EBADMSG */
int ssh_identities_next(struct ssh_identities *i, struct ssh_identity *ret);          /* 1, 0: that was all, -EBADMSG */

/* Its name: "ssh-ed25519". Empty if it is no key. */
struct ssh_bytes ssh_key_type(struct ssh_bytes key);

struct ssh_userauth {
    struct ssh_bytes session, user, algorithm, key;
    struct ssh_bytes host_key; /* of the hostbound kind; empty otherwise */
};
int ssh_userauth_parse(struct ssh_bytes data, struct ssh_userauth *ret); /* -EBADMSG: it is something else */

struct ssh_sshsig {
    struct ssh_bytes purpose, hash; /* "namespace"; name of the hash */
};
int ssh_sshsig_parse(struct ssh_bytes data, struct ssh_sshsig *ret); /* -EBADMSG: it is something else */
