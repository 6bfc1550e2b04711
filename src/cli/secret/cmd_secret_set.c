/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn secret set`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/secret/secret_change.h"
#include "ops/secret/secret_view.h"

struct secret_reading {
    struct secret_set set; /* first: callbacks for it get the whole */
    const char *placed;    /* the option that said where it goes */
    bool no_env, store_given;
};

static void reading_done(struct secret_reading *rd) {
    credential_done(&rd->set.c);
}

static int set_user(struct credential *c, const char *value, struct err *err) {
    c->place = PLACE_BASIC;
    return str_set(&c->user, value) < 0 ? err_oom(err) : 0;
}

static int set_query(struct credential *c, const char *value, struct err *err) {
    c->place = PLACE_QUERY;
    return str_set(&c->query, value) < 0 ? err_oom(err) : 0;
}

/* By the option's name. It goes to one place only. */
static int take_part(const struct opt *o, const char *value, void *reading, struct err *err) {
    static const struct {
        const char *name;
        int (*set)(struct credential *c, const char *value, struct err *err);
        bool place;
    } parts[] = {{"host", credential_add_host, false},
                 {"lifetime", credential_set_lifetime, false},
                 {"header", credential_set_header, true},
                 {"sigv4", credential_set_sigv4, true},
                 {"basic", set_user, true},
                 {"query", set_query, true}};
    struct secret_reading *rd = reading;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (str_eq(parts[i].name, o->name)) {
            int r;

            if (parts[i].place && rd->placed)
                return err_usage(err, "--%s and --%s exclude each other", rd->placed, o->name);
            rd->placed = parts[i].place ? o->name : rd->placed;
            r = parts[i].set(&rd->set.c, value, err);
            return r < 0 ? err_ctx(err, r, "--%s", o->name) : 0;
        }
    BUG("an option for no part");
}

static int take_store(const struct opt *o UNUSED, const char *value, void *reading, struct err *err) {
    struct secret_reading *rd = reading;
    struct credential *c = &rd->set.c;
    bool env = str_starts(value, "env:");
    int store = env ? STORE_ENV : str_index(value, credential_store_names, CREDENTIAL_STORES);

    rd->store_given = true;
    if (store < STORE_FILE || (store == STORE_ENV && !env))
        return err_usage(err, "--store takes file, secret-service, env:VAR or command");
    c->store = (enum credential_store)store;
    return env && str_set(&c->variable, value + strlen("env:")) < 0 ? err_oom(err) : 0;
}

static int take_inject(const struct opt *o UNUSED, const char *value, void *only_placeholder, struct err *err) {
    bool *only = only_placeholder;

    *only = str_eq(value, "placeholder");
    return *only || str_eq(value, "always") ? 0 : err_usage(err, "--inject takes always or placeholder");
}

#define TO(kind, member) OPT_TO_##kind(struct secret_reading, member)
#define CALL(member, fn) OPT_TO_CALL(struct secret_reading, member, fn)
static const struct opt opts[] = {
    {0, 0, "host", "HOST[:PORT]", "for this host, by its exact name and by https (may be repeated)", NULL, CALL(set, take_part)},
    {0, 0, "header", "HEADER", "it goes into this header: 'x-api-key', or 'Authorization: Bearer {}' (default)", NULL,
     CALL(set, take_part)},
    {0, 0, "basic", "USER", "it is the password of this user (basic authentication)", NULL, CALL(set, take_part)},
    {0, 0, "query", "KEY", "it is the query parameter of this name", NULL, CALL(set, take_part)},
    {0, 0, "sigv4", "REGION/SERVICE", "it signs requests as AWS wants it", NULL, CALL(set, take_part)},
    {0, 0, "env", "VAR", "this variable inside has the placeholder (may be repeated)", NULL, TO(LIST, set.c.env)},
    {0, 0, "no-env", NULL, "no variable has it", NULL, TO(FLAG, no_env)},
    {0, 0, "store", "STORE", "where the value is: file (default; encrypted), secret-service, env:VAR or command",
     "file|secret-service|env:|command", CALL(set, take_store)},
    {0, 0, "lifetime", "TIME", "with a command: how long its answer is good, e.g. 10m (default: the whole run)", NULL,
     CALL(set, take_part)},
    {0, 0, "inject", "WHEN", "always (default), or placeholder: only into requests that have the placeholder in its place",
     "always|placeholder", CALL(set.c.only_placeholder, take_inject)},
    {0, 0, "oauth-token-url", "URL", "it is an OAuth token that is renewed here", NULL, TO(COPY, set.c.token_url)},
    {0, 0, "oauth-device-url", "URL", "where 'bawn secret login' begins", NULL, TO(COPY, set.c.device_url)},
    {0, 0, "oauth-authorize-url", "URL", "the page of the service on which programs inside want you to log in", NULL,
     TO(COPY, set.c.authorize_url)},
    {0, 0, "oauth-redirect-uri", "URI",
     "where that page sends the browser back to (default: http://localhost/callback, at any free port)", NULL,
     TO(COPY, set.c.redirect_uri)},
    {0, 0, "oauth-client-id", "ID", "how the service knows the program", NULL, TO(COPY, set.c.client_id)},
    {0, 0, "oauth-scope", "SCOPE", "what the tokens are to allow", NULL, TO(COPY, set.c.scope)},
    {0, 0, "oauth-refresh-token", NULL, "read a refresh token from the standard input instead of logging in", NULL,
     TO(FLAG, set.refresh_token)},
    {0, 0, "replace", NULL, "take the place of the secret that has this name", NULL, TO(FLAG, set.replace)},
};

/* The word is not repeated: it may be the value, and this message may go to a log. */
static int refuse_word(struct err *err) {
    return err_usage(
        err, "a second argument after the name: a value never comes by an argument, where other users ('ps') and the shell's "
             "history have it; give it by the standard input");
}

/* Only what follows a "--" behind the name is a command. */
static int read_words(struct secret_reading *rd, struct opt_iter *it, struct err *err) {
    struct credential *c = &rd->set.c;
    int r;

    while ((r = opt_fill(it, rd, err)) == 0 && it->pos < it->argc) {
        if (c->name && str_eq(it->argv[it->pos - 1], "--"))
            break;
        if (c->name)
            return refuse_word(err);
        if (str_set(&c->name, it->argv[it->pos++]) < 0)
            return err_oom(err);
    }
    for (; r == 0 && it->pos < it->argc; it->pos++)
        if (strv_add(&c->command, it->argv[it->pos]) < 0)
            return err_oom(err);
    return r;
}

static int check_reading(struct secret_reading *rd, struct err *err) {
    struct credential *c = &rd->set.c;

    if (!c->name)
        return err_usage(err, "name the secret, e.g. bawn secret set anthropic --host api.anthropic.com");
    if (rd->no_env && c->env.len)
        return err_usage(err, "--env and --no-env exclude each other");
    if (c->command.len && rd->store_given && c->store != STORE_COMMAND)
        return refuse_word(err);
    if (c->command.len)
        c->store = STORE_COMMAND;
    if (rd->set.refresh_token && !c->token_url)
        return err_usage(err, "--oauth-refresh-token needs --oauth-token-url");
    return 0;
}

/* Filled with what is known about its host, and checked. */
static int read_definition(const struct verb_call *c, struct secret_reading *rd, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), c->argc, c->argv);
    int r = read_words(rd, &it, err);

    r = r < 0 ? r : check_reading(rd, err);
    r = r < 0 ? r : credential_fill_known(&rd->set.c, err);
    if (r == 0 && rd->no_env)
        strv_done(&rd->set.c.env);
    rd->set.c.no_env = rd->no_env && rd->set.c.place == PLACE_SIGV4;
    return r < 0 ? r : credential_check(&rd->set.c, err);
}

static void print_set(const struct secret_set_result *done, bool has_tokens) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    const struct credential *c = done->c;

    secret_add_place(c, &b);
    buf_adds(&b, " for ");
    for (size_t i = 0; i < c->hosts.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "", c->hosts.v[i]);
    for (size_t i = 0; i < c->env.len; i++)
        buf_addf(&b, "%s%s", i ? ", " : "; inside, the placeholder is in ", c->env.v[i]);
    log_line("secret '%s' set: %s", c->name, buf_str(&b));
    if (c->device_url && !has_tokens)
        log_line("now get its tokens: 'bawn secret login %s'", c->name);
    else if (c->token_url && !has_tokens)
        log_line("its tokens are stored when a sandbox gets them");
    verb_say(&done->notes);
}

static int run_secret_set(struct verb_call *c, struct err *err) {
    CLEANUP(secret_set_result_done) struct secret_set_result done = SECRET_SET_RESULT_INIT;
    CLEANUP(reading_done) struct secret_reading rd = {0};
    int r = read_definition(c, &rd, err);

    r = r < 0 ? r : secret_define(&rd.set, &done, err);
    if (r < 0)
        return r;
    if (done.status == 0)
        print_set(&done, rd.set.refresh_token);
    return done.status;
}

const struct verb verb_secret_set = {
    .name = "secret set",
    .summary = "keep a secret for requests to a host",
    .synopsis = "NAME --host HOST [options] [-- COMMAND [ARG...]]",
    .description =
        "Keeps a secret for requests to a host. Sandboxes see a placeholder only; the value is put into requests to exactly "
        "this host outside of them, and taken out of the answers. It is read from the standard input, or asked for without "
        "echo on a terminal. For hosts that Bawn knows (api.anthropic.com, api.openai.com, api.github.com, "
        "registry.npmjs.org, ...) header and variables need not be said.\n\n"
        "    bawn secret set anthropic --host api.anthropic.com\n"
        "    bawn secret set forge --host git.example.com:8443 --basic me < token.txt\n"
        "    bawn secret set maps --host maps.example.com --query key --store env:MAPS_KEY\n"
        "    bawn secret set github --host api.github.com --lifetime 10m --store command -- op read op://work/github/token\n"
        "    bawn secret set aws --host s3.eu-central-1.amazonaws.com --sigv4 eu-central-1/s3\n\n"
        "With --sigv4 the value is KEY-ID:SECRET-KEY, or KEY-ID:SECRET-KEY:SESSION-TOKEN.",
    VERB_OPTS(opts),
    .run = run_secret_set,
};
