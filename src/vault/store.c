/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stores, and the two simple ones: variables, the Secret Service. */
#include "vault/store.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "vault/service.h"

static int env_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err) {
    const char *value = vault_getenv(v, c->variable);
    int r;

    if (!value)
        return err_set(err, -ENOKEY, "the variable %s is not set here", c->variable);
    r = secret_set(ret, value, strlen(value));
    return r < 0 ? err_set(err, -E2BIG, "the variable %s has more than %d bytes", c->variable, VAULT_STORED_MAX) : 0;
}

static const struct store_ops store_env = {.get = env_get};

static int keyring_value(const struct vault *v UNUSED, const struct credential *c, struct secret *ret, struct err *err) {
    return service_get(SERVICE_NAME, c->name, ret, err);
}

static int keyring_put_value(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err) {
    CLEANUP(freep) char *label = str_dupf("Bawn: %s", c->name);
    int r = 0;

    if (!value)
        return service_rm(SERVICE_NAME, c->name, err);
    r = label ? vault_withdraw(v, c, err) : err_oom(err);
    return r < 0 ? r : service_put(SERVICE_NAME, c->name, label, value, err);
}

static const struct store_ops store_service = {.get = keyring_value, .put = keyring_put_value};

static const struct store_ops *const stores[] = {
    [STORE_FILE] = &store_file,
    [STORE_SECRET_SERVICE] = &store_service,
    [STORE_ENV] = &store_env,
    [STORE_COMMAND] = &store_command,
};
static_assert(ARRAY_LEN(stores) == CREDENTIAL_STORES, "one row for each store");

int store_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret value = {0};
    int r = secret_alloc(&value, VAULT_STORED_MAX);

    if (r < 0)
        return err_oom(err);
    r = stores[c->store]->get(v, c, &value, err);
    if (r == -ENOENT)
        return err_set(err, -ENOKEY, "secret '%s' has no value yet; '%s %s' asks for it", c->name,
                       c->token_url ? "bawn secret login" : "bawn secret set", c->name);
    if (r < 0)
        return err_ctx(err, r, "secret '%s'", c->name);
    *ret = TAKE(value, (struct secret){0});
    return 0;
}

int store_writable(const struct credential *c, struct err *err) {
    if (!stores[c->store]->put)
        return err_usage(err, "secret '%s' comes from %s%s: change it there", c->name,
                         c->store == STORE_ENV ? "the variable " : "a command", c->store == STORE_ENV ? c->variable : "");
    return 0;
}

int store_put(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err) {
    int r = store_writable(c, err);

    if (r < 0)
        return r;
    r = stores[c->store]->put(v, c, value, err);
    return r < 0 ? err_ctx(err, r, "secret '%s'", c->name) : 0;
}

int store_rm(const struct vault *v, const struct credential *c, struct err *err) {
    int r = stores[c->store]->put ? stores[c->store]->put(v, c, NULL, err) : 0;

    return r == -ENOENT ? 0 : r < 0 ? err_ctx(err, r, "secret '%s'", c->name) : 0;
}
