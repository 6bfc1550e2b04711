/* SPDX-License-Identifier: Apache-2.0 */
/* Counts connections and refusals by host, for the summary. */
#include "supervisor/network/netcount.h"

#include <inttypes.h>

#include "base/buf.h"
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
    if (!c->secrets || c->n_secrets == NETCOUNT_SECRETS || (blocked && c->n_blocked == NETCOUNT_SECRETS / 2)) {
        c->secrets_left_out++;
        return NULL;
    }
    s = &c->secrets[c->n_secrets++];
    c->n_blocked += blocked;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->host, sizeof s->host, "%s", host);
    return s;
}

void netcount_used(struct netcount *c, const char *name, const char *host, uint64_t n) {
    struct netcount_secret *s = find_secret(c, name, host, false);

    if (s)
        s->used += n;
}

void netcount_not_signed(struct netcount *c, const char *host) {
    struct netcount_secret *s = find_secret(c, not_signed, host, true);

    if (s)
        s->blocked++;
}

static void count_blocked(struct netcount *c, const struct gate_msg *m) {
    struct netcount_secret *s =
        m->code == POLICY_SECRET_MISPLACED && m->secret[0] ? find_secret(c, m->secret, m->host, true) : NULL;

    if (s)
        s->blocked++;
}

void netcount_add(struct netcount *c, const struct gate_msg *m) {
    struct netcount_host *h;
    bool verdict = m->kind == GATE_EVENT_LOOKUP || m->kind == GATE_EVENT_CONNECTION || m->kind == GATE_EVENT_REQUEST;

    if (!verdict && m->kind != GATE_EVENT_END)
        return;
    h = find_host(c, m);
    if (m->kind == GATE_EVENT_END) {
        h->sent += m->sent;
        h->received += m->received;
    } else if (m->action == RULE_DENY) {
        h->refused++;
        h->code = m->code;
        count_blocked(c, m);
    } else if (m->action == RULE_ALLOW) {
        h->connections += m->kind == GATE_EVENT_CONNECTION;
        h->requests += m->kind == GATE_EVENT_REQUEST;
    }
}

static bool was_reached(const struct netcount_host *h) {
    return h->connections || h->requests;
}
static bool was_refused(const struct netcount_host *h) {
    return h->refused;
}

static void add_host_name(const struct netcount_host *h, struct buf *b) {
    buf_adds(b, h->host[0] ? h->host : "others");
    if (h->port)
        buf_addf(b, ":%" PRIu32, h->port);
}

static void add_refused(const struct netcount_host *h, struct buf *b) {
    add_host_name(h, b);
    buf_addf(b, " (%" PRIu64 "x, %s)", h->refused, policy_codes[h->code].name);
}

static void add_reached(const struct netcount_host *h, struct buf *b) {
    uint64_t n = h->connections ? h->connections : h->requests;
    char size[24];

    add_host_name(h, b);
    format_size(h->sent + h->received, size);
    buf_addf(b, " (%" PRIu64 " %s%s, %s)", n, h->connections ? "connection" : "request", n == 1 ? "" : "s", size);
}

typedef bool host_test(const struct netcount_host *h);
typedef void host_print(const struct netcount_host *h, struct buf *b);

/* Returns how many there are; the first of them are in *b. */
static size_t list_hosts(const struct netcount *c, host_test *test, host_print *print, struct buf *b) {
    size_t n = 0;

    for (size_t i = 0; i <= c->n; i++) {
        const struct netcount_host *h = i < c->n ? &c->v[i] : &c->others;

        if (!test(h) || n++ >= LISTED)
            continue;
        buf_adds(b, n > 1 ? ", " : "");
        print(h, b);
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
        log_line("credentials: %s", buf_str(&used));
    if (list_secrets(c, true, &blocked) > 0)
        log_line("blocked: %s", buf_str(&blocked));
    if (c->secrets_left_out)
        log_line("credentials: %" PRIu64 " more uses or blocked placeholders; see 'bawn policy log'", c->secrets_left_out);
}

void netcount_report(const struct netcount *c) {
    CLEANUP(buf_done) struct buf refused = BUF_INIT(LINE_MAX_BYTES), reached = BUF_INIT(LINE_MAX_BYTES);

    report_secrets(c);
    if (list_hosts(c, was_refused, add_refused, &refused) == 0)
        return;
    log_line("network: refused %s; see 'bawn policy log'", buf_str(&refused));
    if (list_hosts(c, was_reached, add_reached, &reached) > 0)
        log_line("network: reached %s", buf_str(&reached));
}

static void json_list(const struct netcount *c, host_test *test, struct buf *out) {
    const char *sep = "";

    buf_addc(out, '[');
    for (size_t i = 0; i <= c->n; i++) {
        const struct netcount_host *h = i < c->n ? &c->v[i] : &c->others;

        if (!test(h))
            continue;
        buf_addf(out, "%s{\"host\":", sep);
        if (i < c->n)
            buf_add_json(out, h->host);
        else
            buf_adds(out, "null");
        buf_addf(out, ",\"port\":%" PRIu32, h->port);
        if (test == was_refused)
            buf_addf(out, ",\"count\":%" PRIu64 ",\"code\":\"%s\"}", h->refused, policy_codes[h->code].name);
        else
            buf_addf(out, ",\"connections\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}",
                     h->connections, h->requests, h->sent, h->received);
        sep = ",";
    }
    buf_addc(out, ']');
}

static void json_secrets(const struct netcount *c, struct buf *out) {
    buf_addc(out, '[');
    for (size_t i = 0; i < c->n_secrets; i++) {
        buf_addf(out, "%s{\"name\":", i ? "," : "");
        buf_add_json(out, c->secrets[i].name);
        buf_adds(out, ",\"host\":");
        buf_add_json(out, c->secrets[i].host);
        buf_addf(out, ",\"used\":%" PRIu64 ",\"blocked\":%" PRIu64 "}", c->secrets[i].used, c->secrets[i].blocked);
    }
    buf_addc(out, ']');
}

void netcount_json(const struct netcount *c, struct buf *out) {
    buf_adds(out, "{\"reached\":");
    json_list(c, was_reached, out);
    buf_adds(out, ",\"refused\":");
    json_list(c, was_refused, out);
    buf_adds(out, ",\"secrets\":");
    json_secrets(c, out);
    buf_addc(out, '}');
}
