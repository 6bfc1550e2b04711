/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the configuration of gate and broker. */
#include "policy/gateconf.h"

#include <errno.h>

#include "base/buf.h"
#include "base/str.h"
#include "proto/cursor.h"

static_assert((int)GATE_ACTIONS == RULE_ACTIONS && (int)GATE_CODES == POLICY_CODES, "gatemsg.h knows how many there are");

static const char magic[8] = "bawngat2";

struct gateconf_head {
    char magic[8];
    uint32_t generation, mode, can_ask, ask_timeout_ms, n_layers, n_publish, max_flows, ssh, grants_len;
};

struct layer_head {
    uint32_t kind, narrow_only;
};

static int add_gate_text(struct buf *out, const char *s) {
    size_t len = strlen(s);

    if (len > GATE_TEXT_MAX)
        return -E2BIG;
    buf_add(out, s, len + 1);
    return 0;
}

static int add_layers(const struct gate_config *c, struct buf *out) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->n_layers; i++) {
        struct layer_head h = {c->layers[i].kind, c->layers[i].narrow_only};

        buf_add(out, &h, sizeof h);
        r = add_gate_text(out, c->layers[i].name);
        r = r < 0 ? r : add_gate_text(out, c->layers[i].text);
    }
    return r;
}

int gate_config_encode(const struct gate_config *c, struct buf *out) {
    const char *const texts[] = {c->resolv_conf, c->hosts,    c->http_proxy, c->https_proxy,
                                 c->no_proxy,    c->ssh_keys, c->known_hosts};
    CLEANUP(buf_done) struct buf grants = BUF_INIT(GATE_TEXT_MAX);
    struct gateconf_head h = {
        .generation = c->generation,
        .mode = c->mode,
        .can_ask = c->can_ask,
        .ask_timeout_ms = c->ask_timeout_ms,
        .n_layers = (uint32_t)c->n_layers,
        .n_publish = (uint32_t)c->n_publish,
        .max_flows = c->max_flows,
        .ssh = c->ssh,
    };
    int r;

    if (c->n_layers > LAYERS || c->n_publish > GATE_PUBLISH_MAX)
        return -E2BIG;
    r = grants_encode(c->grants, c->n_grants, &grants);
    if (r < 0)
        return r;
    memcpy(h.magic, magic, sizeof magic);
    h.grants_len = (uint32_t)grants.len;
    buf_add(out, &h, sizeof h);
    buf_add(out, grants.data, grants.len);
    buf_add(out, c->publish, c->n_publish * sizeof c->publish[0]);
    r = add_layers(c, out);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(texts); i++)
        r = add_gate_text(out, texts[i] ? texts[i] : "");
    return r < 0 ? r : buf_ok(out) && out->len <= GATE_CONFIG_MAX ? 0 : -E2BIG;
}

static int take_text(struct cursor *c, char **ret) {
    const char *s = cursor_string(c);

    return s && strlen(s) <= GATE_TEXT_MAX ? str_set(ret, s) : -EBADMSG;
}

/* Two layers of one kind: the second would take the place of the first, and rules would be lost. */
static bool has_layer(const struct gate_config *c, uint32_t kind) {
    for (size_t i = 0; i < c->n_layers; i++)
        if (c->layers[i].kind == kind)
            return true;
    return false;
}

static int take_layers(struct cursor *c, size_t n, struct gate_config *g) {
    struct layer_head h;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        struct gate_layer *l = &g->layers[i];

        r = cursor_take(c, &h, sizeof h);
        if (r == 0 && (h.kind >= LAYERS || h.narrow_only > 1 || has_layer(g, h.kind)))
            r = -EBADMSG;
        if (r < 0)
            return r;
        *l = (struct gate_layer){.kind = h.kind, .narrow_only = h.narrow_only};
        g->n_layers++;
        r = take_text(c, &l->name);
        r = r < 0 ? r : take_text(c, &l->text);
    }
    return r;
}

static int take_publish(struct cursor *c, size_t n, struct gate_config *g) {
    int r = cursor_take(c, g->publish, n * sizeof g->publish[0]);

    for (size_t i = 0; r == 0 && i < n; i++)
        if (g->publish[i].inside == 0)
            r = -EBADMSG;
    g->n_publish = n;
    return r;
}

static int take_grants(struct cursor *c, size_t len, struct gate_config *g) {
    const char *bytes = cursor_skip(c, len);

    return bytes ? grants_decode(bytes, len, &g->grants, &g->n_grants) : -EBADMSG;
}

static int take_texts(struct cursor *c, struct gate_config *g) {
    char **const texts[] = {&g->resolv_conf, &g->hosts,    &g->http_proxy, &g->https_proxy,
                            &g->no_proxy,    &g->ssh_keys, &g->known_hosts};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(texts); i++)
        r = take_text(c, texts[i]);
    return r == 0 && c->left ? -EBADMSG : r;
}

int gate_config_decode(const char *bytes, size_t len, struct gate_config *ret) {
    CLEANUP(gate_config_done) struct gate_config g = {0};
    struct cursor c = {bytes, len};
    struct gateconf_head h;
    int r = len > GATE_CONFIG_MAX ? -EBADMSG : cursor_take(&c, &h, sizeof h);

    if (r < 0)
        return r;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.mode >= NET_MODES || h.can_ask > 1 || h.ssh > 1)
        return -EBADMSG;
    if (h.n_layers > LAYERS || h.n_publish > GATE_PUBLISH_MAX)
        return -EBADMSG;
    g.generation = h.generation;
    g.mode = h.mode;
    g.can_ask = h.can_ask;
    g.ask_timeout_ms = h.ask_timeout_ms;
    g.max_flows = h.max_flows;
    g.ssh = h.ssh;
    r = take_grants(&c, h.grants_len, &g);
    r = r < 0 ? r : take_publish(&c, h.n_publish, &g);
    r = r < 0 ? r : take_layers(&c, h.n_layers, &g);
    r = r < 0 ? r : take_texts(&c, &g);
    if (r == 0)
        *ret = TAKE(g, (struct gate_config){0});
    return r;
}

/* The variables may hold a password. */
static void forget(char *s) {
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void gate_config_done(struct gate_config *c) {
    for (size_t i = 0; i < c->n_layers; i++) {
        free(c->layers[i].name);
        free(c->layers[i].text);
    }
    free(c->resolv_conf);
    free(c->hosts);
    forget(c->http_proxy);
    forget(c->https_proxy);
    free(c->no_proxy);
    free(c->ssh_keys);
    free(c->known_hosts);
    grants_free(c->grants, c->n_grants);
    *c = (struct gate_config){0};
}
