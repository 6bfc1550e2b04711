/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn attach`. */
#include "base/err.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "supervisor/terminal/stdio.h"

struct attach_line {
    struct attach_args attach;
    struct exec_keys keys;
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "read-only", NULL, "look only: nothing that is typed goes inside; ctrl-c leaves", NULL,
     OPT_TO_FLAG(struct attach_line, attach.read_only)},
    {0, 0, "detach-keys", "KEYS", "leave with these keys, \"\": with none (default: ctrl-p,ctrl-q)", NULL,
     OPT_TO_CALL(struct attach_line, keys, exec_option_keys)},
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct attach_line, attach.dir)},
    {0, 0, "json", NULL, "the result as one JSON line on stderr", NULL, OPT_TO_FLAG(struct attach_line, json)},
};

static int attach(struct attach_line *l, int argc, char **argv, struct err *err) {
    struct attach_result result = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, l, 2, err);

    r = r < 0 ? r : exec_operands(r, argv + 1, &l->attach.name, &l->attach.job, err);
    l->attach.notice = &verb_notice;
    l->attach.detach_keys = l->keys.given ? l->keys.keys : NULL;
    r = r < 0 ? r : exec_attach_job(&l->attach, &result, err);
    return r < 0 ? r : exec_print_attached(&result, l->json);
}

static int run_attach(const struct verb *self, int argc, char **argv) {
    struct attach_line l = {0};
    struct err err = {0};
    bool closed[3];
    int r = stdio_reserve(closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : attach(&l, argc, argv, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_attach = {
    .name = "attach",
    .summary = "come back to a shell or command in the background",
    .synopsis = "[options] [SANDBOX] [JOB]",
    .description =
        "Shows what a job in the background of a sandbox prints, beginning with the last of it, and types into it, until it ends or "
        "ctrl-p ctrl-q is pressed. Several can be attached at once: all see the same, and all may type. Without JOB it is the "
        "latest one, without SANDBOX the project's own.\n\n"
        "The exit status is the job's, or 0 after the keys.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_attach,
};
