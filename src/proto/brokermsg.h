/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The languages of bawn-broker. Whatever is not in its tables, or is not exactly as long as it says, closes the socket.
 *
 * With bawn-gate (descriptor 3): SOCK_SEQPACKET, a struct and len bytes behind it, and as many of these one behind the other as a
 * message of BROKER_MESSAGE_MAX bytes holds: under load many requests cost one system call. Answers come in any order, by id: a value
 * that has to be fetched first lets others pass. The gate reads hostile bytes and may be taken over: the broker judges every request by the
 * policy and the grants that its supervisor gave it, and believes nothing else.
 *
 * With the supervisor (descriptor 5): struct broker_msg, descriptors by SCM_RIGHTS. The supervisor never sees a value: it starts
 * bawn-vault and hands one end of a socket to each of them.
 */
#pragma once

#include "base/macros.h"

enum {
    BROKER_PROTOCOL = 3,
    BROKER_FD_GATE = 3,
    BROKER_FD_CA = 4, /* the folder of a CA; /dev/null if this sandbox has none: then it signs no leaf */
    BROKER_FD_SUPERVISOR = 5,
    BROKER_HOST_MAX = 253,
    BROKER_METHOD_MAX = 32,
    BROKER_DATA_MAX = 64 * 1024,
    BROKER_GRANTS_MAX = 64,    /* GRANTS_MAX, which this layer cannot see; policy/credential/credential_codec.c compares */
    BROKER_PENDING_MAX = 1024, /* requests that wait for a value */
    VAULT_VALUE_MAX = 16 * 1024,
    VAULT_IDENTITY_MAX = 8 * 1024
};

enum broker_request_type {
    BROKER_LEAF = 1, /* host, data: a public key (SubjectPublicKeyInfo, DER, P-256 only). Answer: a certificate (DER) for it */
    BROKER_VALUE, /* index, host, port, method, data: the path. Answer: broker_parts: what goes into the request (a header's value, a
                      * query parameter before URL encoding), and the value itself, for redaction */
    BROKER_SIGV4, /* index, host, port, method, data: a canonical request of AWS's Signature Version 4. Answer: broker_parts: value of
                      * Authorization, value of x-amz-security-token ("": none), key id, secret key (for redaction) */
    BROKER_LOGIN, /* index, host, port of its token endpoint: a client inside redeems the placeholder. Answer: broker_parts: header and payload
                      * of the access token if it is a JWT, those of the id_token, and seconds until it ends; each may be "" */
    BROKER_SSH_KEYS, /* Answer: SSH_AGENT_IDENTITIES_ANSWER without its length, of the keys that are chosen */
    BROKER_SSH_SIGN, /* host, port: a guess where the session goes, to find hashed names of known_hosts by. data: broker_parts: the payload
                      * of session-bind@openssh.com ("": none came), the payload of SSH_AGENTC_SIGN_REQUEST. Answer:
                      * SSH_AGENT_SIGN_RESPONSE without its length */
    BROKER_COVER, /* index, host, port. Answer: broker_parts: what an answer of this host must not tell: the value, how it looks in a
                      * request, ""; SigV4: secret key, session token, key id. Any may be "" */
    BROKER_REQUESTS
};

struct broker_request {
    uint32_t type;
    uint32_t id;
    uint32_t index; /* of the grant */
    uint32_t port;
    uint32_t len; /* of the data behind this */
    char host[BROKER_HOST_MAX + 3];
    char method[BROKER_METHOD_MAX + 4];
};

struct broker_answer {
    uint32_t id;
    int32_t
        status; /* 0, or -errno: -EACCES policy says no; -ENOKEY no value is available; -EKEYEXPIRED log in again; -ETIMEDOUT; -E2BIG */
    uint32_t len; /* of the data behind this */
};

enum { BROKER_MESSAGE_MAX = sizeof(struct broker_request) + BROKER_DATA_MAX };

/* The few failures of a store that the gate tells apart. What fails in another way is a store without value (-ENOKEY): -EACCES would read
 * as if policy had said it. */
int vault_status(int r);

/* broker_parts: each part as 4 bytes length (host order) and the bytes. */
enum { BROKER_PARTS_MAX = 4 };
struct broker_part {
    const char *p;
    size_t len;
};
/* How many bytes, or -E2BIG. */
long broker_parts_write(const struct broker_part *parts, size_t n, uint8_t *out, size_t cap);
int broker_parts_read(const uint8_t *data, size_t len, struct broker_part *ret, size_t n); /* exactly n; -EBADMSG */

enum broker_msg_type {
    /* to the broker */
    BROKER_MSG_CONFIG =
        1,            /* with a memfd: an encoded struct gate_config (policy/gateconf.h); the first message, and at each reload */
    BROKER_MSG_VAULT, /* index, value: errno or 0; with a socket to a bawn-vault: struct vault_value is read from it */
    BROKER_MSG_AGENT, /* with a connection to the user's ssh-agent, or value: errno */
    BROKER_MSG_RENEW, /* index: the user has logged in; the value so far, or why there is none, counts no longer */
    /* from the broker */
    BROKER_MSG_WANT_VALUE, /* index; value 1: the last one was refused or has ended, a cached one is no good */
    BROKER_MSG_WANT_AGENT,
    BROKER_MSG_USED, /* count: how many the like of it. The first one is reported before its answer goes out, the others of the same second together.
                      * index, host, port, method, value: status of the answer. index UINT32_MAX: an ssh key,
                      * whose fingerprint is in `text` */
    /* to the broker */
    BROKER_MSG_FETCH, /* index: a request for this value will come soon; nothing is answered */
    BROKER_MSG_TYPES
};

struct broker_msg {
    uint32_t type;
    uint32_t index;
    int32_t value;
    uint32_t port;
    uint32_t count; /* USED: at least 1 */
    char host[BROKER_HOST_MAX + 3];
    char method[BROKER_METHOD_MAX + 4];
    char text[128];
};

/* From bawn-vault to the broker, one message on a SOCK_SEQPACKET socket: this, len bytes, and identity bytes. */
struct vault_value {
    int32_t status;    /* 0, or -errno as in struct broker_answer */
    uint32_t len;      /* of the value */
    uint32_t identity; /* OAuth: header and payload of the id_token, which say who the user is; 0: none */
    uint32_t unused;
    uint64_t expires; /* CLOCK_REALTIME seconds; 0: while this sandbox lives */
};

/* Of a message from the broker. 0; -EBADMSG: a number is out of range or a string does not end. Makes the strings printable ASCII. */
int brokermsg_sane(struct broker_msg *m);
