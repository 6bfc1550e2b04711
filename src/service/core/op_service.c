/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations; health. */
#include "base/jsonout.h"
#include "service/core/core_boxes.h"

core_op *const core_ops[API_OPS] = {
    [API_OP_HEALTH] = op_health,
    [API_OP_METRICS] = op_metrics,
    [API_OP_ME] = op_me,
    [API_OP_LINK_CREATE] = op_link_create,
    [API_OP_SESSION_CREATE] = op_session_create,
    [API_OP_SESSION_END] = op_session_end,
    [API_OP_USAGE] = op_usage,
    [API_OP_VERDICTS] = op_verdicts,
    [API_OP_ENGINES] = op_engines,
    [API_OP_SECRETS] = op_secrets,
    [API_OP_IMAGES] = op_images,
    [API_OP_AUDIT] = op_audit,
    [API_OP_POLICY_ADD] = op_policy_add,
    [API_OP_POLICY_REMOVE] = op_policy_remove,
    [API_OP_QUESTION_ANSWER] = op_question_answer,
    [API_OP_POLICY_GET] = op_policy_get,
    [API_OP_QUESTION_LIST] = op_question_list,
    [API_OP_DIFF] = op_diff,
    [API_OP_REVIEW] = op_review,
    [API_OP_APPLY] = op_apply,
    [API_OP_DISCARD] = op_discard,
    [API_OP_FILE_LIST] = op_file_list,
    [API_OP_FILE_READ] = op_file_read,
    [API_OP_FILE_WRITE] = op_file_write,
    [API_OP_FILE_DELETE] = op_file_delete,
    [API_OP_ARCHIVE_READ] = op_archive_read,
    [API_OP_ARCHIVE_WRITE] = op_archive_write,
    [API_OP_BOX_LIST] = op_box_list,
    [API_OP_BOX_CREATE] = op_box_create,
    [API_OP_BOX_GET] = op_box_get,
    [API_OP_BOX_DELETE] = op_box_delete,
    [API_OP_BOX_START] = op_box_start,
    [API_OP_BOX_STOP] = op_box_stop,
    [API_OP_BOX_EXEC] = op_box_exec,
    [API_OP_TENANT_EVENTS] = op_tenant_events,
    [API_OP_FILE_WATCH] = op_file_watch,
    [API_OP_BOX_TERMINAL] = op_box_terminal,
    [API_OP_BOX_FORK] = op_box_fork,
    [API_OP_BOX_EXPOSE] = op_box_expose,
    [API_OP_CHECKPOINT_LIST] = op_checkpoint_list,
    [API_OP_CHECKPOINT_CREATE] = op_checkpoint_create,
    [API_OP_CHECKPOINT_DELETE] = op_checkpoint_delete,
    [API_OP_RUN_LIST] = op_run_list,
    [API_OP_RUN_CREATE] = op_run_create,
    [API_OP_RUN_GET] = op_run_get,
    [API_OP_RUN_DELETE] = op_run_delete,
    [API_OP_RUN_CANCEL] = op_run_cancel,
    [API_OP_RUN_SIGNAL] = op_run_signal,
    [API_OP_RUN_STDIN] = op_run_stdin,
    [API_OP_RUN_OUTPUT] = op_run_output,
    [API_OP_RUN_EVENTS] = op_run_events,
    [API_OP_TENANT_LIST] = op_tenant_list,
    [API_OP_TENANT_CREATE] = op_tenant_create,
    [API_OP_TENANT_GET] = op_tenant_get,
    [API_OP_TENANT_CHANGE] = op_tenant_change,
    [API_OP_TENANT_DELETE] = op_tenant_delete,
    [API_OP_TOKEN_LIST] = op_token_list,
    [API_OP_TOKEN_CREATE] = op_token_create,
    [API_OP_TOKEN_DELETE] = op_token_delete,
};

void op_health(struct core *c, struct api_call *call) {
    struct buf b = BUF_INIT(4096);
    struct jsonout j = {.to = &b, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "status", c->draining ? "draining" : "ok");
    jsonout_text(&j, "version", BAWN_VERSION);
    jsonout_close(&j, '}');
    call_json(call, 200, &b);
}
