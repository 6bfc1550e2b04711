/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of bawn-review. */
#include "review/request.h"

#include "base/err.h"
#include "base/opt.h"

const char *const request_format_names[REQUEST_FORMATS] = {"text", "json", "sarif", "patch", "stat", "names", "paths", "git"};

#define FLAG(member) OPT_TO_FLAG(struct review_request, member)
#define COPY(member) OPT_TO_COPY(struct review_request, member)
#define LIST(member) OPT_TO_LIST(struct review_request, member)
#define NUMBER(member) OPT_TO_NUMBER(struct review_request, member, 0, UINT64_MAX)

static const struct opt opts[] = {
    {0, 0, "format", "FORMAT", "what to print", NULL, OPT_TO_ENUM(struct review_request, format, request_format_names)},
    {0, 0, "color", NULL, "with colours", NULL, FLAG(colour)},
    {0, 0, "terminal", NULL, "a person reads it", NULL, FLAG(terminal)},
    {0, 0, "diff", NULL, "with the diff of each file", NULL, FLAG(diff)},
    {0, 0, "block", NULL, "without head and summary", NULL, FLAG(block)},
    {0, 0, "must-match", NULL, "patterns that name no change are an error", NULL, FLAG(must_match)},
    {0, 0, "fail-on", "LEVEL", "the lowest level that makes the exit status 1", NULL,
     OPT_TO_ENUM(struct review_request, fail_on, risk_level_names)},
    {0, 0, "run", "NAME", "name of the run", NULL, COPY(run)},
    {0, 0, "workspace", "PATH", "path of the workspace, for messages", NULL, COPY(workspace)},
    {0, 0, "mode", "MODE", "mode of the run", NULL, OPT_TO_ENUM(struct review_request, mode, workspace_mode_names)},
    {0, 0, "begun", "NS", "when the run began", NULL, NUMBER(begun_ns)},
    {0, 0, "ended", "NS", "when it ended", NULL, NUMBER(ended_ns)},
    {0, 0, "only", "GLOB", "only these paths", NULL, LIST(only)},
    {0, 0, "except", "GLOB", "all but these paths", NULL, LIST(except)},
    {0, 0, "all", NULL, "folders of dependencies file by file", NULL, FLAG(all)},
    {0, 0, "folder", "PATH", "only this folder of dependencies", NULL, COPY(folder)},
    {0, 0, "path", "PATH", "only this path", NULL, LIST(paths)},
    {0, 0, "base", "ID", "the commit that the branch of the run began at", NULL, COPY(base)},
};

int request_parse(int argc, char **argv, struct review_request *ret, struct err *err) {
    struct review_request q = {.fail_on = RISK_MEDIUM};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 0, err);

    if (r >= 0 && (!q.run || !q.workspace))
        r = err_usage(err, "bawn-review needs --run and --workspace");
    if (r < 0) {
        request_done(&q);
        return r;
    }
    *ret = q;
    return 0;
}

void request_done(struct review_request *q) {
    free(q->run);
    free(q->workspace);
    free(q->base);
    free(q->folder);
    strv_done(&q->only);
    strv_done(&q->except);
    strv_done(&q->paths);
    *q = (struct review_request){0};
}
