/* SPDX-License-Identifier: Apache-2.0 */
/* Reads docker's configuration and asks its helpers. */
#include "vault/docker_login.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "vault/store.h"
#include "vault/vault.h"

enum { CONFIG_MAX = 1 << 20, HELPER_NAME_MAX = 64, KEY_MAX = 320 };

static void config_free(json_t **j) {
    json_decref(*j);
}

/* -- the file ----------------------------------------------------------------------------------------------------------- */

static int config_path(const struct vault *v, int which, char **ret, struct err *err) {
    const char *docker = vault_getenv(v, "DOCKER_CONFIG"), *podman = vault_getenv(v, "REGISTRY_AUTH_FILE"),
               *runtime = vault_getenv(v, "XDG_RUNTIME_DIR");
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(v->environ_, &home, err);

    if (r < 0)
        return r;
    if (which == 0)
        *ret = docker ? str_dupf("%s/config.json", docker) : home ? str_dupf("%s/.docker/config.json", home) : strdup("");
    else
        *ret = podman ? strdup(podman) : runtime ? str_dupf("%s/containers/auth.json", runtime) : strdup("");
    return *ret ? 0 : err_oom(err);
}

/* NULL: there is none. */
static int config_read(const char *path, json_t **ret, struct err *err) {
    CLEANUP(closep) int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    CLEANUP(secret_done) struct secret text = {0};
    ssize_t n;

    if (fd < 0)
        return 0;
    if (secret_alloc(&text, CONFIG_MAX) < 0)
        return err_oom(err);
    n = fd_read_full(fd, text.p, CONFIG_MAX);
    if (n < 0 || n == CONFIG_MAX)
        return err_sys(err, n < 0 ? (int)n : -EFBIG, "read '%s'", path);
    *ret = json_loadb(text.p, (size_t)n, 0, NULL);
    return *ret || n == 0 ? 0 : err_set(err, -EBADMSG, "'%s' is not valid JSON: the login of the registry is not used", path);
}

/* -- its entries -------------------------------------------------------------------------------------------------------- */

/* By what names docker knows a registry. 0: all were tried. */
static bool key_of(const char *host, int i, char ret[static KEY_MAX]) {
    static const char *const forms[] = {"%s", "https://%s", "https://%s/v1/", "https://%s/v2/", "http://%s"};
    static const char *const hub[] = {"https://index.docker.io/v1/", "index.docker.io", "docker.io", "https://index.docker.io",
                                      "https://docker.io"};
    bool is_hub = str_eq(host, "docker.io");

    if ((size_t)i >= ARRAY_LEN(forms))
        return false;
    if (is_hub)
        snprintf(ret, KEY_MAX, "%s", hub[i]);
    else
        snprintf(ret, KEY_MAX, forms[i], host);
    return true;
}

static int take_pair(const char *user, const char *secret, struct secret *ret) {
    size_t u = strlen(user), s = strlen(secret);

    if (!s || secret_alloc(ret, u + s + 2) < 0)
        return s ? -ENOMEM : 0;
    memcpy(ret->p, user, u + 1);
    memcpy(ret->p + u + 1, secret, s);
    ret->len = u + 1 + s;
    return 0;
}

/* "auth": base64 of "user:secret". */
static int take_auth(const char *auth, struct secret *ret) {
    CLEANUP(secret_done) struct secret plain = {0};
    size_t len = strlen(auth);
    char *colon;
    int n;

    if (len == 0 || len > CONFIG_MAX || len % 4 || secret_alloc(&plain, len + 1) < 0)
        return 0;
    n = EVP_DecodeBlock((unsigned char *)plain.p, (const unsigned char *)auth, (int)len);
    if (n < 0)
        return 0;
    plain.p[n] = 0; /* padding is NULs at its end */
    colon = memchr(plain.p, ':', (size_t)n);
    if (!colon)
        return 0;
    *colon = 0;
    return take_pair(plain.p, colon + 1, ret);
}

static int ask_helper(const struct vault *v, const char *name, const char *key, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret answer = {0};
    CLEANUP(config_free) json_t *doc = NULL;
    CLEANUP(freep) char *program = str_dupf("docker-credential-%s", name);
    char *argv[] = {program, "get", NULL};
    CLEANUP(closep) int in = fd_memory("registry", key, strlen(key));
    struct err failed = {0};
    int r;

    if (strchr(name, '/') || strlen(name) > HELPER_NAME_MAX)
        return err_usage(err, "'%.80s' in docker's configuration is not the name of a credential helper", name);
    if (!program || in < 0 || secret_alloc(&answer, VAULT_STORED_MAX) < 0)
        return err_oom(err);
    r = store_command_run(v, argv, in, &answer, &failed);
    if (r < 0) /* it has no such login, which it says by failing; or it is not there */
        return r == -ETIMEDOUT ? err_ctx(&failed, r, "docker's credential helper") : 0;
    doc = json_loadb(answer.p, answer.len, 0, NULL);
    return take_pair(json_get_text(doc, "Username"), json_get_text(doc, "Secret"), ret) < 0 ? err_oom(err) : 0;
}

static int look_in(const struct vault *v, const json_t *doc, const char *host, struct secret *ret, struct err *err) {
    const json_t *helpers = json_object_get(doc, "credHelpers"), *auths = json_object_get(doc, "auths");
    const char *store = json_get_text(doc, "credsStore");
    char key[KEY_MAX];
    int r = 0;

    for (int i = 0; r == 0 && !ret->len && key_of(host, i, key); i++)
        if (json_get_text(helpers, key)[0])
            r = ask_helper(v, json_get_text(helpers, key), key, ret, err);
    for (int i = 0; r == 0 && !ret->len && store[0] && key_of(host, i, key); i++)
        if (json_object_get(auths, key) || i == 0)
            r = ask_helper(v, store, key, ret, err);
    for (int i = 0; r == 0 && !ret->len && key_of(host, i, key); i++) {
        const json_t *entry = json_object_get(auths, key);

        r = take_auth(json_get_text(entry, "auth"), ret);
        if (r == 0 && !ret->len)
            r = take_pair(json_get_text(entry, "username"), json_get_text(entry, "password"), ret);
        if (r < 0)
            r = err_oom(err);
    }
    return r;
}

int docker_login_get(const struct vault *v, const char *host, struct secret *ret, struct err *err) {
    int r = 0;

    for (int which = 0; r == 0 && !ret->len && which < 2; which++) {
        CLEANUP(config_free) json_t *doc = NULL;
        CLEANUP(freep) char *path = NULL;

        r = config_path(v, which, &path, err);
        r = r < 0 ? r : config_read(path, &doc, err);
        r = r < 0 || !doc ? r : look_in(v, doc, host, ret, err);
    }
    return r;
}
