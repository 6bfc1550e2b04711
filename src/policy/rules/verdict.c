/* SPDX-License-Identifier: Apache-2.0 */
/* Policies, and the words of a verdict. */
#include "policy/rules/verdict.h"

#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "policy/rules/judge_priv.h"

const char *const policy_layer_names[LAYERS] = {
    [LAYER_SESSION] = "session", [LAYER_SANDBOX] = "sandbox",  [LAYER_SETTINGS] = "settings",         [LAYER_PROJECT] = "project",
    [LAYER_USER] = "user",       [LAYER_BUILTIN] = "built-in", [LAYER_ORGANISATION] = "organisation",
};

#define DO_NOT_RETRY "Trying again does not help. "

const struct policy_code_info policy_codes[POLICY_CODES] = {
    [POLICY_ALLOWED] = {"BAWN_NET_ALLOWED", "The request is allowed.", ""},
    [POLICY_ASK] = {"BAWN_NET_ASK", "The user is asked; the connection waits for the answer.", "Wait for the answer."},
    [POLICY_DENIED_OFF] = {"BAWN_NET_DENIED_OFF", "This sandbox has no network.",
                           "Work without the network. The user can start the sandbox with --network limited or full."},
    [POLICY_DENIED_HOST] = {"BAWN_NET_DENIED_HOST", "The host is denied, or on no list of allowed ones.", NULL},
    [POLICY_DENIED_PORT] = {"BAWN_NET_DENIED_PORT", "The host may be reached, but not on this port.", NULL},
    [POLICY_DENIED_METHOD] = {"BAWN_NET_DENIED_METHOD", "The host may be reached, but not with this HTTP method.", NULL},
    [POLICY_DENIED_PATH] = {"BAWN_NET_DENIED_PATH", "The host may be reached, but not this path on it.", NULL},
    [POLICY_DENIED_ADDRESS] = {"BAWN_NET_DENIED_ADDRESS", "The address is not public, or denied.", NULL},
    [POLICY_DENIED_UNANSWERED] = {"BAWN_NET_DENIED_UNANSWERED",
                                  "The user would have to be asked, and there is no way to ask now.", NULL},
    [POLICY_NOT_HANDED_OUT] = {"BAWN_NET_NOT_HANDED_OUT", "The connection goes to an address that no name was resolved to.",
                               "Connect by name, not by address. If only an address will do, the user can allow it by a rule."},
    [POLICY_NAME_INVALID] = {"BAWN_NET_NAME_INVALID", "The host name has a spelling that is not accepted.",
                             "Use the plain form of the name: small ASCII letters, digits, hyphens and dots."},
    [POLICY_PATH_INVALID] = {"BAWN_NET_PATH_INVALID", "The path has a spelling that servers read differently.",
                             "Use the plain form of the path, without encoded slashes, backslashes or dot segments."},
    [POLICY_BODY_TOO_LARGE] = {"BAWN_NET_BODY_TOO_LARGE", "The body of the request is larger than the rule allows.",
                               "Send less in one request."},
    [POLICY_NAME_MISMATCH] = {"BAWN_NET_NAME_MISMATCH",
                              "The name in the TLS handshake or the Host header is not that of the connection.",
                              "Use one name for the lookup, the TLS server name and the Host header."},
    [POLICY_NOT_TLS] = {"BAWN_NET_NOT_TLS", "The port is for TLS, and the client did not speak it.", "Use https."},
    [POLICY_NOT_HTTP] = {"BAWN_NET_NOT_HTTP", "The rules for this host look at HTTP requests, and the client did not speak HTTP.",
                         "Use HTTP, or ask the user for a rule without methods and paths."},
    [POLICY_NO_ADDRESS] =
        {"BAWN_NET_NO_ADDRESS", "The name is allowed but has no address.",
         "Check the name. It was looked up outside the sandbox, where it does not exist or has no usable address."},
    [POLICY_UNREACHABLE] = {"BAWN_NET_UNREACHABLE", "The host is allowed but could not be reached.",
                            "The connection was tried outside the sandbox. Try again later, or tell the user."},
    [POLICY_NOT_TRUSTED] = {"BAWN_NET_NOT_TRUSTED", "The host is allowed but cannot be used: its TLS is not trusted.",
                            "The connection to the server was made outside the sandbox, where its certificate is checked against "
                            "the host's trust store. Options of the client do not change that."},
    [POLICY_CANNOT_LOOK] = {"BAWN_NET_CANNOT_LOOK",
                            "A rule needs a look inside the TLS, and this sandbox has no certificate authority for that.",
                            "Tell the user: a sandbox that is started now, with the rule in place, has one."},
    [POLICY_SECRET_MISPLACED] =
        {"BAWN_NET_SECRET_MISPLACED",
         "The request has a credential's placeholder where it does not belong: at another host, over plain "
         "HTTP, or in a place that is not the credential's.",
         "Send the placeholder only to the credential's own host, over https, where its client puts it."},
    [POLICY_SECRET_UNAVAILABLE] = {"BAWN_NET_SECRET_UNAVAILABLE", "The request needs a credential that is not available now.",
                                   "Tell the user: 'bawn secret test HOST' says what is wrong with it."},
    [POLICY_LOGIN_OUTSIDE] =
        {"BAWN_NET_LOGIN_OUTSIDE",
         "The request asks for tokens at a place where the user logs in, and logins are done outside the sandbox.",
         "Ask the user to log in outside: 'bawn secret login NAME'. A placeholder can be renewed here."},
    [POLICY_QUOTA] =
        {"BAWN_NET_QUOTA", "As many bytes have left in the last hour as may.",
         "Send less, or try again later: what was sent an hour ago counts no more. The service's administrator sets the quota."},
};

