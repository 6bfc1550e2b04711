/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn cp`. */
#include "base/err.h"
#include "cli/files/files_print.h"
#include "cli/verb.h"
#include "supervisor/session/progress_bar.h"

struct cp_request {
    bool json, recursive;
};

static const struct opt opts[] = {
    {0, 'r', "recursive", NULL, "for those who type it: folders are always copied with all in them", NULL,
     OPT_TO_FLAG(struct cp_request, recursive)},
    {0, 0, "json", NULL, "print what was copied as JSON", NULL, OPT_TO_FLAG(struct cp_request, json)},
};

static int run_cp(const struct verb *self, int argc, char **argv) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {0};
    struct cp_request q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    if (r >= 0 && r != 2)
        r = err_usage(&err, "usage: bawn cp FROM TO, one of them as SANDBOX:PATH");
    if (r >= 0)
        r = files_copy(&(struct files_copy){argv[1], argv[2], inside_umask(), &progress}, &t, &err);
    progress_bar_done(&bar);
    r = r < 0 ? r : files_print(&t, q.json, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Copies a file, or a folder with all in it, between the host and a sandbox that runs. In SANDBOX:PATH a relative path counts from the "
    "workspace, '~' is the sandbox's home, and '/workspace' the workspace; a ':' behind a '/' is part of a path of the host's. If the target "
    "is a folder, the source comes into it under its own name; 'FOLDER/.' means what is in the folder.\n\n"
    "No link is followed on the sandbox's side, whatever it changes meanwhile. Links are copied as links; coming out, one that "
    "leads out of what is copied is left out, as are devices, FIFOs and sockets everywhere. What is replaced is replaced as a whole, never written through. "
    "What comes out is yours, without setuid bits, and was not reviewed: see 'bawn review' for changes of the workspace.\n\n"
    "The exit status is 1 if something was left out; each is named.\n\n"
    "    bawn cp box:build/report.html .\n"
    "    bawn cp fixtures/. box:~/fixtures";

const struct verb verb_cp = {
    .name = "cp",
    .summary = "copy files and folders into or out of a sandbox",
    .synopsis = "[options] SANDBOX:PATH HOST | HOST SANDBOX:PATH",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_cp,
};
