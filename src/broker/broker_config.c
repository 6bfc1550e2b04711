/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "broker/broker.h"
#include "broker/values/values.h"
#include "policy/confload.h"

int broker_configure(struct broker *b, int memfd, struct err *err) {
    CLEANUP(gate_config_done) struct gate_config config = {0};
    CLEANUP(policy_done) struct policy policy = {0};
    int r = confload_read(memfd, &config, err);

    r = r < 0 ? r : confload_policy(&config, &policy, err);
    if (r < 0)
        return r;
    values_reload(b, &config);
    policy = TAKE(b->policy, policy);
    config = TAKE(b->config, config); /* the old ones go with the end of this function */
    b->configured = true;
    ssh_configured(b);
    return 0;
}
