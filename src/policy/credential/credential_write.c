/* SPDX-License-Identifier: Apache-2.0 */
/* Writes secrets.json. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "policy/credential/credential.h"

static void add_if_set(struct jsonout *j, const char *key, const char *value) {
    if (value)
        jsonout_text(j, key, value);
}

static void add_place(struct jsonout *j, const struct credential *c) {
    const char *key = credential_place_names[c->place], *plain = c->place == PLACE_BASIC ? c->user : c->query;
    CLEANUP(freep) char *text = NULL;

    if (c->place == PLACE_SIGV4)
        text = str_dupf("%s/%s", c->region, c->service);
    else if (c->place == PLACE_HEADER)
        text = str_eq(c->format, "{}") ? strdup(c->header) : str_dupf("%s: %s", c->header, c->format);
    j->to->failed |= (c->place == PLACE_SIGV4 || c->place == PLACE_HEADER) && !text;
    add_if_set(j, key, text ? text : plain);
}

static void add_oauth(struct jsonout *j, const struct credential *c) {
    jsonout_open(j, "oauth", '{');
    jsonout_text(j, "token_url", c->token_url);
    add_if_set(j, "device_url", c->device_url);
    add_if_set(j, "authorize_url", c->authorize_url);
    add_if_set(j, "redirect_uri", c->redirect_uri);
    add_if_set(j, "client_id", c->client_id);
    add_if_set(j, "scope", c->scope);
    jsonout_close(j, '}');
}

static void add_credential(struct jsonout *j, const struct credential *c) {
    jsonout_break(j, "\n    ");
    jsonout_open(j, c->name, '{'); /* credential_name_ok(): nothing in it is escaped */
    jsonout_list(j, "hosts", &c->hosts);
    add_place(j, c);
    if (c->place != PLACE_SIGV4 || c->no_env)
        jsonout_list(j, "env", &c->env);
    if (c->only_placeholder)
        jsonout_text(j, "inject", "placeholder");
    add_if_set(j, "shape", c->shape);
    if (c->length)
        jsonout_u64(j, "length", c->length);
    jsonout_text(j, "store", credential_store_names[c->store]);
    add_if_set(j, "variable", c->variable);
    if (c->command.len)
        jsonout_list(j, "command", &c->command);
    if (c->lifetime_s) {
        jsonout_key(j, "lifetime");
        buf_addf(j->to, "\"%" PRIu64 "s\"", c->lifetime_s);
    }
    if (c->token_url)
        add_oauth(j, c);
    jsonout_close(j, '}');
}

void credentials_write(const struct credentials *c, struct buf *out) {
    struct jsonout j = {.to = out};

    buf_adds(out, "{\n  \"secrets\": {");
    for (size_t i = 0; i < c->len; i++)
        add_credential(&j, &c->v[i]);
    buf_adds(out, c->len ? "\n  }\n}\n" : "}\n}\n");
}
