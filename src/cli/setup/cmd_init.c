/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "workspace/git/check.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/pin.h"

enum { OPT_DIRECTORY = 1, OPT_CHECK, OPT_ACCEPT, OPT_JSON, OUTPUT_MAX = 256 * 1024 * 1024, EXIT_FINDINGS = 1 };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_CHECK, 0, "check", NULL, "write nothing; say what the rules leave unprotected", NULL},
    {OPT_ACCEPT, 0, "accept", NULL, "let the present rules count, also where they show more than before", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct init_request {
    const char *directory;
    bool check, accept, json;
};

static int read_options(int argc, char **argv, struct init_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        switch (it.id) {
        case OPT_DIRECTORY:
            ret->directory = it.value;
            break;
        case OPT_CHECK:
            ret->check = true;
            break;
        case OPT_ACCEPT:
            ret->accept = true;
            break;
        case OPT_JSON:
            ret->json = true;
            break;
        }
    if (r == 0 && ret->check && ret->accept)
        return err_usage(err, "--check and --accept exclude each other");
    if (r == 0 && it.pos < argc)
        return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
    return r;
}

static int print(const struct buf *out, struct err *err) {
    if (!buf_ok(out))
        return err_oom(err);
    return fputs(buf_str(out), stdout) < 0 || fflush(stdout) < 0 ? err_sys(err, -errno, "write the result") : 0;
}

/* Not through the umask-less 0600 of the user's own files: this one is shared with the team. */
static int write_temporary(int dir, const char *name, const struct buf *text) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);

    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        unlinkat(dir, name, 0);
    return r;
}

/* Appears whole or not at all (half of the rules would hide half of the secrets), and never in place of another file. */
static int publish(int dir, const struct buf *text, struct err *err) {
    char temporary[64];
    uint64_t nonce;
    int r;

    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return err_sys(err, -errno, "getrandom");
    snprintf(temporary, sizeof temporary, IGNORE_FILE ".%016llx", (unsigned long long)nonce);
    r = write_temporary(dir, temporary, text);
    if (r < 0)
        return err_sys(err, r, "write '" IGNORE_FILE "'");
    r = renameat2(dir, temporary, dir, IGNORE_FILE, RENAME_NOREPLACE) < 0 ? -errno : 0;
    if (r == -EINVAL) /* NFS and some FUSE file systems do not know the flag */
        r = linkat(dir, temporary, dir, IGNORE_FILE, 0) < 0 ? -errno : 0;
    unlinkat(dir, temporary, 0);
    if (r == -EEXIST)
        return 0;
    return r < 0 ? err_sys(err, r, "write '" IGNORE_FILE "'") : 1;
}

/* What the user wrote or has read counts from now on (workspace/hide/pin.h). */
static int accept(int dir, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *rules = ignore_new();
    CLEANUP(freep) char *home = NULL, *pins = NULL, *workspace = NULL;
    int r = rules ? ignore_scan(rules, dir, NULL, NULL, err) : err_oom(err);

    r = r < 0 ? r : paths_home(environ, &home, err);
    r = r < 0 ? r : pin_folder(environ, home, &pins, err);
    r = r < 0 ? r : paths_of_fd(dir, &workspace, err);
    return r < 0 ? r : pin_accept(pins, workspace, rules, err);
}

static int accept_rules(int dir, bool json, struct err *err) {
    int r = accept(dir, err);

    if (r < 0)
        return r;
    fputs(json ? "{\"accepted\": true}\n" : "the rules are accepted as they are now\n", stdout);
    return 0;
}

