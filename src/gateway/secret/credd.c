/* SPDX-License-Identifier: Apache-2.0 */
/* The socket inside that knows the names of credentials. */
#include "gateway/secret/credd.h"

#include <jansson.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "gateway/net/inlet.h"
#include "os/fd.h"

static const char read_only[] =
    "credentials are managed outside: ask the user to run 'bawn secret set' or 'bawn secret rm' on the host";
static const char stands_for[] =
    "this stands for the value, which is put into requests to these hosts outside of the sandbox; use it as if it were the value";

static struct jsonout begin_answer(struct buf *out, bool ok) {
    struct jsonout j = {.to = out, .compact = true};

    buf_clear(out);
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", ok);
    return j;
}

static void answer_failure(struct buf *out, const char *code, const char *error) {
    struct jsonout j = begin_answer(out, false);

    jsonout_text(&j, "error", error);
    jsonout_text(&j, "code", code);
    jsonout_close(&j, '}');
}

static void add_unless_empty(struct jsonout *j, const char *key, const char *value) {
    if (value && *value)
        jsonout_text(j, key, value);
}

/* Members that are the same in all answers. */
static void add_grant(struct jsonout *j, const struct grant *g) {
    jsonout_text(j, "name", g->c.name);
    jsonout_list(j, "hosts", &g->c.hosts);
    jsonout_list(j, "variables", &g->c.env);
    add_unless_empty(j, "place", g->c.place < CREDENTIAL_PLACES ? credential_place_names[g->c.place] : "");
    add_unless_empty(j, "header", g->c.header);
    add_unless_empty(j, "format", g->c.format);
    add_unless_empty(j, "user", g->c.user);
    add_unless_empty(j, "query", g->c.query);
    add_unless_empty(j, "region", g->c.region);
    add_unless_empty(j, "service", g->c.service);
    if (g->c.token_url)
        jsonout_bool(j, "oauth", true);
}

static const struct grant *find_grant(const struct gate_config *c, json_t *question, struct buf *out) {
    const char *name = json_string_value(json_object_get(question, "name"));

    for (size_t i = 0; name && i < c->n_grants; i++)
        if (str_eq(c->grants[i].c.name, name))
            return &c->grants[i];
    if (name)
        answer_failure(out, "NOT_FOUND", "there is no credential of this name in the sandbox; op \"list\" says which there are");
    else
        answer_failure(out, "BAD_REQUEST", "\"name\" must be a string");
    return NULL;
}

