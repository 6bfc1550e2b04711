/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret/secret_options.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"

enum {
    OPT_HOST = 1,
    OPT_HEADER,
    OPT_BASIC,
    OPT_QUERY,
    OPT_SIGV4,
    OPT_ENV,
    OPT_NO_ENV,
    OPT_STORE,
    OPT_LIFETIME,
    OPT_INJECT,
    OPT_TOKEN_URL,
    OPT_DEVICE_URL,
    OPT_AUTHORIZE_URL,
    OPT_REDIRECT_URI,
    OPT_CLIENT_ID,
    OPT_SCOPE,
    OPT_REFRESH_TOKEN,
    OPT_REPLACE
};

const struct opt secret_set_opts[N_SECRET_SET_OPTS] = {
    {OPT_HOST, 0, "host", "HOST[:PORT]", "for this host, by its exact name and by https (may be repeated)", NULL},
    {OPT_HEADER, 0, "header", "HEADER", "it goes into this header: 'x-api-key', or 'Authorization: Bearer {}' (default)", NULL},
    {OPT_BASIC, 0, "basic", "USER", "it is the password of this user (basic authentication)", NULL},
    {OPT_QUERY, 0, "query", "KEY", "it is the query parameter of this name", NULL},
    {OPT_SIGV4, 0, "sigv4", "REGION/SERVICE", "it signs requests as AWS wants it", NULL},
    {OPT_ENV, 0, "env", "VAR", "this variable inside has the placeholder (may be repeated)", NULL},
    {OPT_NO_ENV, 0, "no-env", NULL, "no variable has it", NULL},
    {OPT_STORE, 0, "store", "STORE", "where the value is: file (default; encrypted), secret-service, env:VAR or command",
     "file|secret-service|env:|command"},
    {OPT_LIFETIME, 0, "lifetime", "TIME", "with a command: how long its answer is good, e.g. 10m (default: the whole run)", NULL},
    {OPT_INJECT, 0, "inject", "WHEN",
     "always (default), or placeholder: only into requests that have the placeholder in its place", "always|placeholder"},
    {OPT_TOKEN_URL, 0, "oauth-token-url", "URL", "it is an OAuth token that is renewed here", NULL},
    {OPT_DEVICE_URL, 0, "oauth-device-url", "URL", "where 'bawn secret login' begins", NULL},
    {OPT_AUTHORIZE_URL, 0, "oauth-authorize-url", "URL", "the page of the service on which programs inside want you to log in",
     NULL},
    {OPT_REDIRECT_URI, 0, "oauth-redirect-uri", "URI",
     "where that page sends the browser back to (default: http://localhost/callback, at any free port)", NULL},
    {OPT_CLIENT_ID, 0, "oauth-client-id", "ID", "how the service knows the program", NULL},
    {OPT_SCOPE, 0, "oauth-scope", "SCOPE", "what the tokens are to allow", NULL},
    {OPT_REFRESH_TOKEN, 0, "oauth-refresh-token", NULL, "read a refresh token from the standard input instead of logging in",
     NULL},
    {OPT_REPLACE, 0, "replace", NULL, "take the place of the secret that has this name", NULL},
};

void secret_request_done(struct secret_request *q) {
    credential_done(&q->c);
}

struct secret_reading {
    struct secret_request *q;
    const char *placed; /* the option that said where it goes */
    bool no_env, store_given;
};

static int set_string(char **to, const char *value, struct err *err) {
    free(*to);
    *to = strdup(value);
    return *to ? 0 : err_oom(err);
}

static int take_place(struct secret_reading *rd, int id, const char *value, struct err *err) {
    struct credential *c = &rd->q->c;
    const char *name = secret_set_opts[id - 1].name;
    int r = 0;

    if (rd->placed)
        return err_usage(err, "--%s and --%s exclude each other", rd->placed, name);
    rd->placed = name;
    if (id == OPT_HEADER)
        r = credential_set_header(c, value, err);
    else if (id == OPT_SIGV4)
        r = credential_set_sigv4(c, value, err);
    else
        r = set_string(id == OPT_BASIC ? &c->user : &c->query, value, err);
    if (id == OPT_BASIC || id == OPT_QUERY)
        c->place = id == OPT_BASIC ? PLACE_BASIC : PLACE_QUERY;
    return r < 0 ? err_ctx(err, r, "--%s", name) : 0;
}

static int take_store(struct secret_reading *rd, const char *value, struct err *err) {
    struct credential *c = &rd->q->c;

    rd->store_given = true;
    if (str_starts(value, "env:")) {
        c->store = STORE_ENV;
        return set_string(&c->variable, value + strlen("env:"), err);
    }
    for (enum credential_store s = STORE_FILE; s < CREDENTIAL_STORES; s++)
        if (s != STORE_ENV && str_eq(value, credential_store_names[s])) {
            c->store = s;
            return 0;
        }
    return err_usage(err, "--store takes file, secret-service, env:VAR or command");
}