static int write_defaults(int dir, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(DEFAULTS_TEXT_MAX), out = BUF_INIT(OUTPUT_MAX);
    int r;

    defaults_text(&text);
    if (!buf_ok(&text))
        return err_oom(err);
    r = faccessat(dir, IGNORE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : publish(dir, &text, err);
    if (r < 0)
        return r;
    if (r) {
        int accepted = accept(dir, err);

        if (accepted < 0 && accepted != -ENOENT) /* without a home the defaults hold, which are the same */
            return accepted;
    }
    if (json)
        buf_addf(&out, "{\"file\": \"" IGNORE_FILE "\", \"written\": %s}\n", r ? "true" : "false");
    else if (r)
        buf_adds(&out, IGNORE_FILE " written; commit it, and review changes to it as you review code\n");
    else
        buf_adds(&out, IGNORE_FILE " is there already and was not changed; `bawn init --check` examines it\n");
    return print(&out, err);
}

static void add_quoted(struct buf *b, const char *before, const char *s, const char *after) {
    buf_adds(b, before);
    buf_add_printable(b, s);
    buf_adds(b, after);
}

static void add_text(const struct check_finding *f, struct buf *b) {
    switch (f->kind) {
    case CHECK_NO_FILE:
        buf_adds(b, "no-file: there is no " IGNORE_FILE "; the built-in rules hold, and `bawn init` writes them down");
        break;
    case CHECK_MISSING:
        add_quoted(b, "missing: ", f->pattern, "");
        add_quoted(b, " (a file '", f->path, "' would be shown)");
        break;
    case CHECK_REINCLUDED:
        add_quoted(b, "reincluded: ", f->pattern, "");
        add_quoted(b, " (a file '", f->path, "' is shown by '");
        buf_add_printable(b, f->rule);
        add_quoted(b, "' in ", f->origin, "");
        buf_addf(b, ":%u)", f->line);
        break;
    case CHECK_TRACKED:
        add_quoted(b, "tracked: ", f->path, "");
        add_quoted(b, " looks like a secret (", f->pattern, ") and is in git, ");
        buf_adds(b, f->hidden ? "hidden in a sandbox" : "shown in a sandbox");
        break;
    case CHECK_KINDS:
        BUG("a finding of no kind");
    }
    buf_addc(b, '\n');
}

static void add_member(struct buf *b, const char *key, const char *value) {
    buf_addf(b, ", \"%s\": ", key);
    buf_add_json(b, value);
}

static void add_json(const struct check_finding *f, struct buf *b) {
    buf_addf(b, "{\"kind\": \"%s\"", check_kind_names[f->kind]);
    if (f->kind != CHECK_NO_FILE) {
        add_member(b, "pattern", f->pattern);
        add_member(b, "path", f->path);
    }
    if (f->kind == CHECK_REINCLUDED) {
        add_member(b, "file", f->origin);
        buf_addf(b, ", \"line\": %u", f->line);
        add_member(b, "rule", f->rule);
    }
    if (f->kind == CHECK_TRACKED)
        buf_addf(b, ", \"hidden\": %s", f->hidden ? "true" : "false");
    buf_addc(b, '}');
}

static void add_report(const struct ignore_check *c, bool json, struct buf *b) {
    if (json)
        buf_addf(b, "{\"file\": \"" IGNORE_FILE "\", \"git\": %s, \"findings\": [", c->git ? "true" : "false");
    for (size_t i = 0; i < c->n; i++) {
        if (json)
            buf_adds(b, i ? ",\n " : "");
        if (json)
            add_json(&c->v[i], b);
        else
            add_text(&c->v[i], b);
    }
    if (json)
        buf_adds(b, "]}\n");
    else if (c->n == 0)
        buf_adds(b, IGNORE_FILE " hides everything that the recommended set hides\n");
}

/* Returns the exit status, or negative. */
static int check(int dir, bool json, struct err *err) {
    CLEANUP(ignore_check_done) struct ignore_check c = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    int r = ignore_check(dir, &c, err);

    if (r < 0)
        return r;
    if (!c.git && !json)
        log_line("no git index here, so tracked files were not looked at");
    add_report(&c, json, &out);
    r = print(&out, err);
    return r < 0 ? r : c.n ? EXIT_FINDINGS : 0;
}

static int run_init(const struct verb *self, int argc, char **argv) {
    CLEANUP(closep) int dir = -1;
    struct init_request q = {.directory = "."};
    struct err err = {0};
    int r = read_options(argc, argv, &q, &err);

    if (r == 0) {
        dir = open(q.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = dir < 0 ? err_usage(&err, "workspace '%s': %s", q.directory, strerror(errno)) : 0;
    }
    if (r == 0)
        r = q.check ? check(dir, q.json, &err) : q.accept ? accept_rules(dir, q.json, &err) : write_defaults(dir, q.json, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Writes " IGNORE_FILE " with rules that hide secrets (environment files, keys, credentials of clouds and tools) from every "
    "sandbox of this project. The syntax is that of .gitignore. A file that is there is never overwritten; without any, the "
    "same rules hold.\n\n"
    "With --check, for CI, nothing is written. It says which of the recommended rules are missing, which are undone by a rule "
    "with '!', and which files in git's index look like secrets. A tracked file that is no secret is accepted by showing it "
    "by its path ('!/certs/test.pem'). The exit status is 0 if there is nothing to say, 1 if there is.\n\n"
    "A change of the rules that hides more counts at once. One that shows more counts only after --accept, because whatever runs in "
    "a sandbox can change the file, too.\n\n"
    "    bawn init\n"
    "    bawn init --check\n"
    "    bawn init --accept";

const struct verb verb_init = {
    .name = "init",
    .summary = "write the rules that hide secrets from the sandbox",
    .synopsis = "[-C DIR] [--check | --accept] [--json]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_init,
};
