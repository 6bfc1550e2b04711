/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the dashboard, in memory: they end with bawnd.
 *
 * `bawn dashboard` asks for a link, as a tenant. Its code opens one session, within LINK_NS. A session has two secrets. The cookie is one that
 * no script can read; but browsers send a cookie to every port of a host, and a port that a sandbox published is one of them. So the cookie
 * alone is worth nothing: every request must also have the second secret, which the page has in the storage of its own origin, port included.
 *
 * Only hashes are stored. A session has the rights of its link's maker, but only reads what administrators see, and makes no links.
 */
#pragma once

#include "base/sha256.h"
#include "service/core/ledger.h"

struct core;
struct api_call;
struct tenant;

#define LINK_NS (120 * UINT64_C(1000000000))
#define SESSION_NS (12 * 3600 * UINT64_C(1000000000))
enum { LINKS_MAX = 128, LINKS_OF_TENANT = 8, SESSIONS_MAX = 512, SESSIONS_OF_TENANT = 16 };

struct core_pass {
    char tenant[TENANT_NAME_MAX + 1]; /* "": the place is free */
    uint64_t number;                  /* of the tenant: a later one of the same name is another */
    bool admin;
    uint64_t expires_ns, begun_ns;
    uint64_t until_ns;       /* the end of the token that it came from; 0: none */
    char token[RANDID_SIZE]; /* that token; "": the socket */
    unsigned char hash[SHA256_LEN], csrf[SHA256_LEN];
};

struct core_sessions {
    struct core_pass links[LINKS_MAX], sessions[SESSIONS_MAX];
};

/* A new one-time code for who called. code is zeroed by the caller. -EBUSY: no room */
int session_link(struct core *c, const struct api_call *call, char code[static TOKEN_SIZE], uint64_t *ret_expires_ns);
/* Uses up a code. 1 with the session and its secrets, 0: it is not valid (any more), -errno */
int session_open(struct core *c, const char *code, size_t len, char cookie[static TOKEN_SIZE], char csrf[static TOKEN_SIZE],
                 struct core_pass *ret);
/* Fills in tenant and admin of a call that has the two secrets. 1, or 0: they are not valid */
int session_find(struct core *c, struct api_call *call);
/* What a session must not do, although its tenant or administrator may. */
bool session_forbids(const struct api_call *call);
void session_sign_out(struct core *c, const struct api_call *call);
/* All that came from a token, which was removed. */
void session_end_token(struct core *c, const char *token);
/* Where browsers reach the service: "http://127.0.0.1:7070". false: nowhere */
bool session_address(const struct core *c, char *ret, size_t size);