static int default_rules(struct rules *ret, struct err *err) {
    static const char text[] =
        "{\"rules\": [\n"
        "{\"id\": \"registries\", \"action\": \"allow\", \"host\": \"@registries\", \"ports\": [80, 443]},\n"
        "{\"id\": \"models\", \"action\": \"allow\", \"host\": \"@models\", \"ports\": [443]},\n"
        "{\"id\": \"git\", \"action\": \"allow\", \"host\": \"@git\", \"ports\": [22, 443]}]}";

    return rules_read("built-in", text, sizeof text - 1, ret, err);
}

int policy_init(struct policy *p, enum net_mode mode, bool can_ask, struct err *err) {
    CLEANUP(rules_done) struct rules rules = {0};
    int r = mode == NET_UNSET ? default_rules(&rules, err) : 0;

    if (r < 0)
        return r;
    *p = (struct policy){.mode = mode, .can_ask = can_ask};
    if (mode == NET_UNSET)
        policy_set_layer(p, LAYER_BUILTIN, &rules, false);
    return 0;
}

void policy_done(struct policy *p) {
    for (size_t i = 0; i < LAYERS; i++)
        rules_done(&p->layers[i].rules);
    free(p->own);
    *p = (struct policy){0};
}

void policy_set_layer(struct policy *p, enum policy_layer_kind kind, struct rules *rules, bool narrow_only) {
    rules_done(&p->layers[kind].rules);
    p->layers[kind] = (struct policy_layer){
        .present = true,
        .narrow_only = narrow_only || kind == LAYER_ORGANISATION,
        .rules = TAKE(*rules, (struct rules){0}),
    };
}

int policy_set_own(struct policy *p, const struct addr *own, size_t n, struct err *err) {
    struct addr *copy = calloc(n + 1, sizeof *copy);

    if (!copy)
        return err_oom(err);
    if (n)
        memcpy(copy, own, n * sizeof *copy);
    free(p->own);
    p->own = copy;
    p->n_own = n;
    return 0;
}

enum net_mode policy_mode(const struct policy *p, enum rule_action *ret_unlisted) {
    enum net_mode mode = p->mode;
    enum rule_action unlisted = RULE_DENY;

