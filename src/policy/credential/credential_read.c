/* SPDX-License-Identifier: Apache-2.0 */
/* Reads secrets.json. */
#include <errno.h>

#include "base/err.h"
#include "base/jsonfile.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"

struct one {
    struct credential c;
    const char *placed; /* the key that said where it goes */
    bool no_env;        /* "env": [] */
};

static void one_done(struct one *o) {
    credential_done(&o->c);
}

static int want_text(struct jsonwalk *w, const json_t *v, const char **ret, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_fail(w, err, "must be a string");
    if (json_string_length(v) != strlen(json_string_value(v)) || json_string_length(v) > CREDENTIAL_TEXT_MAX)
        return jsonwalk_fail(w, err, "must have at most %d bytes, and no NUL", CREDENTIAL_TEXT_MAX);
    *ret = json_string_value(v);
    return 0;
}

static int read_text(struct jsonwalk *w, json_t *v, void *text, struct err *err) {
    const char *s;
    int r = want_text(w, v, &s, err);

    if (r < 0)
        return r;
    return str_set(text, s) < 0 ? err_oom(err) : 0;
}

static int add_host(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    const char *s;
    int r = want_text(w, v, &s, err);

    return r < 0 ? r : jsonwalk_ctx(w, credential_add_host(&o->c, s, err), err);
}

static int read_hosts(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    return jsonwalk_one_or_more(w, v, CREDENTIAL_HOSTS_MAX, add_host, o, err);
}

static int set_basic(struct credential *c, const char *user, struct err *err) {
    c->place = PLACE_BASIC;
    return str_set(&c->user, user) < 0 ? err_oom(err) : 0;
}

static int set_query(struct credential *c, const char *name, struct err *err) {
    c->place = PLACE_QUERY;
    return str_set(&c->query, name) < 0 ? err_oom(err) : 0;
}

static int read_place(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    static int (*const set[CREDENTIAL_PLACES])(struct credential * c, const char *text, struct err *err) = {
        [PLACE_HEADER] = credential_set_header,
        [PLACE_BASIC] = set_basic,
        [PLACE_QUERY] = set_query,
        [PLACE_SIGV4] = credential_set_sigv4,
    };
    int place = str_index(jsonwalk_key_of(w), credential_place_names, CREDENTIAL_PLACES), r;
    const char *s;
    struct one *o = arg;

    if (o->placed)
        return jsonwalk_fail_key(w, err, "the secret has a place already: \"%s\"", o->placed);
    o->placed = credential_place_names[place];
    r = want_text(w, v, &s, err);
    return r < 0 ? r : jsonwalk_ctx(w, set[place](&o->c, s, err), err);
}

static int add_word(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    const char *s;
    int r = want_text(w, v, &s, err);

    if (r < 0)
        return r;
    return strv_add(arg, s) < 0 ? err_oom(err) : 0;
}

static int read_env(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    o->no_env = json_is_array(v) && json_array_size(v) == 0;
    if (o->no_env)
        return 0;
    return jsonwalk_one_or_more(w, v, CREDENTIAL_ENV_MAX, add_word, &o->c.env, err);
}

static int read_inject(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    const char *s = json_is_string(v) ? json_string_value(v) : "";

    if (!str_eq(s, "always") && !str_eq(s, "placeholder"))
        return jsonwalk_fail(w, err, "must be \"always\" or \"placeholder\"");
    o->c.only_placeholder = str_eq(s, "placeholder");
    return 0;
}

static int read_length(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    if (!json_is_integer(v) || json_integer_value(v) < PLACEHOLDER_CORE || json_integer_value(v) > PLACEHOLDER_MAX)
        return jsonwalk_fail(w, err, "must be a number from %d to %d", PLACEHOLDER_CORE, PLACEHOLDER_MAX);
    o->c.length = (uint32_t)json_integer_value(v);
    return 0;
}

static int read_store(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    int i = json_is_string(v) ? str_index(json_string_value(v), credential_store_names, CREDENTIAL_STORES) : -1;

    if (i < 0)
        return jsonwalk_fail(w, err, "must be \"file\", \"secret-service\", \"env\" or \"command\"");
    o->c.store = (enum credential_store)i;
    return 0;
}

