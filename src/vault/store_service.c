/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/str.h"
#include "vault/service.h"
#include "vault/store.h"

static int keyring_value(const struct vault *v UNUSED, const struct credential *c, struct secret *ret, struct err *err) {
    return service_get(SERVICE_NAME, c->name, ret, err);
}

static int keyring_keep(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err) {
    CLEANUP(freep) char *label = str_dupf("Bawn: %s", c->name);
    int r = label ? vault_withdraw(v, c, err) : err_oom(err);

    return r < 0 ? r : service_put(SERVICE_NAME, c->name, label, value, err);
}

static int keyring_forget(const struct vault *v UNUSED, const struct credential *c, struct err *err) {
    return service_rm(SERVICE_NAME, c->name, err);
}

const struct store_ops store_service = {.get = keyring_value, .put = keyring_keep, .rm = keyring_forget};
