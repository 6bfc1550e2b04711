/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/str.h"
#include "policy/credential/credential.h"

static void add_pair(struct buf *b, const char *key, const char *value) {
    if (!value)
        return;
    buf_addf(b, ", \"%s\": ", key);
    buf_add_json(b, value);
}

static void add_list(struct buf *b, const char *before, const char *key, const struct strv *list) {
    buf_addf(b, "%s\"%s\": [", before, key);
    for (size_t i = 0; i < list->len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, list->v[i]);
    }
    buf_addc(b, ']');
}

static void add_place(struct buf *b, const struct credential *c) {
    CLEANUP(freep) char *text = NULL;

    switch (c->place) {
    case PLACE_HEADER:
        text = str_eq(c->format, "{}") ? strdup(c->header) : str_dupf("%s: %s", c->header, c->format);
        break;
    case PLACE_BASIC:
        text = strdup(c->user);
        break;
    case PLACE_QUERY:
        text = strdup(c->query);
        break;
    case PLACE_SIGV4:
        text = str_dupf("%s/%s", c->region, c->service);
        break;
    case CREDENTIAL_PLACES:
        break;
    }
    b->failed |= !text;
    add_pair(b, credential_place_names[c->place], text);
}

static void add_oauth(struct buf *b, const struct credential *c) {
    if (!c->token_url)
        return;
    buf_adds(b, ", \"oauth\": {\"token_url\": ");
    buf_add_json(b, c->token_url);
    add_pair(b, "device_url", c->device_url);
    add_pair(b, "authorize_url", c->authorize_url);
    add_pair(b, "redirect_uri", c->redirect_uri);
    add_pair(b, "client_id", c->client_id);
    add_pair(b, "scope", c->scope);
    buf_addc(b, '}');
}

static void add_credential(struct buf *b, const struct credential *c) {
    buf_adds(b, "    ");
    buf_add_json(b, c->name);
    add_list(b, ": {", "hosts", &c->hosts);
    add_place(b, c);
    if (c->place != PLACE_SIGV4)
        add_list(b, ", ", "env", &c->env);
    if (c->only_placeholder)
        add_pair(b, "inject", "placeholder");
    add_pair(b, "shape", c->shape);
    if (c->length)
        buf_addf(b, ", \"length\": %u", c->length);
    add_pair(b, "store", credential_store_names[c->store]);
    add_pair(b, "variable", c->variable);
    if (c->command.len)
        add_list(b, ", ", "command", &c->command);
    if (c->lifetime_s)
        buf_addf(b, ", \"lifetime\": \"%" PRIu64 "s\"", c->lifetime_s);
    add_oauth(b, c);
    buf_addc(b, '}');
}

void credentials_write(const struct credentials *c, struct buf *out) {
    buf_adds(out, "{\n  \"secrets\": {");
    for (size_t i = 0; i < c->len; i++) {
        buf_adds(out, i ? ",\n" : "\n");
        add_credential(out, &c->v[i]);
    }
    buf_adds(out, c->len ? "\n  }\n}\n" : "}\n}\n");
}
