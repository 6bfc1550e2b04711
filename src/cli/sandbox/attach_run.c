/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/attach_run.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "ops/sandbox/exec_run.h"
#include "os/fd.h"
#include "proto/execmsg.h"

static void print_result(const struct attach_options *o, const struct exec_result *r, bool detached) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    buf_addf(&b, "{\"sandbox\":\"%s\",\"job\":%d,\"detached\":%s,\"status\":", o->sandbox, r->job, detached ? "true" : "false");
    if (detached)
        buf_adds(&b, "null}\n");
    else
        buf_addf(&b, "%d,\"signal\":%d}\n", r->status, r->signal);
    fd_write_all(STDERR_FILENO, buf_str(&b), b.len);
}

int attach_run(int sock, const struct attach_options *opt, bool json, struct err *err) {
    struct exec_result result;
    bool detached = false;
    int r = exec_attach(sock, opt, &result, &detached, err);

    if (r < 0)
        return r;
    if (detached && result.job)
        log_line("detached; 'bawn attach %s %d' comes back", opt->sandbox, result.job);
    else
        exec_say_stopped(opt->sandbox, result.end);
    if (json)
        print_result(opt, &result, detached);
    return detached ? 0 : result.status;
}
