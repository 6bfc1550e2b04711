/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "vault/store.h"

static int env_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err) {
    const char *value = vault_getenv(v, c->variable);
    int r;

    if (!value)
        return err_set(err, -ENOKEY, "the variable %s is not set here", c->variable);
    r = secret_set(ret, value, strlen(value));
    return r < 0 ? err_set(err, -E2BIG, "the variable %s has more than %d bytes", c->variable, VAULT_STORED_MAX) : 0;
}

const struct store_ops store_env = {.get = env_get};
