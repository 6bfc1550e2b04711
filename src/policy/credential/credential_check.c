/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a credential's definition and value. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static bool only(const char *s, const char *allowed) {
    return s[0] && s[strspn(s, allowed)] == 0;
}

static bool has_control(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return true;
    return false;
}

bool credential_name_ok(const char *name) {
    return strlen(name) <= CREDENTIAL_NAME_MAX && only(name, LETTERS DIGITS "._-") && !strchr("._-", name[0]);
}

/* With these a value would decide where a request ends or goes (request smuggling, CWE-444). */
static const char *const never_headers[] = {
    "host",   "connection",       "content-length", "transfer-encoding", "te", "trailer", "upgrade",
    "expect", "proxy-connection", "keep-alive",     "http2-settings",
};

static int check_header(const struct credential *c, struct err *err) {
    const char *hole;

    if (!c->header || !c->format || !only(c->header, LETTERS DIGITS "!#$%&'*+-.^_`|~"))
        return err_usage(err, "a header is its name, or name and value with {} for the secret: \"Authorization: Bearer {}\"");
    for (size_t i = 0; i < ARRAY_LEN(never_headers); i++)
        if (strcasecmp(c->header, never_headers[i]) == 0)
            return err_usage(err, "the header '%s' is part of how HTTP itself works: no secret goes there", c->header);
    hole = strstr(c->format, "{}");
    if (!hole || strstr(hole + 2, "{}") || has_control(c->format, strlen(c->format)))
        return err_usage(err, "the value of a header needs {} once, where the secret goes, and no control characters");
    return 0;
}

static int check_basic(const struct credential *c, struct err *err) {
    if (!c->user || strchr(c->user, ':') || has_control(c->user, strlen(c->user)))
        return err_usage(err, "the user of basic authentication has no ':' and no control characters");
    return 0;
}

static int check_query(const struct credential *c, struct err *err) {
    if (!c->query || !only(c->query, LETTERS DIGITS "._~-"))
        return err_usage(err, "the name of a query parameter has letters, digits, '.', '_', '~' and '-' only");
    return 0;
}

static int check_sigv4(const struct credential *c, struct err *err) {
    if (!c->region || !c->service || !only(c->region, LETTERS DIGITS "-") || !only(c->service, LETTERS DIGITS "-"))
        return err_usage(err, "sigv4 needs REGION/SERVICE, as in eu-central-1/s3");
    if (c->env.len)
        return err_usage(err, "with sigv4 the variables are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: no others can be given");
    return 0;
}

static int (*const place_checks[CREDENTIAL_PLACES])(const struct credential *c, struct err *err) = {
    [PLACE_HEADER] = check_header, [PLACE_BASIC] = check_basic, [PLACE_QUERY] = check_query, [PLACE_SIGV4] = check_sigv4};

static int check_hosts(const struct credential *c, struct err *err) {
    struct host h;
    uint16_t port;

    if (c->hosts.len == 0)
        return err_usage(err, "a secret needs a host that it is for");
    if (c->hosts.len > CREDENTIAL_HOSTS_MAX)
        return err_usage(err, "a secret has at most %d hosts", CREDENTIAL_HOSTS_MAX);
    for (size_t i = 0; i < c->hosts.len; i++)
        if (host_parse_with_port(c->hosts.v[i], strlen(c->hosts.v[i]), &h, &port, err) < 0)
            return -EINVAL;
    return 0;
}

/* What a command inside is found, loaded or steered by: a placeholder there could only break the sandbox. */
static bool variable_taken(const char *name) {
    static const char *const taken[] = {"PATH", "HOME", "USER", "SHELL", "TERM", "SSH_AUTH_SOCK"};

    return str_index(name, taken, ARRAY_LEN(taken)) >= 0 || str_starts(name, "LD_") || str_starts(name, "BAWN_");
}

static int check_env(const struct credential *c, struct err *err) {
    if (c->env.len > CREDENTIAL_ENV_MAX)
        return err_usage(err, "a secret has at most %d variables", CREDENTIAL_ENV_MAX);
    for (size_t i = 0; i < c->env.len; i++) {
        const char *name = c->env.v[i];

        if (!only(name, LETTERS DIGITS "_") || strchr(DIGITS, name[0]) || strlen(name) > CREDENTIAL_TEXT_MAX)
            return err_usage(err, "a variable's name has letters, digits and '_' only, and begins with no digit");
        if (variable_taken(name))
            return err_usage(err, "the variable %s has another meaning inside: no placeholder goes there", name);
    }
    return 0;
}

static int check_placeholder(const struct credential *c, struct err *err) {
    size_t len = c->shape ? strlen(c->shape) : 0;

    if (len > PLACEHOLDER_SHAPE_MAX || (len && !only(c->shape, LETTERS DIGITS "._~-")))
        return err_usage(err, "a shape has at most %d letters, digits, '.', '_', '~' and '-'", PLACEHOLDER_SHAPE_MAX);
    if (c->length > PLACEHOLDER_MAX)
        return err_usage(err, "a placeholder is at most %d characters long", PLACEHOLDER_MAX);
    return 0;
}

static int check_store(const struct credential *c, struct err *err) {
    if (c->store == STORE_ENV && (!c->variable || !only(c->variable, LETTERS DIGITS "_") || strchr(DIGITS, c->variable[0])))
        return err_usage(err, "the store \"env\" needs the name of a variable");
    if (c->store != STORE_ENV && c->variable)
        return err_usage(err, "\"variable\" is for the store \"env\" only");
    if (c->store == STORE_COMMAND && (c->command.len == 0 || !c->command.v[0][0]))
        return err_usage(err, "the store \"command\" needs a command");
    if (c->command.len > CREDENTIAL_COMMAND_MAX)
        return err_usage(err, "a command has at most %d words", CREDENTIAL_COMMAND_MAX);
    if (c->store != STORE_COMMAND && (c->command.len || c->lifetime_s))
        return err_usage(err, "\"%s\" is for the store \"command\" only", c->command.len ? "command" : "lifetime");
    return 0;
}

