/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the credentials of well-known hosts. */
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"

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
