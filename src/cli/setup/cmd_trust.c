/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn trust`. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/setup/project_trust.h"

enum { OUTPUT_MAX = 4 * 1024 * 1024 };

struct trust_request {
    const char *directory;
    bool show, revoke, yes, json;
};

#define TO(kind, member) OPT_TO_##kind(struct trust_request, member)
static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, directory)},
    {0, 0, "show", NULL, "only say whether the project is trusted and what it would get", NULL, TO(FLAG, show)},
    {0, 0, "revoke", NULL, "stop trusting this project", NULL, TO(FLAG, revoke)},
    {0, 'y', "yes", NULL, "do not ask", NULL, TO(FLAG, yes)},
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
};

static void add_json_file(struct jsonout *j, const char *name, const char *hash, bool trusted) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "file", name);
    jsonout_text(j, "state", trusted ? "trusted" : "untrusted");
    jsonout_text(j, "sha256", hash);
    jsonout_close(j, '}');
}

static void add_json_trust(const struct project_trust *t, struct buf *b) {
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "workspace", t->workspace);
    jsonout_text(&j, "state", project_trust_state(t));
    if (t->exists)
        jsonout_text(&j, "sha256", t->project.hash);
    jsonout_open(&j, "files", '[');
    if (t->exists)
        add_json_file(&j, PROJECT_FILE, t->project.hash, t->trusted);
    if (t->network_exists)
        add_json_file(&j, PROJECT_NETWORK_FILE, t->network.hash, t->network_trusted);
    jsonout_close(&j, ']');
    jsonout_list(&j, "widens", &t->widens);
    buf_adds(b, "}\n");
}

/* hash NULL: there is no such file. */
static void add_text_file(const struct project_trust *t, const char *name, const char *hash, bool trusted, struct buf *b) {
    buf_add_printable(b, t->workspace);
    buf_addf(b, "/%s: %s\n", name, !hash ? "there is no such file" : trusted ? "trusted" : "untrusted");
    if (hash)
        buf_addf(b, "sha256 %s\n", hash);
}

static void add_trust(const struct project_trust *t, struct buf *b) {
    add_text_file(t, PROJECT_FILE, t->exists ? t->project.hash : NULL, t->trusted, b);
    if (t->network_exists)
        add_text_file(t, PROJECT_NETWORK_FILE, t->network.hash, t->network_trusted, b);
    if (!t->exists && !t->network_exists)
        return;
    if (t->widens.len == 0)
        buf_adds(b, "it asks for nothing that needs trust\n");
    else
        buf_adds(b, project_trust_complete(t) ? "because it is trusted, it gets:\n" : "if it is trusted, it gets:\n");
    for (size_t i = 0; i < t->widens.len; i++) {
        buf_adds(b, "  ");
        buf_add_printable(b, t->widens.v[i]);
        buf_addc(b, '\n');
    }
}

static int print_trust(const struct project_trust *t, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);

    (json ? add_json_trust : add_trust)(t, &b);
    return verb_print(&b, err);
}

static int ask_user(const struct trust_request *q, const struct project_trust *t, struct err *err) {
    int r = q->json ? 0 : print_trust(t, false, err);

    if (r < 0 || q->yes)
        return r;
    return run_print_ask("Trust exactly this content?", "read the file", "not trusted", err);
}

static int grant(const struct trust_request *q, struct project_trust *t, struct err *err) {
    int r = 0;

    if (!t->exists && !t->network_exists)
        return err_usage(err, "there is no '%s/" PROJECT_FILE "' or '" PROJECT_NETWORK_FILE "' to trust", t->workspace);
    if (!project_trust_complete(t))
        r = ask_user(q, t, err);
    r = r < 0 ? r : project_trust_grant(t, err);
    if (r < 0 || q->json)
        return r < 0 ? r : print_trust(t, true, err);
    log_line("trusted until the file changes");
    return 0;
}

static int revoke_trust(const struct trust_request *q, struct project_trust *t, struct err *err) {
    int r = project_trust_revoke(q->directory, t, err);

    if (r < 0 || q->json)
        return r < 0 ? r : print_trust(t, true, err);
    log_line(t->revoked ? "no longer trusted" : "it was not trusted");
    return 0;
}

static int run_trust(struct verb_call *c, struct err *err) {
    CLEANUP(project_trust_done) struct project_trust t = {0};
    struct trust_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    if (r == 0 && q.show && q.revoke)
        r = err_usage(err, "--show and --revoke exclude each other");
    if (r == 0)
        r = q.revoke ? revoke_trust(&q, &t, err) : project_trust_look(q.directory, &t, err);
    if (r >= 0 && !q.revoke)
        r = q.show ? print_trust(&t, q.json, err) : grant(&q, &t, err);
    return r < 0 ? r : 0;
}

const struct verb verb_trust = {
    .name = "trust",
    .summary = "let the project's own configuration widen the sandbox",
    .synopsis = "[options]",
    .description =
        "A project's own files, .bawn/config.json and .bawn/network.json in the workspace, may narrow what a run is allowed, but not "
        "widen it, until you trust them. This command shows what the files would widen, asks, and records the hashes of exactly this "
        "content. When a file changes, it is untrusted again.\n\n"
        "    bawn trust --show\n"
        "    bawn trust\n"
        "    bawn trust --revoke",
    VERB_OPTS(opts),
    .run = run_trust,
};
