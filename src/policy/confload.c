/* SPDX-License-Identifier: Apache-2.0 */
/* From the memfd of a configuration to a policy. */
#include "policy/confload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"

int confload_read(int memfd, struct gate_config *ret, struct err *err) {
    off_t size = lseek(memfd, 0, SEEK_END); /* fstat(3) is a call with a path in it, which the jails have not */
    ssize_t n;
    char *bytes;
    int r;

    if (size < 0 || size > GATE_CONFIG_MAX)
        return err_set(err, -EBADMSG, "the configuration has no size that can be");
    bytes = malloc((size_t)size + 1);
    if (!bytes)
        return err_oom(err);
    n = fd_pread_full(memfd, bytes, (size_t)size, 0);
    r = n == size ? 0 : err_sys(err, n < 0 ? (int)n : -EBADMSG, "read the configuration");
    if (r == 0 && gate_config_decode(bytes, (size_t)size, ret) < 0)
        r = err_set(err, -EBADMSG, "the configuration cannot be understood");
    explicit_bzero(bytes, (size_t)size); /* a proxy's password may be in it */
    free(bytes);
    return r;
}

int confload_policy(const struct gate_config *c, struct policy *ret, struct err *err) {
    CLEANUP(policy_done) struct policy p = {0};
    int r;

    if (c->mode >= NET_MODES)
        return err_set(err, -EBADMSG, "there is no network mode %u", c->mode);
    r = policy_init(&p, (enum net_mode)c->mode, c->can_ask, err);
    for (size_t i = 0; r == 0 && i < c->n_layers; i++) {
        const struct gate_layer *l = &c->layers[i];
        CLEANUP(rules_done) struct rules rules = {0};

        r = l->kind < LAYERS ? rules_read(l->name, l->text, strlen(l->text), &rules, err)
                             : err_set(err, -EBADMSG, "there is no layer %u", l->kind);
        if (r == 0)
            policy_set_layer(&p, (enum policy_layer_kind)l->kind, &rules, l->narrow_only);
    }
    if (r == 0)
        *ret = TAKE(p, (struct policy){0});
    return r;
}
