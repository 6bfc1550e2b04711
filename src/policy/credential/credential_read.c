/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"
#include "policy/rules/rule_priv.h"

struct one {
    struct credential c;
    const char *placed; /* the key that said where it goes */
    bool no_env;        /* "env": [] */
};

static void one_done(struct one *o) {
    credential_done(&o->c);
}

static int want_text(struct rule_reader *rd, const json_t *v, const char **ret, struct err *err) {
    if (!json_is_string(v))
        return json_fail(&rd->at, err, "must be a string");
    if (json_string_length(v) != strlen(json_string_value(v)) || json_string_length(v) > CREDENTIAL_TEXT_MAX)
        return json_fail(&rd->at, err, "must have at most %d bytes, and no NUL", CREDENTIAL_TEXT_MAX);
    *ret = json_string_value(v);
    return 0;
}

static int set_text(struct rule_reader *rd, const json_t *v, char **at, struct err *err) {
    const char *s;
    int r = want_text(rd, v, &s, err);

    if (r < 0)
        return r;
    return credential_set_text(at, s, strlen(s)) < 0 ? err_oom(err) : 0;
}

static int place_once(struct rule_reader *rd, struct one *o, const char *key, struct err *err) {
    if (o->placed)
        return json_fail_key(&rd->at, err, "the secret has a place already: \"%s\"", o->placed);
    o->placed = key;
    return 0;
}

static int add_host(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    struct one *o = arg;
    const char *s;
    int r = want_text(rd, v, &s, err);

    return r < 0 ? r : json_ctx(&rd->at, credential_add_host(&o->c, s, err), err);
}

static int read_hosts(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    return rule_for_each(rd, v, CREDENTIAL_HOSTS_MAX, add_host, o, err);
}

static int read_header(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    const char *s;
    int r = place_once(rd, o, "header", err);

    r = r < 0 ? r : want_text(rd, v, &s, err);
    return r < 0 ? r : json_ctx(&rd->at, credential_set_header(&o->c, s, err), err);
}

static int read_basic(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    int r = place_once(rd, o, "basic", err);

    o->c.place = PLACE_BASIC;
    return r < 0 ? r : set_text(rd, v, &o->c.user, err);
}

static int read_query(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    int r = place_once(rd, o, "query", err);

    o->c.place = PLACE_QUERY;
    return r < 0 ? r : set_text(rd, v, &o->c.query, err);
}

static int read_sigv4(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    const char *s;
    int r = place_once(rd, o, "sigv4", err);

    r = r < 0 ? r : want_text(rd, v, &s, err);
    return r < 0 ? r : json_ctx(&rd->at, credential_set_sigv4(&o->c, s, err), err);
}

static int add_word(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    const char *s;
    int r = want_text(rd, v, &s, err);

    if (r < 0)
        return r;
    return strv_add(arg, s) < 0 ? err_oom(err) : 0;
}

static int read_env(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    o->no_env = json_is_array(v) && json_array_size(v) == 0;
    if (o->no_env)
        return 0;
    return rule_for_each(rd, v, CREDENTIAL_ENV_MAX, add_word, &o->c.env, err);
}

static int read_inject(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    const char *s = json_is_string(v) ? json_string_value(v) : "";

    if (!str_eq(s, "always") && !str_eq(s, "placeholder"))
        return json_fail(&rd->at, err, "must be \"always\" or \"placeholder\"");
    o->c.only_placeholder = str_eq(s, "placeholder");
    return 0;
}

static int read_shape(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    return set_text(rd, v, &o->c.shape, err);
}

static int read_length(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    if (!json_is_integer(v) || json_integer_value(v) < PLACEHOLDER_CORE || json_integer_value(v) > PLACEHOLDER_MAX)
        return json_fail(&rd->at, err, "must be a number from %d to %d", PLACEHOLDER_CORE, PLACEHOLDER_MAX);
    o->c.length = (uint32_t)json_integer_value(v);
    return 0;
}

static int read_store(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    for (enum credential_store s = STORE_FILE; json_is_string(v) && s < CREDENTIAL_STORES; s++)
        if (str_eq(json_string_value(v), credential_store_names[s])) {
            o->c.store = s;
            return 0;
        }
    return json_fail(&rd->at, err, "must be \"file\", \"secret-service\", \"env\" or \"command\"");
}

static int read_variable(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    return set_text(rd, v, &o->c.variable, err);
}

static int read_command(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    if (!json_is_array(v))
        return json_fail(&rd->at, err, "must be an array of words: no shell takes them apart");
    return rule_for_each(rd, v, CREDENTIAL_COMMAND_MAX, add_word, &o->c.command, err);
}

static int read_lifetime(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    const char *s;
    int r = want_text(rd, v, &s, err);

    return r < 0 ? r : json_ctx(&rd->at, credential_set_lifetime(&o->c, s, err), err);
}

