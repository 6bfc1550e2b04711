/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/err.h"
#include "cli/verb.h"

enum { OPT_JSON = 1 };

static const struct opt opts[] = {
    {OPT_JSON, 0, "json", NULL, "as JSON", NULL},
};

static int run_version(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    struct err err = {0};
    bool json = false;
    int r;

    while ((r = opt_next(&it, &err)) > 0)
        json = true;
    if (r < 0)
        return verb_fail(self, &err);
    printf(json ? "{\"version\":\"%s\"}\n" : "bawn %s\n", BAWN_VERSION);
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