static void answer_list(const struct gate_config *c, json_t *question UNUSED, struct buf *out, char **ret_url UNUSED) {
    struct jsonout j = begin_answer(out, true);

    jsonout_open(&j, "credentials", '[');
    for (size_t i = 0; i < c->n_grants; i++) {
        jsonout_open(&j, NULL, '{');
        add_grant(&j, &c->grants[i]);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
}

static void answer_one(const struct gate_config *c, json_t *question, struct buf *out, bool load) {
    const struct grant *g = find_grant(c, question, out);
    struct jsonout j;

    if (!g)
        return;
    j = begin_answer(out, true);
    add_grant(&j, g);
    if (load) {
        add_unless_empty(&j, "value", g->placeholder);
        add_unless_empty(&j, "secret_key", g->placeholder2);
        jsonout_text(&j, "note", stands_for);
    }
    jsonout_close(&j, '}');
}

static void answer_show(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url UNUSED) {
    answer_one(c, question, out, false);
}

static void answer_load(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url UNUSED) {
    answer_one(c, question, out, true);
}

static void answer_write(const struct gate_config *c UNUSED, json_t *question UNUSED, struct buf *out, char **ret_url UNUSED) {
    answer_failure(out, "READ_ONLY", read_only);
}

static void answer_open(const struct gate_config *c UNUSED, json_t *question, struct buf *out, char **ret_url) {
    const char *url = json_string_value(json_object_get(question, "url"));

    if (!url || !credd_url_ok(url)) {
        answer_failure(out, "BAD_REQUEST", "\"url\" must be an https address of printable ASCII, at most 8 KiB");
        return;
    }
    *ret_url = strdup(url);
    if (*ret_url)
        buf_adds(out, "{\"ok\":true}");
    else
        answer_failure(out, "BUSY", "no memory");
}

static const struct {
    const char *op;
    void (*answer)(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url);
} operations[] = {
    {"list", answer_list}, {"show", answer_show},    {"load", answer_load},   {"open", answer_open},    {"save", answer_write},
    {"set", answer_write}, {"put", answer_write},    {"add", answer_write},   {"update", answer_write}, {"delete", answer_write},
    {"rm", answer_write},  {"remove", answer_write}, {"login", answer_write},
};

bool credd_url_ok(const char *url) {
    static const char https[] = "https://";
    size_t len = strlen(url), authority;
    struct host host;
    uint16_t port;

    if (!str_starts(url, https) || len > CREDD_URL_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (url[i] <= ' ' || url[i] > '~' || url[i] == '\\')
            return false;
    url += sizeof https - 1;
    authority = strcspn(url, "/?#");
    return !memchr(url, '@', authority) && host_parse_with_port(url, authority, &host, &port, NULL) == 0;
}

static void answer_question(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url) {
    const char *op = json_string_value(json_object_get(question, "op"));

    for (size_t i = 0; op && i < ARRAY_LEN(operations); i++)
        if (str_eq(operations[i].op, op)) {
            operations[i].answer(c, question, out, ret_url);
            return;
        }
    answer_failure(out, "UNKNOWN_OP", "\"op\" must be list, show, load or open");
}

void credd_answer(const struct gate_config *c, const char *line, size_t len, struct buf *out, char **ret_url) {
    json_t *question = len <= CREDD_LINE_MAX ? json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

    *ret_url = NULL;
    if (json_is_object(question))
        answer_question(c, question, out, ret_url);
    else
        answer_failure(out, "BAD_REQUEST", "a line must be one JSON object, such as {\"op\":\"list\"}");
    if (!buf_ok(out))
        answer_failure(out, "BUSY", "the answer is too long");
    buf_addc(out, '\n');
    json_decref(question);
}

/* The socket ---------------------------------------------------------------------------------------------------------- */

struct credd {
    struct inlet *inlet;
    uint64_t opens_since; /* s */
    unsigned opens;
};

static bool may_open(struct credd *d, uint64_t now) {
    if (!d->opens || now - d->opens_since >= CREDD_OPENS_S) {
        d->opens_since = now;
        d->opens = 0;
    }
    return d->opens < CREDD_OPENS_MAX && ++d->opens;
}

/* In pieces as long as a field of the message; the last one says so. */
static void send_url(struct gate *g, const char *url) {
    struct gate_msg m = {.type = GATE_MSG_OPEN, .action = RULE_ALLOW};
    size_t left = strlen(url);

    while (left) {
        size_t n = MIN_OF(left, sizeof m.path - 1);

        memset(m.path, 0, sizeof m.path);
        memcpy(m.path, url, n);
        url += n;
        left -= n;
        m.value = left == 0;
        gate_send(g, &m);
    }
}

static void credd_message(struct inlet_client *c, const uint8_t *data, size_t len) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CREDD_ANSWER_MAX);
    CLEANUP(freep) char *url = NULL;
    struct gate *g = inlet_gate(c);

    credd_answer(&g->config, (const char *)data, len - 1, &out, &url);
    if (url && may_open(inlet_arg(c), gate_now_s(g)))
        send_url(g, url);
    else if (url) {
        answer_failure(&out, "TOO_MANY", "too many addresses to open; wait a minute");
        buf_addc(&out, '\n');
    }
    inlet_answer(c, buf_str(&out), out.len);
}

static long credd_frame(const uint8_t *data, size_t len) {
    const uint8_t *end = memchr(data, '\n', len);

    return end ? end - data + 1 : 0;
}

static const struct inlet_ops ops = {
    .message_max = CREDD_LINE_MAX + 1,
    .frame = credd_frame,
    .message = credd_message,
};

int credd_new(struct gate *g, int fd, struct credd **ret, struct err *err) {
    struct credd *d = calloc(1, sizeof *d);
    int r;

    if (!d) {
        closep(&fd);
        return err_oom(err);
    }
    r = inlet_new(g, fd, &ops, d, &d->inlet, err);
    if (r < 0) {
        free(d);
        return r;
    }
    *ret = d;
    return 0;
}
