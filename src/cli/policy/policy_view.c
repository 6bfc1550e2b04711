/* SPDX-License-Identifier: Apache-2.0 */
/* Words and output of the `bawn policy` commands. */
#include "cli/policy/policy_view.h"

#include "base/err.h"
#include "cli/changes/run_print.h"

int policy_read_words(const struct verb *self, int argc, char **argv, policy_take_fn *take, void *arg, size_t max,
                      struct policy_words *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(self->opts, self->n_opts, argc, argv);
    int r;

    for (;;) {
        while ((r = opt_next(&it, err)) > 0)
            if ((r = take(arg, it.id, it.value, err)) < 0)
                return r;
        if (r < 0 || it.pos >= argc)
            return r;
        if (ret->n == max || ret->n == POLICY_WORDS_MAX)
            return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
        ret->v[ret->n++] = argv[it.pos++];
    }
}

int policy_print(const struct verb *self, const struct buf *b, int status) {
    struct err err = {0};

    return run_print_out(b, &err) < 0 ? verb_fail(self, &err) : status;
}