static int read_command(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    if (!json_is_array(v))
        return jsonwalk_fail(w, err, "must be an array of words: no shell takes them apart");
    return jsonwalk_one_or_more(w, v, CREDENTIAL_COMMAND_MAX, add_word, &o->c.command, err);
}

static int read_lifetime(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    const char *s;
    int r = want_text(w, v, &s, err);

    return r < 0 ? r : jsonwalk_ctx(w, credential_set_lifetime(&o->c, s, err), err);
}

#define AT(member) offsetof(struct one, c.member)

static int read_oauth(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    static const struct jsonwalk_key keys[] = {
        {"token_url", read_text, AT(token_url)},
        {"device_url", read_text, AT(device_url)},
        {"authorize_url", read_text, AT(authorize_url)},
        {"client_id", read_text, AT(client_id)},
        {"scope", read_text, AT(scope)},
        {"redirect_uri", read_text, AT(redirect_uri)},
    };
    const struct one *o = arg;
    int r = jsonwalk_members(w, v, keys, ARRAY_LEN(keys), arg, err);

    return r < 0 || o->c.token_url ? r : jsonwalk_fail(w, err, "needs a \"token_url\"");
}

static const struct jsonwalk_key members[] = {
    {"hosts", read_hosts, 0},
    {"header", read_place, 0},
    {"basic", read_place, 0},
    {"query", read_place, 0},
    {"sigv4", read_place, 0},
    {"env", read_env, 0},
    {"inject", read_inject, 0},
    {"shape", read_text, AT(shape)},
    {"length", read_length, 0},
    {"store", read_store, 0},
    {"variable", read_text, AT(variable)},
    {"command", read_command, 0},
    {"oauth", read_oauth, 0},
    {"lifetime", read_lifetime, 0},
};

static int read_one(struct jsonwalk *w, json_t *v, void *all, struct err *err) {
    CLEANUP(one_done) struct one o = {0};
    const char *name = jsonwalk_key_of(w);
    int r;

    if (!credential_name_ok(name))
        return jsonwalk_fail_key(w, err,
                                 "a name has 1 to %d letters, digits, '.', '_' and '-', and begins with a letter or digit",
                                 CREDENTIAL_NAME_MAX);
    if (!json_is_object(v))
        return jsonwalk_fail(w, err, "must be a secret, { ... }");
    if (str_set(&o.c.name, name) < 0)
        return err_oom(err);
    r = jsonwalk_members(w, v, members, ARRAY_LEN(members), &o, err);
    if (r == 0 && !json_object_get(v, "store"))
        r = jsonwalk_fail(w, err, "a secret needs a \"store\"");
    r = r < 0 ? r : credential_fill_known(&o.c, err);
    if (r < 0)
        return r;
    if (o.no_env)
        strv_done(&o.c.env);
    o.c.no_env = o.no_env && o.c.place == PLACE_SIGV4;
    r = jsonwalk_ctx(w, credential_check(&o.c, err), err);
    return r < 0 ? r : jsonwalk_ctx(w, credentials_put(all, &o.c, err), err);
}

static int read_all(struct jsonwalk *w, json_t *v, void *all, struct err *err) {
    return json_is_object(v) ? jsonwalk_each(w, v, read_one, all, err) : jsonwalk_fail(w, err, "must be an object of secrets");
}

static int skip_schema(struct jsonwalk *w UNUSED, json_t *v UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return 0;
}

int credentials_read(const char *name, const char *data, size_t len, struct credentials *ret, struct err *err) {
    static const struct jsonwalk_key sections[] = {{"secrets", read_all, 0}, {"$schema", skip_schema, 0}};
    CLEANUP(jsonfile_done) struct jsonfile file = {0};
    CLEANUP(credentials_done) struct credentials all = {0};
    struct jsonwalk w = {.file = &file};
    int r = jsonfile_parse(name, data, len, CREDENTIALS_FILE_MAX, &file, err);

    r = r < 0 ? r : jsonwalk_members(&w, file.root, sections, ARRAY_LEN(sections), &all, err);
    if (r == 0)
        *ret = TAKE(all, (struct credentials){0});
    return r;
}
