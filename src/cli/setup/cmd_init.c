/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn init`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/verb.h"
#include "ops/setup/setup.h"
#include "os/fd.h"
#include "workspace/git/check.h"
#include "workspace/hide/ignore.h"

enum { EXIT_FINDINGS = 1 };

struct init_request {
    const char *directory;
    bool check, accept, json;
};

#define TO(kind, member) OPT_TO_##kind(struct init_request, member)
static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, directory)},
    {0, 0, "check", NULL, "write nothing; say what the rules leave unprotected", NULL, TO(FLAG, check)},
    {0, 0, "accept", NULL, "let the present rules count, also where they show more than before", NULL, TO(FLAG, accept)},
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
};

static int accept_rules(int dir, bool json, struct buf *out, struct err *err) {
    int r = setup_accept_rules(dir, err);

    buf_adds(out, json ? "{\"accepted\": true}\n" : "the rules are accepted as they are now\n");
    return r;
}

static int write_rules(int dir, bool json, struct buf *out, struct err *err) {
    bool written;
    int r = setup_write_rules(dir, &written, err);

    if (r < 0)
        return r;
    if (json)
        buf_addf(out, "{\"file\": \"" IGNORE_FILE "\", \"written\": %s}\n", written ? "true" : "false");
    else if (written)
        buf_adds(out, IGNORE_FILE " written; commit it, and review changes to it as you review code\n");
    else
        buf_adds(out, IGNORE_FILE " is there already and was not changed; `bawn init --check` examines it\n");
    return 0;
}

static void add_printable(struct buf *b, const char *before, const char *s, const char *after) {
    buf_adds(b, before);
    buf_add_printable(b, s);
    buf_adds(b, after);
}

static void add_finding(const struct check_finding *f, struct buf *b) {
    switch (f->kind) {
    case CHECK_NO_FILE:
        buf_adds(b, "no-file: there is no " IGNORE_FILE "; the built-in rules hold, and `bawn init` writes them down");
        break;
    case CHECK_MISSING:
        add_printable(b, "missing: ", f->pattern, "");
        add_printable(b, " (a file '", f->path, "' would be shown)");
        break;
    case CHECK_REINCLUDED:
        add_printable(b, "reincluded: ", f->pattern, "");
        add_printable(b, " (a file '", f->path, "' is shown by '");
        buf_add_printable(b, f->rule);
        add_printable(b, "' in ", f->origin, "");
        buf_addf(b, ":%u)", f->line);
        break;
    case CHECK_TRACKED:
        add_printable(b, "tracked: ", f->path, "");
        add_printable(b, " looks like a secret (", f->pattern, ") and is in git, ");
        buf_adds(b, f->hidden ? "hidden in a sandbox" : "shown in a sandbox");
        break;
    case CHECK_KINDS:
        BUG("a finding of no kind");
    }
    buf_addc(b, '\n');
}

static void add_json_finding(const struct check_finding *f, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "kind", check_kind_names[f->kind]);
    if (f->kind != CHECK_NO_FILE) {
        jsonout_text(j, "pattern", f->pattern);
        jsonout_text(j, "path", f->path);
    }
    if (f->kind == CHECK_REINCLUDED) {
        jsonout_text(j, "file", f->origin);
        jsonout_u64(j, "line", f->line);
        jsonout_text(j, "rule", f->rule);
    }
    if (f->kind == CHECK_TRACKED)
        jsonout_bool(j, "hidden", f->hidden);
    jsonout_close(j, '}');
}

static void add_json_report(const struct ignore_check *c, struct buf *b) {
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "file", IGNORE_FILE);
    jsonout_bool(&j, "git", c->git);
    jsonout_open(&j, "findings", '[');
    for (size_t i = 0; i < c->n; i++) {
        if (i)
            jsonout_break(&j, "\n ");
        add_json_finding(&c->v[i], &j);
    }
    buf_adds(b, "]}\n");
}

/* Returns the exit status, or negative. */
static int check_rules(int dir, bool json, struct buf *out, struct err *err) {
    CLEANUP(ignore_check_done) struct ignore_check c = {0};
    int r = ignore_check(dir, &c, err);

    if (r < 0)
        return r;
    if (!c.git && !json)
        log_line("no git index here, so tracked files were not checked");
    if (json)
        add_json_report(&c, out);
    else if (c.n == 0)
        buf_adds(out, IGNORE_FILE " hides everything that the recommended set hides\n");
    for (size_t i = 0; i < c.n && !json; i++)
        add_finding(&c.v[i], out);
    return c.n ? EXIT_FINDINGS : 0;
}

static int run_init(struct verb_call *c, struct err *err) {
    CLEANUP(closep) int dir = -1;
    struct init_request q = {0};
    int status = verb_parse(c, &q, 0, err);

    if (status == 0 && q.check && q.accept)
        status = err_usage(err, "--check and --accept exclude each other");
    dir = status < 0 ? status : setup_open(q.directory, err);
    if (dir >= 0)
        status = q.check    ? check_rules(dir, q.json, &c->out, err)
                 : q.accept ? accept_rules(dir, q.json, &c->out, err)
                            : write_rules(dir, q.json, &c->out, err);
    return dir < 0 ? dir : status;
}

const struct verb verb_init = {
    .name = "init",
    .summary = "write the rules that hide secrets from the sandbox",
    .synopsis = "[-C DIR] [--check | --accept] [--json]",
    .description =
        "Writes " IGNORE_FILE
        " with rules that hide secrets (environment files, keys, credentials of clouds and tools) from every "
        "sandbox of this project. The syntax is that of .gitignore. A file that is there is never overwritten; without any, the "
        "same rules hold.\n\n"
        "With --check, for CI, nothing is written. It says which of the recommended rules are missing, which are undone by a rule "
        "with '!', and which files in git's index look like secrets. A tracked file that is no secret is accepted by showing it "
        "by its path ('!/certs/test.pem'). The exit status is 0 if there is nothing to say, 1 if there is.\n\n"
        "A change of the rules that hides more counts at once. One that shows more counts only after --accept, because whatever runs in "
        "a sandbox can change the file, too.\n\n"
        "    bawn init\n"
        "    bawn init --check\n"
        "    bawn init --accept",
    VERB_OPTS(opts),
    .run = run_init,
};
