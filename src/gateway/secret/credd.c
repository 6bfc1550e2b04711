/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/credd.h"

#include <jansson.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/net/inlet.h"
#include "os/fd.h"

static const char read_only[] =
    "credentials are managed outside: ask the user to run 'bawn secret set' or 'bawn secret rm' on the host";
static const char stands_for[] =
    "this stands for the value, which is put into requests to these hosts outside of the sandbox; use it as if it were the value";

static void fail(struct buf *out, const char *code, const char *error) {
    buf_clear(out);
    buf_adds(out, "{\"ok\":false,\"error\":");
    buf_add_json(out, error);
    buf_addf(out, ",\"code\":\"%s\"}", code);
}

static void add_list(struct buf *out, const char *key, const struct strv *v) {
    buf_addf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < v->len; i++) {
        if (i)
            buf_addc(out, ',');
        buf_add_json(out, v->v[i]);
    }
    buf_addc(out, ']');
}

static void add_text(struct buf *out, const char *key, const char *value) {
    if (!value || !*value)
        return;
    buf_addf(out, ",\"%s\":", key);
    buf_add_json(out, value);
}

/* What is the same in all answers, without the brackets around it. */
static void add_grant(struct buf *out, const struct grant *g) {
    buf_adds(out, "\"name\":");
    buf_add_json(out, g->c.name);
    add_list(out, "hosts", &g->c.hosts);
    add_list(out, "variables", &g->c.env);
    add_text(out, "place", g->c.place < CREDENTIAL_PLACES ? credential_place_names[g->c.place] : "");
    add_text(out, "header", g->c.header);
    add_text(out, "format", g->c.format);
    add_text(out, "user", g->c.user);
    add_text(out, "query", g->c.query);
    add_text(out, "region", g->c.region);
    add_text(out, "service", g->c.service);
    if (g->c.token_url)
        buf_adds(out, ",\"oauth\":true");
}

static const struct grant *find_grant(const struct gate_config *c, json_t *question, struct buf *out) {
    const char *name = json_string_value(json_object_get(question, "name"));

    for (size_t i = 0; name && i < c->n_grants; i++)
        if (str_eq(c->grants[i].c.name, name))
            return &c->grants[i];
    if (name)
        fail(out, "NOT_FOUND", "there is no credential of this name in the sandbox; op \"list\" says which there are");
    else
        fail(out, "BAD_REQUEST", "\"name\" must be a string");
    return NULL;
}

static void answer_list(const struct gate_config *c, json_t *question UNUSED, struct buf *out, char **ret_url UNUSED) {
    buf_adds(out, "{\"ok\":true,\"credentials\":[");
    for (size_t i = 0; i < c->n_grants; i++) {
        buf_adds(out, i ? ",{" : "{");
        add_grant(out, &c->grants[i]);
        buf_addc(out, '}');
    }
    buf_adds(out, "]}");
}

static void answer_show(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url UNUSED) {
    const struct grant *g = find_grant(c, question, out);

    if (!g)
        return;
    buf_adds(out, "{\"ok\":true,");
    add_grant(out, g);
    buf_addc(out, '}');
}

static void answer_load(const struct gate_config *c, json_t *question, struct buf *out, char **ret_url UNUSED) {
    const struct grant *g = find_grant(c, question, out);

    if (!g)
        return;
    buf_adds(out, "{\"ok\":true,");
    add_grant(out, g);
    add_text(out, "value", g->placeholder);
    add_text(out, "secret_key", g->placeholder2);
    add_text(out, "note", stands_for);
    buf_addc(out, '}');
}

static void answer_write(const struct gate_config *c UNUSED, json_t *question UNUSED, struct buf *out, char **ret_url UNUSED) {
    fail(out, "READ_ONLY", read_only);
}

static void answer_open(const struct gate_config *c UNUSED, json_t *question, struct buf *out, char **ret_url) {
    const char *url = json_string_value(json_object_get(question, "url"));

    if (!url || !credd_url_ok(url)) {
        fail(out, "BAD_REQUEST", "\"url\" must be an https address of printable ASCII, at most 8 KiB");
        return;
    }
    *ret_url = strdup(url);
    if (*ret_url)
        buf_adds(out, "{\"ok\":true}");
    else
        fail(out, "BUSY", "no memory");
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
    fail(out, "UNKNOWN_OP", "\"op\" must be list, show, load or open");
}

void credd_answer(const struct gate_config *c, const char *line, size_t len, struct buf *out, char **ret_url) {
    json_t *question = len <= CREDD_LINE_MAX ? json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

    *ret_url = NULL;
    if (json_is_object(question))
        answer_question(c, question, out, ret_url);
    else
        fail(out, "BAD_REQUEST", "a line must be one JSON object, such as {\"op\":\"list\"}");
    if (!buf_ok(out))
        fail(out, "BUSY", "the answer is too long");
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
        buf_clear(&out);
        buf_adds(&out, "{\"ok\":false,\"error\":\"too many addresses to open; wait a minute\",\"code\":\"TOO_MANY\"}\n");
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
