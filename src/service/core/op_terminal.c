/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal in a sandbox. The connection to the keeper goes to the front together with the command that was asked for on it: from then on
 * the front has it alone, and no byte of the terminal passes here.
 */
#include <errno.h>

#include "base/err.h"
#include "base/strv.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "proto/execreq.h"
#include "service/core/core_boxes.h"

/* An image may have no bash. */
#define TERMINAL_SHELL "command -v bash >/dev/null 2>&1 && exec bash; exec sh"

static int send_terminal(const struct api_call *call, int sock, struct err *err) {
    const char *command = call_text(call, API_FIELD_COMMAND);
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
    char *argv[] = {"sh", "-c", (char *)(command ? command : TERMINAL_SHELL), NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    struct exec_request q = {.flags = EXEC_FLAGS_TTY,
                             .rows = (uint32_t)api_field_number(&call->fields, API_FIELD_ROWS, 0),
                             .cols = (uint32_t)api_field_number(&call->fields, API_FIELD_COLUMNS, 0),
                             .cwd = "",
                             .argv = argv,
                             .argc = ARRAY_LEN(argv) - 1,
                             .envp = env,
                             .envc = ARRAY_LEN(env) - 1};
    struct exec_msg m = {.type = EXEC_MSG_EXEC, .value = EXEC_PROTOCOL};
    int r = exec_request_encode(&q, &body);

    if (r < 0 || !buf_ok(&body))
        return err_set(err, -E2BIG, "the command is too long");
    m.len = (uint32_t)body.len;
    r = execmsg_send(sock, &m, body.data, NULL, 0);
    return r < 0 ? err_sys(err, r, "speak with the sandbox") : 0;
}

void op_box_terminal(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    CLEANUP(closep) int sock = -1;
    struct err err = {0};

    if (!call_box(c, call, &b))
        return;
    sock = box_connect(c, call->tenant, b.id);
    if (sock < 0)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the sandbox is not running");
    else if (send_terminal(call, sock, &err) < 0)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "%s", err.msg);
    else
        call_fd(call, API_FLAG_TERMINAL, "", 0, TAKE_FD(sock));
}
