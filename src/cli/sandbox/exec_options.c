/* SPDX-License-Identifier: Apache-2.0 */
/* Options and output of commands in a persistent sandbox. */
#include "cli/sandbox/exec_options.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "os/fd.h"

int exec_option_env(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    return exec_args_env(to, value, err);
}

int exec_option_cwd(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    *(const char **)to = value;
    return value[0] == '/' ? 0 : err_usage(err, "--workdir takes an absolute path inside, not '%.60s'", value);
}

int exec_option_keys(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    struct exec_keys *k = to;

    k->given = true;
    return exec_detach_keys(value, k->keys, err);
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

static void print_attached_json(const struct attach_result *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    buf_addf(&b, "{\"sandbox\":\"%s\",\"job\":%d,\"detached\":%s,\"status\":", r->sandbox, r->exec.job,
             r->detached ? "true" : "false");
    if (r->detached)
        buf_adds(&b, "null}\n");
    else
        buf_addf(&b, "%d,\"signal\":%d}\n", r->exec.status, r->exec.signal);
    fd_write_all(STDERR_FILENO, buf_str(&b), b.len);
}

int exec_print_attached(const struct attach_result *r, bool json) {
    if (r->detached && r->exec.job)
        log_line("detached; 'bawn attach %s %d' comes back", r->sandbox, r->exec.job);
    if (json)
        print_attached_json(r);
    return r->detached ? 0 : r->exec.status;
}
