/* SPDX-License-Identifier: Apache-2.0 */
/* Counts connections and refusals by host, for the summary. */
#include "supervisor/network/netcount.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/rules/verdict.h"
#include "proto/gatemsg.h"

enum { LISTED = 10, LINE_MAX_BYTES = 8 * 1024 };

/* One for all keys: what a sandbox asks for need not be a key that there is. No credential has a space in its name. */
static const char not_signed[] = "ssh signature";

void netcount_done(struct netcount *c) {
    free(c->v);
    free(c->secrets);
    *c = (struct netcount){0};
}

static struct netcount_host *find_host(struct netcount *c, const struct gate_msg *m) {
    bool refused = m->kind != GATE_EVENT_END && m->action == RULE_DENY;
    struct netcount_host *h;

    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].port == m->port && str_eq(c->v[i].host, m->host))
            return &c->v[i];
    if (!c->v)
        c->v = calloc(NETCOUNT_HOSTS, sizeof *c->v);
    if (!c->v || c->n == NETCOUNT_HOSTS || (refused && c->n_refused == NETCOUNT_HOSTS / 2))
        return &c->others;
    h = &c->v[c->n++];
    c->n_refused += refused;
    h->port = m->port;
    static_assert(sizeof h->host == sizeof m->host, "a host fits");
    memcpy(h->host, m->host, sizeof h->host);
    return h;
}

static struct netcount_secret *find_secret(struct netcount *c, const char *name, const char *host, bool blocked) {
    struct netcount_secret *s;

    for (size_t i = 0; i < c->n_secrets; i++)
        if (str_eq(c->secrets[i].name, name) && str_eq(c->secrets[i].host, host))
            return &c->secrets[i];
    if (!c->secrets)
        c->secrets = calloc(NETCOUNT_SECRETS, sizeof *c->secrets);
    if (!c->secrets || c->n_secrets == NETCOUNT_SECRETS || (blocked && c->n_blocked == NETCOUNT_SECRETS / 2))
        return NULL;
    s = &c->secrets[c->n_secrets++];
    c->n_blocked += blocked;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->host, sizeof s->host, "%s", host);
    return s;
}

static void count_secret(struct netcount *c, const char *name, const char *host, uint64_t used, uint64_t blocked) {
    struct netcount_secret *s = find_secret(c, name, host, blocked > 0);

    if (s) {
        s->used += used;
        s->blocked += blocked;
    } else {
        c->secrets_left_out++;
    }
}

void netcount_used(struct netcount *c, const char *name, const char *host, uint64_t n) {
    count_secret(c, name, host, n, 0);
}

void netcount_not_signed(struct netcount *c, const char *host) {
    count_secret(c, not_signed, host, 0, 1);
}

/* Allowed, and something outside went wrong: a name without address, a server or a proxy that does not answer, a certificate. */
static bool is_failure(const struct gate_msg *m) {
    return (m->kind == GATE_EVENT_TROUBLE || m->action == RULE_DENY) &&
           (m->code == POLICY_NO_ADDRESS || m->code == POLICY_UNREACHABLE || m->code == POLICY_NOT_TRUSTED);
}

static uint64_t count_refused(struct netcount *c, struct netcount_host *h, const struct gate_msg *m) {
    h->refused++;
    h->code = m->code;
    if (m->code == POLICY_SECRET_MISPLACED && m->secret[0])
        count_secret(c, m->secret, m->host, 0, 1);
    return h == &c->others ? 0 : h->refused;
}

/* Requests to a server that is not trusted are refused one by one; what the gate says about their connection has more words. */
static void count_failed(struct netcount_host *h, const struct gate_msg *m) {
    bool words = m->kind == GATE_EVENT_TROUBLE;

    if (!words || m->code == POLICY_UNREACHABLE || !h->failed)
        h->failed++;
    if (words || !h->failure[0])
        snprintf(h->failure, sizeof h->failure, "%.199s", words ? m->path : policy_codes[m->code].help);
    if (str_ends(h->failure, "."))
        h->failure[strlen(h->failure) - 1] = 0;
}

