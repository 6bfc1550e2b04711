/* SPDX-License-Identifier: Apache-2.0 */
/* Sets parts of a credential: from text, and from what is known of its host. */
#include <errno.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/credential/credential.h"
#include "policy/credential/credential_priv.h"

/* What people try, and why it cannot be. */
static int wrong_host(const char *text, struct err *err) {
    static const struct {
        const char *part, *why;
    } reasons[] = {
        {"http://", "a secret is never sent without TLS: give the name of the host, which is reached by https"},
        {"://", "give the name of the host, without https:// and path"},
        {"/", "give the name of the host, without path"},
        {"@", "give the name of the host, without a user"},
        {"*", "a secret is for hosts by their exact names: with a wildcard another owner's host could get it"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strstr(text, reasons[i].part))
            return err_usage(err, "%s", reasons[i].why);
    return 0;
}

int credential_add_host(struct credential *c, const char *text, struct err *err) {
    struct host h;
    uint16_t port;
    int r = wrong_host(text, err);

    if (r < 0)
        return r;
    r = host_parse_with_port(text, strlen(text), &h, &port, err);
    if (r == -EINVAL && err)
        err->status = EXIT_USAGE_ERR;
    if (r < 0)
        return r;
    if (credential_names(c, h.text, port ? port : 443))
        return 0;
    if (c->hosts.len == CREDENTIAL_HOSTS_MAX)
        return err_usage(err, "a secret has at most %d hosts", CREDENTIAL_HOSTS_MAX);
    r = strv_addf(&c->hosts, h.kind == HOST_IPV6 ? "[%s]" : "%s", h.text);
    if (r == 0 && port && port != 443) {
        char *with_port = str_dupf("%s:%u", c->hosts.v[c->hosts.len - 1], port);

        free(c->hosts.v[c->hosts.len - 1]);
        c->hosts.v[c->hosts.len - 1] = with_port;
        if (!with_port)
            c->hosts.len--;
        r = with_port ? 0 : -ENOMEM;
    }
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_header(struct credential *c, const char *text, struct err *err) {
    const char *colon = strchr(text, ':'), *format = "{}";
    int r;

    if (colon)
        format = colon + 1 + strspn(colon + 1, " ");
    if (strlen(text) > CREDENTIAL_TEXT_MAX)
        return err_usage(err, "a header is at most %d bytes", CREDENTIAL_TEXT_MAX);
    r = credential_set_text(&c->header, text, colon ? (size_t)(colon - text) : strlen(text));
    r = r < 0 ? r : credential_set_text(&c->format, format, strlen(format));
    c->place = PLACE_HEADER;
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_sigv4(struct credential *c, const char *text, struct err *err) {
    const char *slash = strchr(text, '/');
    int r;

    if (!slash)
        return err_usage(err, "must be REGION/SERVICE, as in eu-central-1/s3");
    r = credential_set_text(&c->region, text, (size_t)(slash - text));
    r = r < 0 ? r : credential_set_text(&c->service, slash + 1, strlen(slash + 1));
    c->place = PLACE_SIGV4;
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_lifetime(struct credential *c, const char *text, struct err *err) {
    uint64_t ms;
    int r = parse_duration(text, &ms, err);

    if (r < 0)
        return r;
    if (ms < 1000 || ms % 1000)
        return err_usage(err, "must be whole seconds");
    c->lifetime_s = ms / 1000;
    return 0;
}

/* -- what is known of well-known hosts ----------------------------------------------------------------------------- */

/* How the services that most people use want their keys, so that `bawn secret set openai --host api.openai.com` is enough. */
static const struct known {
    const char *host;
    const char *header; /* NULL: basic */
    const char *user;
    const char *env[2];
    const char *shape;
    uint32_t length;
} known[] = {
    {"api.anthropic.com", "x-api-key", NULL, {"ANTHROPIC_API_KEY"}, "sk-ant-api03-", 108},
    {"api.openai.com", "Authorization: Bearer {}", NULL, {"OPENAI_API_KEY"}, "sk-proj-", 164},
    {"generativelanguage.googleapis.com", "x-goog-api-key", NULL, {"GEMINI_API_KEY"}, "AIza", 39},
    {"openrouter.ai", "Authorization: Bearer {}", NULL, {"OPENROUTER_API_KEY"}, "sk-or-v1-", 73},
    {"api.groq.com", "Authorization: Bearer {}", NULL, {"GROQ_API_KEY"}, "gsk_", 56},
    {"api.mistral.ai", "Authorization: Bearer {}", NULL, {"MISTRAL_API_KEY"}, "", 32},
    {"api.x.ai", "Authorization: Bearer {}", NULL, {"XAI_API_KEY"}, "xai-", 84},
    {"api.deepseek.com", "Authorization: Bearer {}", NULL, {"DEEPSEEK_API_KEY"}, "sk-", 35},
    {"huggingface.co", "Authorization: Bearer {}", NULL, {"HF_TOKEN"}, "hf_", 37},
    {"api.github.com", "Authorization: Bearer {}", NULL, {"GH_TOKEN", "GITHUB_TOKEN"}, "ghp_", 40},
    {"github.com", NULL, "x-access-token", {NULL}, "ghp_", 40},
    {"gitlab.com", "PRIVATE-TOKEN", NULL, {"GITLAB_TOKEN"}, "glpat-", 30},
    {"registry.npmjs.org", "Authorization: Bearer {}", NULL, {"NPM_TOKEN"}, "npm_", 40},
    {"pypi.org", NULL, "__token__", {"TWINE_PASSWORD"}, "pypi-", 180},
    {"upload.pypi.org", NULL, "__token__", {"TWINE_PASSWORD"}, "pypi-", 180},
};

static const struct known *find_known(const struct credential *c) {
    for (size_t i = 0; c->hosts.len && i < ARRAY_LEN(known); i++)
        if (str_eq(known[i].host, c->hosts.v[0]))
            return &known[i];
    return NULL;
}

static int fill_place(struct credential *c, const struct known *k, struct err *err) {
    if (c->place != PLACE_HEADER || c->header)
        return 0;
    if (!k || k->header || c->token_url)
        return credential_set_header(c, k && !c->token_url ? k->header : "Authorization: Bearer {}", err);
    c->place = PLACE_BASIC;
    return credential_set_text(&c->user, k->user, strlen(k->user)) < 0 ? err_oom(err) : 0;
}

static int fill_env(struct credential *c, const struct known *k, struct err *err) {
    if (!k || c->env.len || c->place == PLACE_SIGV4)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(k->env) && k->env[i]; i++)
        if (strv_add(&c->env, k->env[i]) < 0)
            return err_oom(err);
    return 0;
}

int credential_fill_known(struct credential *c, struct err *err) {
    const struct known *k = find_known(c);
    int r = fill_place(c, k, err);

    r = r < 0 ? r : fill_env(c, k, err);
    if (r < 0 || c->shape)
        return r;
    k = c->place == PLACE_SIGV4 ? NULL : k;
    if (credential_set_text(&c->shape, k ? k->shape : "", PLACEHOLDER_SHAPE_MAX) < 0)
        return err_oom(err);
    c->length = k && !c->length ? k->length : c->length;
    return 0;
}

/* -- where a login in a browser comes back to ---------------------------------------------------------------------- */

enum { PORT_MIN = 1024, PATH_MAX_LEN = 256 };

/* No query and no fragment: what follows the path is the service's answer. */
static bool path_ok(const char *path) {
    static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

    return path[0] == '/' && strlen(path) <= PATH_MAX_LEN && path[strspn(path, bytes)] == 0;
}

static int read_port(const char *text, size_t len, uint16_t *ret) {
    char digits[sizeof "65535"];
    uint64_t port;

    if (len == 0 || len >= sizeof digits)
        return -EINVAL;
    memcpy(digits, text, len);
    digits[len] = 0;
    if (parse_u64(digits, PORT_MIN, UINT16_MAX, &port, NULL) < 0)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

int credential_redirect_parse(const char *uri, struct credential_redirect *ret) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    static const char scheme[] = "http://";

    for (size_t i = 0; str_starts(uri, scheme) && i < ARRAY_LEN(hosts); i++) {
        struct credential_redirect r = {.path = uri + strlen(scheme) + strlen(hosts[i])};

        if (!str_starts(uri + strlen(scheme), hosts[i]))
            continue;
        if (r.path[0] == ':') {
            size_t n = strcspn(r.path + 1, "/");

            if (read_port(r.path + 1, n, &r.port) < 0)
                return -EINVAL;
            r.path += 1 + n;
        }
        snprintf(r.host, sizeof r.host, "%s", hosts[i]);
        if (!path_ok(r.path))
            return -EINVAL;
        *ret = r;
        return 0;
    }
    return -EINVAL;
}