static int read_oauth(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err) {
    static const char *const keys[] = {"token_url", "device_url", "authorize_url", "client_id", "scope", "redirect_uri"};
    char **const texts[] = {&o->c.token_url, &o->c.device_url, &o->c.authorize_url,
                            &o->c.client_id, &o->c.scope,      &o->c.redirect_uri};
    size_t index = 0, i;
    const char *key;
    json_t *value;

    static_assert(ARRAY_LEN(keys) == ARRAY_LEN(texts), "one of each");
    if (!json_is_object(v))
        return json_fail(&rd->at, err, "must be an object, { ... }");
    json_object_foreach((json_t *)(uintptr_t)v, key, value) {
        int r;

        for (i = 0; i < ARRAY_LEN(keys) && !str_eq(keys[i], key);)
            i++;
        json_enter(&rd->at, index++, key);
        r = i < ARRAY_LEN(keys) ? set_text(rd, value, texts[i], err) : rule_unknown_key(rd, key, keys, ARRAY_LEN(keys), err);
        if (r < 0)
            return r;
        json_leave(&rd->at);
    }
    return o->c.token_url ? 0 : json_fail(&rd->at, err, "needs a \"token_url\"");
}

static const struct credential_member {
    const char *name;
    int (*read)(struct rule_reader *rd, const json_t *v, struct one *o, struct err *err);
} members[] = {
    {"hosts", read_hosts},   {"header", read_header},     {"basic", read_basic},       {"query", read_query},
    {"sigv4", read_sigv4},   {"env", read_env},           {"inject", read_inject},     {"shape", read_shape},
    {"length", read_length}, {"store", read_store},       {"variable", read_variable}, {"command", read_command},
    {"oauth", read_oauth},   {"lifetime", read_lifetime},
};

static int read_members(struct rule_reader *rd, json_t *v, struct one *o, struct err *err) {
    const char *names[ARRAY_LEN(members)], *key;
    size_t index = 0, i;
    json_t *value;

    for (i = 0; i < ARRAY_LEN(members); i++)
        names[i] = members[i].name;
    json_object_foreach(v, key, value) {
        int r;

        for (i = 0; i < ARRAY_LEN(members) && !str_eq(names[i], key);)
            i++;
        json_enter(&rd->at, index++, key);
        r = i < ARRAY_LEN(members) ? members[i].read(rd, value, o, err) : rule_unknown_key(rd, key, names, ARRAY_LEN(names), err);
        if (r < 0)
            return r;
        json_leave(&rd->at);
    }
    return 0;
}

/* "store" is the one member without which nobody knows where the value is. */
static int read_one(struct rule_reader *rd, const char *name, json_t *v, struct credentials *all, struct err *err) {
    CLEANUP(one_done) struct one o = {0};
    int r;

    if (!credential_name_ok(name))
        return json_fail_key(&rd->at, err,
                             "a name has 1 to %d letters, digits, '.', '_' and '-', and begins with a letter or digit",
                             CREDENTIAL_NAME_MAX);
    if (!json_is_object(v))
        return json_fail(&rd->at, err, "must be a secret, { ... }");
    if (credential_set_text(&o.c.name, name, strlen(name)) < 0)
        return err_oom(err);
    r = read_members(rd, v, &o, err);
    if (r == 0 && !json_object_get(v, "store"))
        r = json_fail(&rd->at, err, "a secret needs a \"store\"");
    r = r < 0 ? r : credential_fill_known(&o.c, err);
    if (r < 0)
        return r;
    if (o.no_env)
        strv_done(&o.c.env);
    r = json_ctx(&rd->at, credential_check(&o.c, err), err);
    return r < 0 ? r : json_ctx(&rd->at, credentials_put(all, &o.c, err), err);
}

static int read_all(struct rule_reader *rd, json_t *v, struct credentials *all, struct err *err) {
    size_t index = 0;
    const char *key;
    json_t *value;

    if (!json_is_object(v))
        return json_fail(&rd->at, err, "must be an object of secrets");
    json_object_foreach(v, key, value) {
        int r;

        json_enter(&rd->at, index++, key);
        r = read_one(rd, key, value, all, err);
        if (r < 0)
            return r;
        json_leave(&rd->at);
    }
    return 0;
}

int credentials_read(const char *name, const char *data, size_t len, struct credentials *ret, struct err *err) {
    CLEANUP(json_text_done) struct json_text text = {0};
    CLEANUP(credentials_done) struct credentials all = {0};
    static const char *const sections[] = {"secrets", "$schema"};
    struct rule_reader rd = {.at = {.text = &text}};
    size_t index = 0;
    const char *key;
    json_t *value;
    int r;

    r = json_text_parse(name, data, len, CREDENTIALS_FILE_MAX, &text, err);
    if (r < 0)
        return r;
    json_object_foreach(text.root, key, value) {
        json_enter(&rd.at, index++, key);
        if (str_eq(key, "secrets"))
            r = read_all(&rd, value, &all, err);
        else if (!str_eq(key, "$schema"))
            r = rule_unknown_key(&rd, key, sections, ARRAY_LEN(sections), err);
        if (r < 0)
            return r;
        json_leave(&rd.at);
    }
    *ret = TAKE(all, (struct credentials){0});
    return 0;
}