static int take_inject(struct secret_reading *rd, const char *value, struct err *err) {
    rd->q->c.only_placeholder = str_eq(value, "placeholder");
    if (!rd->q->c.only_placeholder && !str_eq(value, "always"))
        return err_usage(err, "--inject takes always or placeholder");
    return 0;
}

static char **text_slot(struct credential *c, int id) {
    switch (id) {
    case OPT_TOKEN_URL:
        return &c->token_url;
    case OPT_DEVICE_URL:
        return &c->device_url;
    case OPT_AUTHORIZE_URL:
        return &c->authorize_url;
    case OPT_REDIRECT_URI:
        return &c->redirect_uri;
    case OPT_CLIENT_ID:
        return &c->client_id;
    case OPT_SCOPE:
        return &c->scope;
    }
    return NULL;
}

static bool *switch_slot(struct secret_reading *rd, int id) {
    switch (id) {
    case OPT_NO_ENV:
        return &rd->no_env;
    case OPT_REFRESH_TOKEN:
        return &rd->q->refresh_token;
    case OPT_REPLACE:
        return &rd->q->replace;
    }
    return NULL;
}

static int take(struct secret_reading *rd, int id, const char *value, struct err *err) {
    struct credential *c = &rd->q->c;
    char **text = text_slot(c, id);
    bool *flag = switch_slot(rd, id);

    if (text)
        return set_string(text, value, err);
    if (flag) {
        *flag = true;
        return 0;
    }
    switch (id) {
    case OPT_HOST:
        return credential_add_host(c, value, err) < 0 ? err_ctx(err, err->code, "--host") : 0;
    case OPT_ENV:
        return strv_add(&c->env, value) < 0 ? err_oom(err) : 0;
    case OPT_STORE:
        return take_store(rd, value, err);
    case OPT_LIFETIME:
        return credential_set_lifetime(c, value, err) < 0 ? err_ctx(err, err->code, "--lifetime") : 0;
    case OPT_INJECT:
        return take_inject(rd, value, err);
    }
    return take_place(rd, id, value, err);
}

/* The word is not repeated: it may be the value, and this message may go to a log. */
static int refuse_word(struct err *err) {
    return err_usage(
        err, "a second argument after the name: a value never comes by an argument, where other users ('ps') and the shell's "
             "history have it; give it by the standard input");
}

static int read_words(struct secret_reading *rd, struct opt_iter *it, struct err *err) {
    struct credential *c = &rd->q->c;
    int r;

    for (;;) {
        while ((r = opt_next(it, err)) > 0)
            if ((r = take(rd, it->id, it->value, err)) < 0)
                return r;
        if (r < 0 || it->pos >= it->argc)
            return r;
        if (c->name && str_eq(it->argv[it->pos - 1], "--"))
            break;
        if (c->name)
            return refuse_word(err);
        r = set_string(&c->name, it->argv[it->pos++], err);
        if (r < 0)
            return r;
    }
    for (; it->pos < it->argc; it->pos++)
        if (strv_add(&c->command, it->argv[it->pos]) < 0)
            return err_oom(err);
    return 0;
}

static int check(struct secret_reading *rd, struct err *err) {
    struct credential *c = &rd->q->c;

    if (!c->name)
        return err_usage(err, "which name? e.g. bawn secret set anthropic --host api.anthropic.com");
    if (rd->no_env && c->env.len)
        return err_usage(err, "--env and --no-env exclude each other");
    if (c->command.len && rd->store_given && c->store != STORE_COMMAND)
        return refuse_word(err);
    if (c->command.len)
        c->store = STORE_COMMAND;
    if (rd->q->refresh_token && !c->token_url)
        return err_usage(err, "--oauth-refresh-token needs --oauth-token-url");
    return 0;
}

int secret_request_read(int argc, char **argv, struct secret_request *ret, struct err *err) {
    CLEANUP(secret_request_done) struct secret_request q = {0};
    struct secret_reading rd = {.q = &q};
    struct opt_iter it = opt_iter_init(secret_set_opts, N_SECRET_SET_OPTS, argc, argv);
    int r = read_words(&rd, &it, err);

    r = r < 0 ? r : check(&rd, err);
    r = r < 0 ? r : credential_fill_known(&q.c, err);
    if (r == 0 && rd.no_env)
        strv_done(&q.c.env);
    r = r < 0 ? r : credential_check(&q.c, err);
    if (r < 0)
        return r;
    *ret = TAKE(q, (struct secret_request){0});
    return 0;
}
