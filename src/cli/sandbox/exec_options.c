/* SPDX-License-Identifier: Apache-2.0 */
/* Options and output of commands in a persistent sandbox. */
#include "cli/sandbox/exec_options.h"

#include "base/err.h"
#include "base/parse.h"

int exec_option_env(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    return exec_args_env(to, value, err);
}

int exec_option_cwd(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    *(const char **)to = value;
    return value[0] == '/' ? 0 : err_usage(err, "--workdir takes an absolute path inside, not '%.60s'", value);
}

int exec_operands(int n, char **words, const char **ret_name, uint64_t *ret_job, struct err *err) {
    bool number = n == 1 && words[0][0] && strspn(words[0], "0123456789") == strlen(words[0]);
    const char *job = number ? words[0] : n > 1 ? words[1] : NULL;
    int r;

    r = job ? parse_u64(job, 1, INT32_MAX, ret_job, err) : 0;
    if (r < 0)
        return err_ctx(err, r, "the number of a job");
    *ret_name = number || n == 0 ? NULL : words[0];
    return 0;
}
