/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (request, rules) -> verdict and reason. Pure: no file, no clock, no lookup. The gateway, the broker and `bawn policy explain` ask
 * here, so that what is explained is what is done.
 *
 * Layers. Rules come from several places, the strongest first:
 *
 *     session (what the human answered) > sandbox (--allow, --deny) > settings (networkAllow) > project > user > built-in
 *
 * The first rule that matches, in the first layer that has one, decides; if there is none, the mode does (enum net_mode). But what a
 * weaker layer (sandbox, project, user) denies or asks about, a stronger one allows only if a human said so for this sandbox (session,
 * sandbox) and the rule is about the host as closely (rule_overrules()). Settings, profiles and projects never overrule. Two kinds
 * of layer can only take away: the organisation's, and a project's that the user does not trust. Each of them is asked on its own, and
 * the strictest answer counts. What is in no rule of such a layer passes, unless the layer has a mode.
 *
 * Addresses. After the lookup the address is judged too: one that is not public (addr.h) is denied unless a rule that allows names it
 * (a network no wider than the block that is special: 10.0.0.0/8 or 10.1.2.3, not 0.0.0.0/0), or the rule that allows the host has
 * allow_private. Loopback, the machine's own addresses, link-local addresses and metadata services need a host without wildcard, or the
 * address itself (for metadata and own ones, all of it).
 * 0.0.0.0, multicast and broadcast are never dialled. A rule about addresses never allows a name, but denies what a name leads to if it
 * comes before the rule for the name.
 * Where a rule denies or asks about a host by name, no mode allows an address that a client names itself: it might be that host's.
 *
 * What is not known yet. A question may leave out the port (0), the method and path (NULL) and the address (NULL). The verdict then is
 * the most permissive that can still come, and `needs` says what decides:
 *
 *     name looked up      host                               DENY: do not resolve. Else hand out an address.
 *     connection          host, port                         needs NEEDS_HTTP: look inside and ask about every request.
 *     before dialling     host, port, address                DENY: not this address.
 *     request             host, port, address, method, path
 */
#pragma once

#include "policy/host/http_path.h"
#include "policy/rules/rule.h"

struct buf;

/* Stable: agents and scripts compare the names. verdict.c has a sentence for each, spec/policy.schema.json lists them. */
enum policy_code {
    POLICY_ALLOWED,
    POLICY_ASK,
    POLICY_DENIED_OFF,
    POLICY_DENIED_HOST,
    POLICY_DENIED_PORT,
    POLICY_DENIED_METHOD,
    POLICY_DENIED_PATH,
    POLICY_DENIED_ADDRESS,
    POLICY_DENIED_UNANSWERED,
    POLICY_NOT_HANDED_OUT,
    POLICY_NAME_INVALID,
    POLICY_PATH_INVALID,
    POLICY_BODY_TOO_LARGE,
    POLICY_NAME_MISMATCH,
    POLICY_NOT_TLS,
    POLICY_NOT_HTTP,
    POLICY_NO_ADDRESS,
    POLICY_UNREACHABLE,
    POLICY_NOT_TRUSTED,
    POLICY_CANNOT_LOOK,
    POLICY_SECRET_MISPLACED,
    POLICY_SECRET_UNAVAILABLE,
    POLICY_LOGIN_OUTSIDE,
    POLICY_QUOTA,
    POLICY_CODES
};

struct policy_code_info {
    const char *name; /* "BAWN_NET_DENIED_HOST" */
    const char *help; /* what it means, a sentence */
    const char *hint; /* what the agent can do, a sentence */
};
extern const struct policy_code_info policy_codes[POLICY_CODES];

enum policy_layer_kind {
    LAYER_SESSION,
    LAYER_SANDBOX,
    LAYER_SETTINGS,
    LAYER_PROJECT,
    LAYER_USER,
    LAYER_BUILTIN,
    LAYER_ORGANISATION,
    LAYERS
};
extern const char *const policy_layer_names[LAYERS];

/* The method of a request that opens a WebSocket, which is more than a GET: a rule that allows some methods has to name it. One that
 * denies GET, or asks about it, means it, too. */
#define POLICY_WEBSOCKET "WEBSOCKET"

struct policy_layer {
    bool present;
    bool narrow_only; /* always so for the organisation */
    struct rules rules;
};

struct policy {
    enum net_mode mode; /* as the settings have it; see policy_mode() */
    bool can_ask;       /* the user can be asked; otherwise ask means deny */
    struct policy_layer layers[LAYERS];
    struct addr *own; /* this machine's addresses */
    size_t n_own;
};

/*
 * mode: what the settings name, which counts. NET_UNSET: they name none; then the strongest layer with a "mode" counts, and if there is
 * none either, the built-in groups @registries, @models and @git are allowed and everything else is asked.
 */
int policy_init(struct policy *p, enum net_mode mode, bool can_ask, struct err *err);
void policy_done(struct policy *p);
/* Takes the rules over, replacing those the layer had. */
void policy_set_layer(struct policy *p, enum policy_layer_kind kind, struct rules *rules, bool narrow_only);
int policy_set_own(struct policy *p, const struct addr *own, size_t n, struct err *err); /* copies */

/* The mode that counts, and what it says about hosts in no rule. */
enum net_mode policy_mode(const struct policy *p, enum rule_action *ret_unlisted);

struct policy_request {
    const struct host *host;
    uint16_t port;                /* 0: not known yet */
    bool is_tls;                  /* says how to look inside */
    const char *method;           /* NULL: not known yet */
    const struct http_path *path; /* NULL: not known yet */
    const struct addr *address;   /* after the lookup; NULL: not known yet */
    bool terse;                   /* what is allowed needs no reason and hint: the gate says nothing then */
};

enum { NEEDS_PORT = 1, NEEDS_HTTP = 2, NEEDS_ADDRESS = 4 };

enum policy_look { LOOK_NO, LOOK_HTTP, LOOK_TLS }; /* nothing; read the requests; end the TLS and read them */

struct policy_verdict {
    enum rule_action action;
    enum policy_code code;
    unsigned needs; /* NEEDS_*: what may still change it. The user is not asked before it is 0 or NEEDS_ADDRESS */
    enum policy_look look;
    bool asks_address; /* ASK: also, or only, about where the name leads. Who said yes to the name alone has not seen that */
    uint64_t max_body; /* 0: no limit */
    const struct rule *rule;         /* NULL: the mode, or the address itself, decided */
    const char *layer;               /* "user", "organisation", ...; "mode" or "address" if no rule did */
    char pattern[HOST_TEXT_MAX + 8]; /* the host as the rule has it; "" without rule */
    char reason[700], hint[500];     /* sentences for the agent; nothing in them is as hostile bytes came */
};

void policy_judge(const struct policy *p, const struct policy_request *req, struct policy_verdict *ret);

/* A refusal found elsewhere: name that does not parse, SNI that differs, ... why (may be NULL) goes into the reason. */
void policy_refuse(enum policy_code code, const char *host, const char *why, struct policy_verdict *ret);

/* {"code": ..., "action": ..., "host": ..., "port": ..., "rule": ..., "layer": ..., "reason": ..., "hint": ...}, and "message", by
 * which name clients look for words in an error; NULL: none. */
void policy_verdict_add_json(const struct policy_verdict *v, const char *host, uint16_t port, const char *message, struct buf *b);
