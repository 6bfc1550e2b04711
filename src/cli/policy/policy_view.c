/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the `bawn policy` commands. */
#include "cli/policy/policy_view.h"

#include "base/err.h"
#include "cli/changes/run_print.h"

int policy_print(const struct verb *self, const struct buf *b, int status) {
    struct err err = {0};

    return run_print_out(b, &err) < 0 ? verb_fail(self, &err) : status;
}
