/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn cp`, `put` and `get`. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/verb.h"
#include "ops/files/collect.h"
#include "ops/files/files.h"
#include "os/fd.h"
#include "proto/termfilter.h"
#include "supervisor/session/progress_bar.h"

enum { EXIT_LEFT_OUT = 1 };

static void add_counts(const struct transfer *t, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_u64(&j, "files", t->files);
    jsonout_u64(&j, "folders", t->folders);
    jsonout_u64(&j, "links", t->links);
    jsonout_u64(&j, "bytes", t->bytes);
    jsonout_u64(&j, "left_out", t->left_out);
    jsonout_list(&j, "notes", &t->notes);
    buf_adds(out, "}\n");
}

static int files_print(const struct transfer *t, bool json, struct buf *out) {
    for (size_t i = 0; i < t->notes.len; i++)
        log_line("left out: %s", t->notes.v[i]);
    if (t->left_out > t->notes.len)
        log_line("left out: %" PRIu64 " more", t->left_out - t->notes.len);
    if (json)
        add_counts(t, out);
    return t->left_out ? EXIT_LEFT_OUT : 0;
}

/* -- cp --------------------------------------------------------------------------------------------------------------------- */

struct cp_request {
    bool json, recursive;
};

static const struct opt cp_opts[] = {
    {0, 'r', "recursive", NULL, "for those who type it: folders are always copied with all in them", NULL,
     OPT_TO_FLAG(struct cp_request, recursive)},
    {0, 0, "json", NULL, "print what was copied as JSON", NULL, OPT_TO_FLAG(struct cp_request, json)},
};

static int run_cp(struct verb_call *c, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {0};
    struct cp_request q = {0};
    int r = verb_parse(c, &q, c->argc, err);

    if (r >= 0 && r != 2)
        r = err_usage(err, "usage: bawn cp FROM TO, one of them as SANDBOX:PATH");
    if (r >= 0)
        r = files_copy(&(struct files_copy){c->argv[1], c->argv[2], inside_umask(), &progress}, &t, err);
    progress_bar_done(&bar);
    return r < 0 ? r : files_print(&t, q.json, &c->out);
}

const struct verb verb_cp = {
    .name = "cp",
    .summary = "copy files and folders into or out of a sandbox",
    .synopsis = "[options] SANDBOX:PATH HOST | HOST SANDBOX:PATH",
    .description =
        "Copies a file, or a folder with all in it, between the host and a sandbox that runs. In SANDBOX:PATH a relative path counts from the "
        "workspace, '~' is the sandbox's home, and '/workspace' the workspace; a ':' behind a '/' is part of a path of the host's. If the target "
        "is a folder, the source comes into it under its own name; 'FOLDER/.' means what is in the folder.\n\n"
        "No link is followed on the sandbox's side, whatever it changes meanwhile. Links are copied as links; coming out, one that "
        "leads out of what is copied is left out, as are devices, FIFOs and sockets everywhere. What is replaced is replaced as a whole, never written through. "
        "What comes out is yours, without setuid bits, and was not reviewed: see 'bawn review' for changes of the workspace.\n\n"
        "The exit status is 1 if something was left out; each is named.\n\n"
        "    bawn cp box:build/report.html .\n"
        "    bawn cp fixtures/. box:~/fixtures",
    VERB_OPTS(cp_opts),
    .run = run_cp,
};

/* -- put -------------------------------------------------------------------------------------------------------------------- */

enum { MODE_DEFAULT = 0666 };

struct put_request {
    struct files_put put;
    bool json;
};

/* A mode that is given is not reduced by the umask. */
static int take_mode(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    struct files_put *put = to;
    char *end = NULL;

    errno = 0;
    put->mode = (mode_t)strtoul(value, &end, 8);
    put->umask_ = 0;
    return errno || end == value || *end || value[0] == '-' || put->mode > 0777
               ? err_usage(err, "--mode '%.40s' is not an octal number up to 777", value)
               : 0;
}

static const struct opt put_opts[] = {
    {0, 'm', "mode", "MODE", "permissions of the file, octal (default: 666 less the umask)", NULL,
     OPT_TO_CALL(struct put_request, put, take_mode)},
    {0, 0, "json", NULL, "print what was copied as JSON", NULL, OPT_TO_FLAG(struct put_request, json)},
};

static int run_put(struct verb_call *c, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {0};
    struct put_request q = {.put = {.from = STDIN_FILENO, .mode = MODE_DEFAULT, .umask_ = inside_umask(), .progress = &progress}};
    int r = verb_parse(c, &q, c->argc, err);

    if (r >= 0 && r != 2)
        r = err_usage(err, "usage: bawn put SANDBOX PATH");
    if (r >= 0) {
        q.put.sandbox = c->argv[1];
        q.put.path = c->argv[2];
        r = files_put(&q.put, &t, err);
    }
    progress_bar_done(&bar);
    return r < 0 ? r : files_print(&t, q.json, &c->out);
}

const struct verb verb_put = {
    .name = "put",
    .summary = "write standard input to a file in a sandbox",
    .synopsis = "[options] SANDBOX PATH",
    .description =
        "Writes what comes from standard input to a file in a sandbox that runs; the file appears when all of it is there, in place of one "
        "that stood there. PATH is as in 'bawn cp'. The folder must exist.\n\n"
        "    bawn put box config.json < local.json\n"
        "    git archive HEAD | bawn put box ~/src.tar",
    VERB_OPTS(put_opts),
    .run = run_put,
};

/* -- get -------------------------------------------------------------------------------------------------------------------- */

enum { PIECE = 16 * 1024 };

static const struct opt get_opts[] = {
    VERB_JSON("print path, mode, size and content (base64) as JSON"),
};

/* A file of an agent's must not give orders to the user's terminal. */
static int show_filtered(int fd, uint64_t size) {
    struct termfilter filter;
    char in[PIECE], out[TERMFILTER_OUT_MAX(PIECE)];

    termfilter_init(&filter);
    for (uint64_t done = 0; done < size;) {
        ssize_t n = fd_read_some(fd, in, (size_t)MIN_OF(size - done, sizeof in));
        int r;

        if (n <= 0)
            return (int)n;
        r = fd_write_all(STDOUT_FILENO, out, termfilter_feed(&filter, in, (size_t)n, out));
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return 0;
}

static int print_content(const struct files_got *g, struct err *err) {
    uint64_t bytes = 0, size = (uint64_t)g->st.st_size;
    int r = isatty(STDOUT_FILENO) ? show_filtered(g->fd, size) : transfer_pour(g->fd, STDOUT_FILENO, size, &bytes);

    return r < 0 ? err_sys(err, r, "copy '%.300s' to standard output", g->file.path) : 0;
}

static int run_get(struct verb_call *c, struct err *err) {
    CLEANUP(files_got_done) struct files_got got = FILES_GOT_INIT;
    bool json = false;
    int r = verb_parse(c, &json, c->argc, err);

    if (r >= 0 && r != 2)
        r = err_usage(err, "usage: bawn get SANDBOX PATH");
    r = r < 0 ? r : files_get(c->argv[1], c->argv[2], &got, err);
    if (r < 0 || !json)
        return r < 0 ? r : print_content(&got, err);
    r = collect_json_file(&c->out, got.file.path, got.fd, &got.st, err);
    buf_addc(&c->out, '\n');
    return r;
}

const struct verb verb_get = {
    .name = "get",
    .summary = "write a file of a sandbox to standard output",
    .synopsis = "[options] SANDBOX PATH",
    .description =
        "Writes a file of a sandbox that runs to standard output, as long as it was when it was opened. PATH is as in 'bawn cp'; no link is followed. On a "
        "terminal, sequences that would change more than what is shown are taken out.\n\n"
        "    bawn get box build/report.html > report.html",
    VERB_OPTS(get_opts),
    .run = run_get,
};