/* Without TLS only to this machine itself: tokens come back from there. */
static bool url_ok(const char *url) {
    static const char *const begins[] = {"https://", "http://127.0.0.1:", "http://127.0.0.1/",
                                         "http://[::1]:", "http://localhost:"};
    size_t i = 0;

    while (i < ARRAY_LEN(begins) && !str_starts(url, begins[i]))
        i++;
    if (i == ARRAY_LEN(begins) || !url[strlen(begins[i])] || strpbrk(url + 8, " \"<>\\^`{|}#@"))
        return false;
    for (const char *p = url; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return false;
    return true;
}

static int check_oauth(const struct credential *c, struct err *err) {
    const char *const urls[] = {c->token_url, c->device_url, c->authorize_url};

    if (!c->token_url && (c->device_url || c->authorize_url || c->client_id || c->scope || c->redirect_uri))
        return err_usage(err, "oauth needs a token_url");
    if (!c->token_url)
        return 0;
    if (!c->client_id || !c->client_id[0])
        return err_usage(err, "oauth needs a client_id");
    for (size_t i = 0; i < ARRAY_LEN(urls); i++)
        if (urls[i] && !url_ok(urls[i]))
            return err_usage(err, "a URL of oauth begins with https:// and has no user, fragment or spaces");
    if (c->redirect_uri && credential_redirect_parse(c->redirect_uri, &(struct credential_redirect){0}) < 0)
        return err_usage(err, "a redirect_uri is http://localhost, http://127.0.0.1 or http://[::1], with a port above 1023 or "
                              "none, and a path: \"http://localhost:1455/auth/callback\"");
    if (c->place != PLACE_HEADER || strcasecmp(c->header, "authorization") != 0 || !str_eq(c->format, "Bearer {}"))
        return err_usage(err, "with oauth the secret goes into \"Authorization: Bearer {}\"");
    if (c->store != STORE_FILE && c->store != STORE_SECRET_SERVICE)
        return err_usage(err, "with oauth the store is \"file\" or \"secret-service\": new tokens have to be stored");
    return 0;
}

static int check_lengths(const struct credential *c, struct err *err) {
    for (size_t i = 0; i < CREDENTIAL_N_TEXTS; i++) {
        const char *s = *credential_text(c, i);

        if (s && (strlen(s) > CREDENTIAL_TEXT_MAX || has_control(s, strlen(s))))
            return err_usage(err, "a text is longer than %d bytes, or has control characters", CREDENTIAL_TEXT_MAX);
    }
    for (size_t i = 0; i < c->command.len; i++)
        if (strlen(c->command.v[i]) > CREDENTIAL_TEXT_MAX)
            return err_usage(err, "a word of the command is longer than %d bytes", CREDENTIAL_TEXT_MAX);
    return 0;
}

int credential_check(const struct credential *c, struct err *err) {
    static int (*const checks[])(const struct credential *c, struct err *err) = {
        check_lengths, check_hosts, check_env, check_placeholder, check_store,
    };
    int r = 0;

    if (!c->name || !credential_name_ok(c->name))
        return err_usage(err,
                         "the name of a secret has 1 to %d letters, digits, '.', '_' and '-', and begins with a letter or "
                         "digit",
                         CREDENTIAL_NAME_MAX);
    if (c->place >= CREDENTIAL_PLACES || c->store >= CREDENTIAL_STORES)
        return err_usage(err, "unknown place or store");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(checks); i++)
        r = checks[i](c, err);
    r = r < 0 ? r : place_checks[c->place](c, err);
    return r < 0 ? r : check_oauth(c, err);
}

/* "KEY-ID:SECRET" or "KEY-ID:SECRET:SESSION-TOKEN". */
static bool sigv4_value_ok(const char *value, size_t len) {
    const char *end = value + len, *secret = memchr(value, ':', len), *token;
    size_t secret_len;

    if (!secret || secret - value < 16)
        return false;
    for (const char *p = value; p < secret; p++)
        if (!*p || !strchr(LETTERS DIGITS "_", *p))
            return false;
    secret++;
    token = memchr(secret, ':', (size_t)(end - secret));
    secret_len = (size_t)((token ? token : end) - secret);
    if (secret_len < 16 || memchr(value, ' ', len))
        return false;
    return !token || (token + 1 < end && !memchr(token + 1, ':', (size_t)(end - token - 1)));
}

int credential_value_check(const struct credential *c, const char *value, size_t len, struct err *err) {
    if (len == 0)
        return err_usage(err, "the value is empty");
    if (len > CREDENTIAL_VALUE_MAX)
        return err_usage(err, "the value is longer than %d bytes", CREDENTIAL_VALUE_MAX);
    if (len < CREDENTIAL_VALUE_MIN)
        return err_usage(err, "the value is shorter than %d bytes: it could not be covered in answers", CREDENTIAL_VALUE_MIN);
    if (has_control(value, len))
        return err_usage(err, "the value has a line break, a NUL or another control character in it");
    if (c->place == PLACE_SIGV4 && !sigv4_value_ok(value, len))
        return err_usage(err, "with sigv4 the value is KEY-ID:SECRET-KEY or KEY-ID:SECRET-KEY:SESSION-TOKEN");
    return 0;
}
