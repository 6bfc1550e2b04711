/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn log verify`. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "ops/setup/audit_log.h"

enum { EXIT_FAULTS = 1 };

struct log_verify_request {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct log_verify_request, json)},
};

static void add_verified(const struct verify *v, struct buf *b) {
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

static void add_fault(const void *row, const char *key, struct jsonout *j) {
    jsonout_bool(j, key, !((const struct verify_fault *)row)->note);
}

static const struct column file_columns[] = {
    {NULL, "file", COLUMN(TEXT, struct verify_file, name)},        {NULL, "lines", COLUMN(U64, struct verify_file, lines)},
    {NULL, "first", COLUMN(U64, struct verify_file, first_seq)},   {NULL, "last", COLUMN(U64, struct verify_file, last_seq)},
    {NULL, "from", COLUMN(CHARS, struct verify_file, first_time)}, {NULL, "to", COLUMN(CHARS, struct verify_file, last_time)},
};
static const struct column fault_columns[] = {
    {NULL, "file", COLUMN(TEXT, struct verify_fault, file)},
    {NULL, "line", COLUMN(U64, struct verify_fault, line)},
    {NULL, "fault", .json = add_fault},
    {NULL, "what", COLUMN(TEXT, struct verify_fault, what)},
};
static const struct record_kind files = {file_columns, ARRAY_LEN(file_columns), sizeof(struct verify_file)};
static const struct record_kind faults = {fault_columns, ARRAY_LEN(fault_columns), sizeof(struct verify_fault)};

static void add_rows(const struct record_kind *k, const char *rows, size_t n, const char *key, struct jsonout *j) {
    jsonout_open(j, key, '[');
    for (size_t i = 0; i < n; i++) {
        jsonout_break(j, "\n  ");
        jsonout_open(j, NULL, '{');
        record_members(k, rows + i * k->row_size, j);
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
}

static void add_json_verified(const struct verify *v, struct buf *b) {
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", !v->faults);
    jsonout_u64(&j, "lines", v->lines);
    jsonout_u64(&j, "faults", v->faults);
    add_rows(&files, (const char *)v->files, v->n_files, "files", &j);
    add_rows(&faults, (const char *)v->found, v->n_found, "found", &j);
    buf_adds(b, "}\n");
}

static int run_log_verify(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    CLEANUP(verify_done) struct verify v = {0};
    CLEANUP(freep) char *missing = NULL;
    struct log_verify_request q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 0, &err);

    r = r < 0 ? r : audit_log_verify(&v, &missing, &err);
    if (r < 0)
        return verb_fail(self, &err);
    if (missing)
        log_line("there is no audit log in '%s' yet", missing);
    if (q.json)
        add_json_verified(&v, &out);
    else
        add_verified(&v, &out);
    return run_print_result(self, &out, v.faults ? EXIT_FAULTS : 0);
}

static const char description[] =
    "Checks every file of the audit log: each line against its own hash and the line before it, the files of a log against each other, "
    "their end against the head beside them, and all against the index. Lines that were changed, removed or reordered, an end that "
    "was cut off, and files that are missing or foreign are named with file and line.\n\n"
    "A program that may write the log as you can also make up a new one from the first line on; store a copy of NAME.head elsewhere to notice "
    "that, too. The exit status is 0 if everything is well, 1 if not.";

const struct verb verb_log_verify = {
    .name = "log verify",
    .summary = "check that the audit log was not changed",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_log_verify,
};
