/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "audit/verify.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { OPT_JSON = 1, EXIT_FAULTS = 1 };

static const struct opt opts[] = {{OPT_JSON, 0, "json", NULL, "print JSON", NULL}};

static int take(void *arg, int id UNUSED, const char *value UNUSED, struct err *err UNUSED) {
    *(bool *)arg = true;
    return 0;
}

static void add_text(const struct verify *v, struct buf *b) {
    for (size_t i = 0; i < v->n_files; i++) {
        const struct verify_file *f = &v->files[i];

        buf_add_printable(b, f->name);
        buf_addf(b, ": %" PRIu64 " lines", f->lines);
        if (f->lines)
            buf_addf(b, ", %" PRIu64 " (%s) to %" PRIu64 " (%s)", f->first_seq, f->first_time, f->last_seq, f->last_time);
        buf_addc(b, '\n');
    }
    for (size_t i = 0; i < v->n_found; i++) {
        const struct verify_fault *f = &v->found[i];

        buf_adds(b, f->note ? "note: " : "FAULT: ");
        buf_add_printable(b, f->file);
        if (f->line)
            buf_addf(b, ":%" PRIu64, f->line);
        buf_addf(b, ": %s\n", f->what);
    }
    if (v->n_found == VERIFY_FAULTS_MAX)
        buf_adds(b, "and more\n");
    buf_addf(b, "%" PRIu64 " lines, %" PRIu64 " %s\n", v->lines, v->faults, v->faults == 1 ? "fault" : "faults");
}

static void add_json(const struct verify *v, struct buf *b) {
    buf_addf(b, "{\"ok\": %s, \"lines\": %" PRIu64 ", \"faults\": %" PRIu64 ", \"files\": [", v->faults ? "false" : "true",
             v->lines, v->faults);
    for (size_t i = 0; i < v->n_files; i++) {
        const struct verify_file *f = &v->files[i];

        buf_adds(b, i ? ",\n  {\"file\": " : "\n  {\"file\": ");
        buf_add_json(b, f->name);
        buf_addf(b, ", \"lines\": %" PRIu64 ", \"first\": %" PRIu64 ", \"last\": %" PRIu64, f->lines, f->first_seq, f->last_seq);
        buf_addf(b, ", \"from\": \"%s\", \"to\": \"%s\"}", f->first_time, f->last_time);
    }
    buf_adds(b, "], \"found\": [");
    for (size_t i = 0; i < v->n_found; i++) {
        const struct verify_fault *f = &v->found[i];

        buf_adds(b, i ? ",\n  {\"file\": " : "\n  {\"file\": ");
        buf_add_json(b, f->file);
        buf_addf(b, ", \"line\": %" PRIu64 ", \"fault\": %s, \"what\": ", f->line, f->note ? "false" : "true");
        buf_add_json(b, f->what);
        buf_addc(b, '}');
    }
    buf_adds(b, "]}\n");
}

static int verify(struct verify *ret, struct err *err) {
    CLEANUP(freep) char *home = NULL, *folder = NULL;
    CLEANUP(closep) int dir = -1;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : paths_state(environ, home, "audit", &folder, err);
    if (r < 0 || !folder)
        return r;
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT) {
        log_line("there is no audit log in '%s' yet", folder);
        return 0;
    }
    return dir < 0 ? err_sys(err, -errno, "open '%s'", folder) : verify_folder(dir, ret, err);
}

static int run_log_verify(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    CLEANUP(verify_done) struct verify v = {0};
    struct policy_words words = {0};
    struct err err = {0};
    bool json = false;
    int r = policy_read_words(self, argc, argv, take, &json, 0, &words, &err);

    r = r < 0 ? r : verify(&v, &err);
    if (r < 0)
        return verb_fail(self, &err);
    if (json)
        add_json(&v, &out);
    else
        add_text(&v, &out);
    return policy_print(self, &out, v.faults ? EXIT_FAULTS : 0);
}

static const char description[] =
    "Checks every file of the audit log: each line against its own hash and the line before it, the files of a log against each other, "
    "their end against the head beside them, and all against the index. Lines that were changed, removed or reordered, an end that "
    "was cut off, and files that are missing or foreign are named with file and line.\n\n"
    "Whoever may write the log as you can also make up a new one from the first line on; keep a copy of NAME.head elsewhere to notice "
    "that, too. The exit status is 0 if everything is well, 1 if not.";

const struct verb verb_log_verify = {
    .name = "log verify",
    .summary = "check that nobody has changed the audit log",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_log_verify,
};
