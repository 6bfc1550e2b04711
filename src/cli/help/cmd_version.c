/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn version`. */
#include <stdio.h>

#include "base/err.h"
#include "cli/verb.h"

struct version_request {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "as JSON", NULL, OPT_TO_FLAG(struct version_request, json)},
};

static int run_version(const struct verb *self, int argc, char **argv) {
    struct version_request q = {0};
    struct err err = {0};

    if (opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err) < 0)
        return verb_fail(self, &err);
    printf(q.json ? "{\"version\":\"%s\"}\n" : "bawn %s\n", BAWN_VERSION);
    return 0;
}

const struct verb verb_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "[--json]",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_version,
};