uint64_t netcount_add(struct netcount *c, const struct gate_msg *m) {
    struct netcount_host *h;

    if (m->kind == GATE_EVENT_TROUBLE && !is_failure(m))
        return 0;
    h = find_host(c, m);
    if (m->kind == GATE_EVENT_END) {
        h->sent += m->sent;
        h->received += m->received;
    } else if (is_failure(m)) {
        count_failed(h, m);
    } else if (m->action == RULE_DENY) {
        return count_refused(c, h, m);
    } else if (m->action == RULE_ALLOW) {
        h->connections += m->kind == GATE_EVENT_CONNECTION;
        h->requests += m->kind == GATE_EVENT_REQUEST;
    }
    return 0;
}

enum net_list { LIST_REACHED, LIST_REFUSED, LIST_FAILED, LISTS };
static const char *const list_names[LISTS] = {"reached", "refused", "failed"};

/* A lookup that was refused says nothing new about a host that was connected to then. */
static bool is_followed(const struct netcount *c, const struct netcount_host *h) {
    for (size_t i = 0; !h->port && i < c->n; i++)
        if (c->v[i].port && str_eq(c->v[i].host, h->host))
            return true;
    return false;
}

static bool is_listed(const struct netcount *c, const struct netcount_host *h, enum net_list list) {
    if (list == LIST_FAILED)
        return h->failed > 0;
    return list == LIST_REFUSED ? h->refused > 0 && (h == &c->others || !is_followed(c, h)) : h->connections || h->requests;
}

static void add_times(uint64_t n, struct buf *b) {
    char count[32];

    format_count(n, count);
    if (n > 1)
        buf_addf(b, " %s times", count);
}

static void add_host(const struct netcount_host *h, enum net_list list, struct buf *b) {
    uint64_t n = h->connections ? h->connections : h->requests;
    char size[24];

    buf_adds(b, h->host[0] ? h->host : "others");
    if (h->port)
        buf_addf(b, ":%" PRIu32, h->port);
    format_size(h->sent + h->received, size);
    if (list == LIST_REACHED) {
        buf_addf(b, " (%" PRIu64 " %s%s, %s)", n, h->connections ? "connection" : "request", n == 1 ? "" : "s", size);
        return;
    }
    buf_adds(b, list == LIST_REFUSED ? " denied" : " not reached");
    add_times(list == LIST_REFUSED ? h->refused : h->failed, b);
    buf_addf(b, " (%s)", list == LIST_REFUSED ? policy_codes[h->code].name : h->failure);
}

/* Returns how many there are; the first of them are in *b. */
static size_t list_hosts(const struct netcount *c, enum net_list list, struct buf *b) {
    size_t n = 0;

    for (size_t i = 0; i <= c->n; i++) {
        const struct netcount_host *h = i < c->n ? &c->v[i] : &c->others;

        if (!is_listed(c, h, list) || n++ >= LISTED)
            continue;
        buf_adds(b, n > 1 ? ", " : "");
        add_host(h, list, b);
    }
    if (n > LISTED)
        buf_addf(b, ", %zu more", n - LISTED);
    return n;
}

/* "anthropic 12 times (api.anthropic.com)" or "placeholder of anthropic at evil.example (3)" */
static void add_secret(const struct netcount_secret *s, bool blocked, struct buf *b) {
    const char *what = str_eq(s->name, not_signed) ? "" : "placeholder of ";

    if (blocked)
        buf_addf(b, "%s%s at %s (%" PRIu64 ")", what, s->name, s->host[0] ? s->host : "an unknown host", s->blocked);
    else
        buf_addf(b, "%s %" PRIu64 " time%s (%s)", s->name, s->used, s->used == 1 ? "" : "s", s->host[0] ? s->host : "commits");
}