    for (size_t i = 0; i < LAYERS; i++) {
        const struct policy_layer *l = &p->layers[i];

        if (!l->present || l->narrow_only)
            continue;
        if (l->rules.unlisted == RULE_ASK)
            unlisted = RULE_ASK;
        if (p->mode == NET_UNSET && l->rules.mode != NET_UNSET) { /* the strongest one; weaker ones have no say any more */
            mode = l->rules.mode;
            unlisted = l->rules.unlisted;
            break;
        }
    }
    if (p->mode == NET_UNSET && p->layers[LAYER_USER].present && p->layers[LAYER_USER].rules.mode == NET_NONE)
        mode = NET_NONE; /* a project does not overrule that */
    *ret_unlisted = mode == NET_UNSET ? RULE_ASK : unlisted;
    return mode;
}

/* Words without allocation: every connection is judged, and the room is the caller's. What is too long is cut. */
struct verdict_line {
    char *data;
    size_t size, len;
};

static void line_addf(struct verdict_line *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line_addf(struct verdict_line *l, const char *fmt, ...) {
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->data + l->len, l->size - l->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->len = MIN_OF(l->len + (size_t)n, l->size - 1);
}

static void line_adds(struct verdict_line *l, const char *s) {
    size_t n = MIN_OF(strlen(s), l->size - 1 - l->len);

    memcpy(l->data + l->len, s, n);
    l->len += n;
    l->data[l->len] = 0;
}

static void add_ports(struct verdict_line *b, const struct rule *near) {
    if (!near || !near->n_ports)
        return;
    line_adds(b, " (allowed:");
    for (size_t i = 0; i < near->n_ports && i < 8; i++) {
        line_addf(b, "%s %u", i ? "," : "", near->ports[i].first);
        if (near->ports[i].last != near->ports[i].first)
            line_addf(b, "-%u", near->ports[i].last);
    }
    line_adds(b, ")");
}

static void add_strings(struct verdict_line *b, const struct strv *s) {
    if (!s->len)
        return;
    line_adds(b, " (allowed:");
    for (size_t i = 0; i < s->len && i < 8; i++)
        line_addf(b, "%s %.60s", i ? "," : "", s->v[i]);
    line_adds(b, ")");
}

/* A method is the client's own word. */
static const char *method_of(const struct policy_request *req) {
    const char *m = req->method ? req->method : "this method";
    size_t n = strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz- ");

    return m[n] || n > 20 ? "this method" : m;
}

static void add_what(const struct policy_request *req, enum policy_code code, struct verdict_line *b) {
    line_adds(b, req->host->text);
    if (code == POLICY_DENIED_PORT || (code != POLICY_DENIED_HOST && code != POLICY_DENIED_ADDRESS && req->port))
        line_addf(b, req->host->kind == HOST_IPV6 ? ", port %u" : ":%u", req->port);
}

static void add_rule_reason(const struct policy_request *req, const struct verdict_cause *cause, const struct policy_verdict *v,
                            struct verdict_line *b) {
    static const char *const does[RULE_ACTIONS] = {
        [RULE_DENY] = "denies", [RULE_ASK] = "asks the user about", [RULE_ALLOW] = "allows"};

    line_addf(b, "Rule '%s' (%s) %s ", v->rule->id, v->layer, does[v->action]);
    if (v->code == POLICY_DENIED_METHOD)
        line_addf(b, "%s to ", method_of(req));
    if (v->code == POLICY_DENIED_PATH && req->path)
        line_addf(b, "%.120s on ", req->path->text);
    if (v->code == POLICY_DENIED_ADDRESS && req->host->kind == HOST_NAME)
        line_adds(b, "the address of ");
    add_what(req, v->code, b);
    line_adds(b, v->code == POLICY_DENIED_UNANSWERED ? ", and there is no way to ask now." : ".");
    if (cause->over)
        line_addf(b, " Rule '%s' (%s) is %s and does not overrule it.", cause->over->id, policy_layer_names[cause->over_layer],
                  cause->over_layer > LAYER_SANDBOX ? "not said for this sandbox" : "wider");
}

/* The host has a rule, which does not allow this much. */
static void add_near_reason(const struct policy_request *req, const struct verdict_cause *cause, enum policy_code code,
                            struct verdict_line *b) {
    if (code == POLICY_DENIED_PORT) {
        line_addf(b, "Port %u of %s may not be reached", req->port, req->host->text);
        if (cause->near)
            add_ports(b, cause->near);
        else
            line_adds(b, " (allowed: 80, 443)");
    } else if (code == POLICY_DENIED_METHOD) {
        line_addf(b, "%s is not allowed for %s", method_of(req), req->host->text);
        add_strings(b, &cause->near->methods);
    } else {
        line_addf(b, "The path %.120s is not allowed on %s", req->path ? req->path->text : "", req->host->text);
        add_strings(b, &cause->near->paths);
    }
    line_adds(b, ".");
}

/* Without a rule: the address itself, or what no rule had. */
static void add_other_reason(const struct policy_request *req, const struct verdict_cause *cause, const struct policy_verdict *v,
                             struct verdict_line *b) {
    const char *host = req->host->text;

    if (v->code == POLICY_ALLOWED) {
        line_adds(b, "The network mode allows ");
        add_what(req, v->code, b);
        line_adds(b, ".");
    } else if (v->code == POLICY_DENIED_HOST) {
        line_addf(b, "%s is not among the hosts that this sandbox may reach.", host);
    } else if (v->code == POLICY_DENIED_PORT || v->code == POLICY_DENIED_METHOD || v->code == POLICY_DENIED_PATH) {
        add_near_reason(req, cause, v->code, b);
    } else if (v->code == POLICY_DENIED_ADDRESS) {
        line_addf(b, "%s %s %s.", host, req->host->kind == HOST_NAME ? "leads to" : "is", addr_class_names[cause->class]);
    } else if (v->code == POLICY_ASK) {
        line_addf(b, "No rule covers this request to %s; the user is asked.", host);
    } else {
        line_adds(b, policy_codes[v->code].help);
        if (v->code == POLICY_NOT_HANDED_OUT && cause->by_name)
            line_addf(b, " Rule '%s' (%s) is about a host by name, so an address needs a rule of its own.", cause->by_name->id,
                      policy_layer_names[cause->by_name_layer]);
    }
}

/* This machine, and what clouds tell it about itself: how to open that must be the user's own idea. */
static bool is_off_limits(const struct policy_request *req, const struct verdict_cause *cause, const struct policy_verdict *v) {
    const struct host *h = req->host;
    enum addr_class class = v->code == POLICY_DENIED_ADDRESS && !v->rule ? cause->class : ADDR_PUBLIC;

    if (h->kind != HOST_NAME && class == ADDR_PUBLIC)
        class = addr_classify(&h->addr, NULL, 0).class;
    return class == ADDR_METADATA || class == ADDR_OWN || class == ADDR_LOOPBACK || class == ADDR_LINK_LOCAL ||
           class == ADDR_UNSPECIFIED || host_is_metadata(h) || str_eq(h->text, "host.bawn.internal");
}

/* A word of the client's that may stand in a command as it is, and means nothing but itself. */
static bool is_plain(const char *word, const char *more) {
    size_t n = strcspn(word, " ");

    for (size_t i = 0; i < n; i++)
        if (!(word[i] >= 'A' && word[i] <= 'Z') && !(word[i] >= 'a' && word[i] <= 'z') && !strchr(more, word[i]))
            return false;
    return !word[n] && n > 0 && n <= 100;
}

/* Exactly what was asked for, and no more: without a port it would be every port. */
static void add_command(const struct policy_request *req, const struct policy_verdict *v, struct verdict_line *b) {
    const struct host *h = req->host;
    bool private = v->code == POLICY_DENIED_ADDRESS && h->kind == HOST_NAME;

    line_adds(b, DO_NOT_RETRY "If you need it, ask the user to run, outside the sandbox: ");
    line_addf(b, "bawn policy allow %s%s%s:", h->kind == HOST_IPV6 ? "[" : "", h->text, h->kind == HOST_IPV6 ? "]" : "");
    if (req->port)
        line_addf(b, "%u", req->port);
    else
        line_adds(b, "PORT");
    line_adds(b, private ? " --private" : "");
    if (req->method && is_plain(req->method, "-"))
        line_addf(b, " --method %s", req->method);
    if (req->path && is_plain(req->path->text, "/.-_~0123456789"))
        line_addf(b, " --path %s", req->path->text);
}

static void add_hint(const struct policy_request *req, const struct verdict_cause *cause, const struct policy_verdict *v,
                     struct verdict_line *b) {
    if (cause->organisation)
        line_adds(b, DO_NOT_RETRY "The organisation's policy says so; only its administrator can change it.");
    else if (v->action == RULE_DENY && is_off_limits(req, cause, v))
        line_adds(b, DO_NOT_RETRY "A sandbox does not reach this machine or the metadata of a cloud; work without it.");
    else if (policy_codes[v->code].hint)
        line_adds(b, policy_codes[v->code].hint);
    else if (v->rule && v->code != POLICY_DENIED_UNANSWERED)
        line_addf(b, DO_NOT_RETRY "If you need it, ask the user, who can change rule '%s'.", v->rule->id);
    else
        add_command(req, v, b);
}

static void copy_text(struct buf *from, char *to, size_t size) {
    snprintf(to, size, "%s", buf_str(from));
    buf_clear(from);
}

void verdict_explain(const struct policy_request *req, const struct verdict_cause *cause, struct policy_verdict *v) {
    struct verdict_line pattern = {v->pattern, sizeof v->pattern, 0}, reason = {v->reason, sizeof v->reason, 0},
                        hint = {v->hint, sizeof v->hint, 0};

    line_adds(&pattern, cause->pattern ? cause->pattern->text : "");
    if (req->terse && v->action == RULE_ALLOW)
        return;
    if (v->rule)
        add_rule_reason(req, cause, v, &reason);
    else
        add_other_reason(req, cause, v, &reason);
    add_hint(req, cause, v, &hint);
}

void policy_refuse(enum policy_code code, const char *host, const char *why, struct policy_verdict *ret) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    *ret = (struct policy_verdict){.action = RULE_DENY, .code = code, .layer = "mode"};
    if (host && host[0]) {
        buf_add_printable(&b, host);
        buf_adds(&b, ": ");
    }
    buf_adds(&b, policy_codes[code].help);
    if (why) {
        buf_addc(&b, ' ');
        buf_add_printable(&b, why);
        buf_addc(&b, '.');
    }
    copy_text(&b, ret->reason, sizeof ret->reason);
    buf_adds(&b, policy_codes[code].hint ? policy_codes[code].hint : DO_NOT_RETRY);
    copy_text(&b, ret->hint, sizeof ret->hint);
}

void policy_verdict_add_json(const struct policy_verdict *v, const char *host, uint16_t port, const char *message,
                             struct buf *b) {
    struct jsonout j = {.to = b};

    buf_addc(b, '{'); /* not jsonout_open(): what is in front is the caller's */
    jsonout_text(&j, "code", policy_codes[v->code].name);
    jsonout_text(&j, "action", rule_action_names[v->action]);
    jsonout_text(&j, "host", host);
    if (port)
        jsonout_u64(&j, "port", port);
    jsonout_text(&j, "rule", v->rule ? v->rule->id : NULL);
    jsonout_text(&j, "layer", v->layer);
    jsonout_text(&j, "reason", v->reason);
    jsonout_text(&j, "hint", v->hint);
    if (message)
        jsonout_text(&j, "message", message);
    jsonout_close(&j, '}');
}
