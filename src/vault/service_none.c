/* SPDX-License-Identifier: Apache-2.0 */
/* The Secret Service of a build without libsystemd. */
#include <errno.h>

#include "base/err.h"
#include "vault/service.h"

static int none(struct err *err) {
    return err_set(err, -ENOKEY, "the Secret Service is not built in: this bawn-vault was built without libsystemd");
}

int service_get(enum service_what what UNUSED, const char *id UNUSED, struct secret *ret UNUSED, struct err *err) {
    return none(err);
}

int service_put(enum service_what what UNUSED, const char *id UNUSED, const char *label UNUSED, const struct secret *value UNUSED,
                struct err *err) {
    return none(err);
}

int service_rm(enum service_what what UNUSED, const char *id UNUSED, struct err *err) {
    return none(err);
}