static size_t list_secrets(const struct netcount *c, bool blocked, struct buf *b) {
    size_t n = 0;

    for (size_t i = 0; i < c->n_secrets; i++) {
        const struct netcount_secret *s = &c->secrets[i];

        if (!(blocked ? s->blocked : s->used) || n++ >= LISTED)
            continue;
        buf_adds(b, n > 1 ? ", " : "");
        add_secret(s, blocked, b);
    }
    if (n > LISTED)
        buf_addf(b, ", %zu more", n - LISTED);
    return n;
}

static void report_secrets(const struct netcount *c) {
    CLEANUP(buf_done) struct buf used = BUF_INIT(LINE_MAX_BYTES), blocked = BUF_INIT(LINE_MAX_BYTES);

    if (list_secrets(c, false, &used) > 0)
        log_note("credentials: %s", buf_str(&used));
    if (list_secrets(c, true, &blocked) > 0)
        log_note("blocked: %s", buf_str(&blocked));
    if (c->secrets_left_out)
        log_note("credentials: %" PRIu64 " more %s; see 'bawn policy log'", c->secrets_left_out,
                 str_plural(c->secrets_left_out, "use or blocked placeholder", "uses or blocked placeholders"));
}

void netcount_report(const struct netcount *c) {
    struct buf lists[LISTS] = {BUF_INIT(LINE_MAX_BYTES), BUF_INIT(LINE_MAX_BYTES), BUF_INIT(LINE_MAX_BYTES)};
    size_t n[LISTS];

    report_secrets(c);
    for (enum net_list i = 0; i < LISTS; i++)
        n[i] = list_hosts(c, i, &lists[i]);
    if (n[LIST_REFUSED])
        log_note("network: %s; see 'bawn policy log'", buf_str(&lists[LIST_REFUSED]));
    if (n[LIST_FAILED])
        log_note("network: %s", buf_str(&lists[LIST_FAILED]));
    if (n[LIST_REACHED] && n[LIST_REFUSED] + n[LIST_FAILED])
        log_note("network: reached %s", buf_str(&lists[LIST_REACHED]));
    for (enum net_list i = 0; i < LISTS; i++)
        buf_done(&lists[i]);
}

static void json_hosts(const struct netcount *c, enum net_list list, struct jsonout *j) {
    jsonout_open(j, list_names[list], '[');
    for (size_t i = 0; i <= c->n; i++) {
        const struct netcount_host *h = i < c->n ? &c->v[i] : &c->others;

        if (!is_listed(c, h, list))
            continue;
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "host", i < c->n ? h->host : NULL);
        jsonout_u64(j, "port", h->port);
        if (list == LIST_REFUSED) {
            jsonout_u64(j, "count", h->refused);
            jsonout_text(j, "code", policy_codes[h->code].name);
        } else if (list == LIST_FAILED) {
            jsonout_u64(j, "count", h->failed);
            jsonout_text(j, "reason", h->failure);
        } else {
            jsonout_u64(j, "connections", h->connections);
            jsonout_u64(j, "requests", h->requests);
            jsonout_u64(j, "sent", h->sent);
            jsonout_u64(j, "received", h->received);
        }
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
}

static void json_secrets(const struct netcount *c, struct jsonout *j) {
    jsonout_open(j, "secrets", '[');
    for (size_t i = 0; i < c->n_secrets; i++) {
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "name", c->secrets[i].name);
        jsonout_text(j, "host", c->secrets[i].host);
        jsonout_u64(j, "used", c->secrets[i].used);
        jsonout_u64(j, "blocked", c->secrets[i].blocked);
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
}

void netcount_json(const struct netcount *c, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    for (enum net_list i = 0; i < LISTS; i++)
        json_hosts(c, i, &j);
    json_secrets(c, &j);
    jsonout_close(&j, '}');
}
