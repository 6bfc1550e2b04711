/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn log` and `log verify`. What a line tells of is the agent's bytes: escaped, always. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/log_time.h"
#include "cli/verb.h"
#include "ops/setup/audit_log.h"

enum { TAIL_MAX = 1000000, TYPE_CUT = 80, EVENT_MAX = 1024 * 1024 };
static_assert((int)LOG_TIME_SIZE == (int)VIEW_TIME_SIZE, "log_time_take() fills struct view_filter");

struct log_request {
    struct audit_log_request log;
    bool json;
};

static int take_types(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    unsigned *ret = to;

    for (const char *at = value;; at++) {
        size_t n = strcspn(at, ",");
        int i = 0;

        while (i < AUDIT_TYPES && (strlen(audit_type_names[i]) != n || strncmp(audit_type_names[i], at, n) != 0))
            i++;
        if (i == AUDIT_TYPES) {
            CLEANUP(freep) char *word = strndup(at, MIN_OF(n, (size_t)TYPE_CUT));
            const char *near = word ? str_nearest(word, audit_type_names, AUDIT_TYPES) : NULL;

            return err_usage(err, "--type: unknown event '%s'%s%s%s", word ? word : "", near ? "; did you mean '" : "",
                             near ? near : "", near ? "'?" : "");
        }
        *ret |= 1u << i;
        at += n;
        if (!*at)
            return 0;
    }
}

#define TO(kind, member) OPT_TO_##kind(struct log_request, member)
#define CALL(member, fn) OPT_TO_CALL(struct log_request, member, fn)
static const struct opt opts[] = {
    {0, 'f', "follow", NULL, "go on with what is added", NULL, TO(FLAG, log.follow)},
    {0, 0, "since", "TIME", "only what is newer: 10m, 2h, 3d, or 2026-01-31T12:00 (UTC)", NULL,
     CALL(log.filter.since, log_time_take)},
    {0, 0, "until", "TIME", "only what is older", NULL, CALL(log.filter.until, log_time_take)},
    {0, 0, "type", "TYPE[,TYPE]", "only these events",
     "start|exec|exit|stop|limit|landed|network|ask|request|secret|review|apply|discard|rollback|policy|tool|file|repair",
     CALL(log.filter.types, take_types)},
    {0, 'n', "tail", "N", "only the last N", NULL, OPT_TO_NUMBER(struct log_request, log.tail, 1, TAIL_MAX)},
    {0, 0, "json", NULL, "print the lines as they are in the log", NULL, TO(FLAG, json)},
};

/* Members that every line has, or that say nothing to people. */
static bool is_common(const char *key) {
    static const char *const keys[] = {"seq", "time", "type", "sandbox", "run",  "tenant", "user",
                                       "uid", "pid",  "prev", "hash",    "argv", "argc",   "argv_sha256"};

    return str_index(key, keys, ARRAY_LEN(keys)) >= 0;
}

static void add_event_word(struct buf *out, const char *word) {
    CLEANUP(buf_done) struct buf quoted = BUF_INIT(EVENT_MAX);

    buf_add_shell(&quoted, word);
    buf_add_printable(out, buf_str(&quoted));
}

static void add_event_words(struct buf *out, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));

        buf_adds(out, i ? " " : "");
        add_event_word(out, word ? word : "?");
    }
}

static void add_member(struct buf *out, const char *key, const json_t *value) {
    const char *text = json_string_value(value);

    if (is_common(key) || (text && !text[0]))
        return;
    buf_addc(out, ' ');
    buf_add_printable(out, key);
    buf_addc(out, '=');
    if (text)
        add_event_word(out, text);
    else if (json_is_array(value))
        add_event_words(out, value);
    else if (json_is_integer(value))
        buf_addf(out, "%lld", (long long)json_integer_value(value));
    else
        buf_adds(out, json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "?");
}

/* "2026-11-15T19:54:02.123456Z bawn-dev-... exec job=1 $ make test" */
static void add_event(struct buf *out, json_t *v) {
    const char *key, *who = json_get_text(v, "sandbox");
    const json_t *argv = json_object_get(v, "argv");
    json_t *value;

    buf_add_printable(out, json_get_text(v, "time"));
    buf_addc(out, ' ');
    buf_add_printable(out, who[0] ? who : "-");
    buf_addc(out, ' ');
    buf_add_printable(out, json_get_text(v, "type"));
    json_object_foreach(v, key, value) add_member(out, key, value);
    if (argv) {
        buf_adds(out, " $ ");
        add_event_words(out, argv);
        if ((size_t)json_get_int(v, "argc", 0) > json_array_size(argv))
            buf_adds(out, " ...");
    }
    buf_addc(out, '\n');
}

/* The same bytes as in the log; for a terminal in ASCII, so that nothing speaks to it. */
static void add_json_event(struct buf *out, const struct view_line *line, const json_t *v) {
    CLEANUP(freep) char *text = isatty(STDOUT_FILENO) ? json_dumps(v, JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;

    if (text)
        buf_adds(out, text);
    else
        buf_add(out, line->text, line->len);
    buf_addc(out, '\n');
}

static int print_lines(const struct view_line *v, size_t n, void *arg, struct err *err) {
    const struct log_request *q = arg;

    for (size_t i = 0; i < n; i++) {
        CLEANUP(json_decrefp) json_t *event = json_loadb(v[i].text, v[i].len, JSON_ALLOW_NUL, NULL);
        CLEANUP(buf_done) struct buf out = BUF_INIT(EVENT_MAX);

        if (!json_is_object(event))
            continue;
        if (q->json)
            add_json_event(&out, &v[i], event);
        else
            add_event(&out, event);
        if (fwrite(buf_str(&out), 1, out.len, stdout) != out.len)
            return err_sys(err, -errno, "write the result");
    }
    return fflush(stdout) != 0 ? err_sys(err, -errno, "write the result") : 0;
}

static int run_log(struct verb_call *c, struct err *err) {
    struct log_request q = {.log.reader = STDOUT_FILENO};
    int r = verb_parse(c, &q, 1, err);

    q.log.filter.name = r > 0 ? c->argv[1] : NULL;
    r = r < 0 ? r : audit_log_read(&q.log, print_lines, &q, err);
    return r < 0 ? r : 0;
}

const struct verb verb_log = {
    .name = "log",
    .summary = "show what happened in sandboxes and to them",
    .synopsis = "[options] [SANDBOX]",
    .description =
        "Shows the audit log: which sandboxes were started and with which walls, what was executed in them and how it ended, verdicts "
        "of the network, use of secrets, limits that were hit, what you reviewed, applied and allowed. SANDBOX is the name or the id "
        "of a persistent sandbox, also of one that was removed, or the name of a run. All logs are merged by time; times are UTC.\n\n"
        "Each event is written before what it tells of happens, as a line of $XDG_STATE_HOME/bawn/audit/*.jsonl, which carries the hash "
        "of the line before it: 'bawn log verify' finds what was changed. Arguments that look like a secret are left out.\n\n"
        "    bawn log --since 1h\n"
        "    bawn log dev -f --type exec,network\n"
        "    bawn log --json --tail 100",
    VERB_OPTS(opts),
    .run = run_log,
};

/* -- verify ----------------------------------------------------------------------------------------------------------------- */

enum { EXIT_FAULTS = 1 };

static void add_verified(const struct verify *v, struct buf *b) {
    for (size_t i = 0; i < v->n_files; i++) {
        const struct verify_file *f = &v->files[i];

        buf_add_printable(b, f->name);
        buf_addf(b, ": %" PRIu64 " %s", f->lines, f->lines == 1 ? "line" : "lines");
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
    buf_addf(b, "%" PRIu64 " %s, %" PRIu64 " %s\n", v->lines, v->lines == 1 ? "line" : "lines", v->faults,
             v->faults == 1 ? "fault" : "faults");
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

static void add_json_verified(const struct verify *v, struct buf *b) {
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", !v->faults);
    jsonout_u64(&j, "lines", v->lines);
    jsonout_u64(&j, "faults", v->faults);
    record_array(&files, v->files, v->n_files, "files", RECORD_LINES, &j);
    record_array(&faults, v->found, v->n_found, "found", RECORD_LINES, &j);
    buf_adds(b, "}\n");
}

static int run_log_verify(struct verb_call *c, struct err *err) {
    CLEANUP(verify_done) struct verify v = {0};
    CLEANUP(freep) char *missing = NULL;
    bool json = false;
    int r = verb_parse(c, &json, 0, err);

    r = r < 0 ? r : audit_log_verify(&v, &missing, err);
    if (r < 0)
        return r;
    if (missing)
        log_line("there is no audit log in '%s' yet", missing);
    (json ? add_json_verified : add_verified)(&v, &c->out);
    return v.faults ? EXIT_FAULTS : 0;
}

const struct verb verb_log_verify = {
    .name = "log verify",
    .summary = "check that the audit log was not changed",
    .synopsis = "[options]",
    .description =
        "Checks every file of the audit log: each line against its own hash and the line before it, the files of a log against each other, "
        "their end against the head beside them, and all against the index. Lines that were changed, removed or reordered, an end that "
        "was cut off, and files that are missing or foreign are named with file and line.\n\n"
        "A program that may write the log as you can also make up a new one from the first line on; store a copy of NAME.head elsewhere to notice "
        "that, too. The exit status is 0 if everything is well, 1 if not.",
    VERB_OPTS(verb_json_opts),
    .run = run_log_verify,
};
