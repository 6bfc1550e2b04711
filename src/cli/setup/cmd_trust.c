/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "config/load/config_file.h"
#include "config/load/load.h"
#include "config/load/paths.h"
#include "config/load/trust.h"
#include "ops/audit_verb.h"
#include "os/fd.h"
#include "policy/rules/rule.h"

enum { OPT_DIRECTORY = 1, OPT_SHOW, OPT_REVOKE, OPT_YES, OPT_JSON, OUTPUT_MAX = 4 * 1024 * 1024 };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_SHOW, 0, "show", NULL, "only say whether the project is trusted and what it would get", NULL},
    {OPT_REVOKE, 0, "revoke", NULL, "stop trusting this project", NULL},
    {OPT_YES, 'y', "yes", NULL, "do not ask", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct trust_request {
    const char *directory;
    bool show, revoke, yes, json;
};

/* All that is known about the project's two files. */
struct trust_state {
    char *home, *workspace, *records;
    struct project project;
    bool exists, trusted, revoked;
    struct project_network network;
    bool network_exists, network_trusted;
    struct strv widens;
};

static void state_done(struct trust_state *st) {
    free(st->home);
    free(st->workspace);
    free(st->records);
    project_done(&st->project);
    project_network_done(&st->network);
    strv_done(&st->widens);
}

static int read_options(int argc, char **argv, struct trust_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        switch (it.id) {
        case OPT_DIRECTORY:
            ret->directory = it.value;
            break;
        case OPT_SHOW:
            ret->show = true;
            break;
        case OPT_REVOKE:
            ret->revoke = true;
            break;
        case OPT_YES:
            ret->yes = true;
            break;
        case OPT_JSON:
            ret->json = true;
            break;
        }
    if (r == 0 && it.pos < argc)
        return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
    if (r == 0 && ret->show && ret->revoke)
        return err_usage(err, "--show and --revoke exclude each other");
    return r;
}

/* What this file does must not depend on what the environment says for one run, only on where the user's files are. */
static char **lasting_environment(void) {
    size_t n = 0, kept = 0;
    char **copy;

    while (environ && environ[n])
        n++;
    copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!str_starts(environ[i], "BAWN_"))
            copy[kept++] = environ[i];
    return copy;
}

static int add_widening(struct trust_state *st, const char *agent, char *const *variables, struct err *err) {
    struct settings_sources src = {.agent = agent, .workspace = st->workspace, .home = st->home, .environ_ = variables};
    CLEANUP(settings_done) struct settings s = {0};
    int r = load_settings(&src, &st->project, false, &s, err);

    for (size_t i = 0; r == 0 && i < s.notes.len; i++) {
        const char *note = s.notes.v[i], *end = strstr(note, " not applied: the project is not trusted");
        CLEANUP(freep) char *wish = end ? strndup(note, (size_t)(end - note)) : NULL;

        if (end && !wish)
            return err_oom(err);
        if (wish && !strv_has(&st->widens, wish) && strv_add(&st->widens, wish) < 0)
            return err_oom(err);
    }
    return r;
}

/* The user trusts the whole file, so every agent's section counts, not only the one that would run now. */
static int find_widenings(struct trust_state *st, struct err *err) {
    CLEANUP(freep) char **variables = lasting_environment();
    CLEANUP(strv_done) struct strv agents = {0};
    int r;

    if (!variables)
        return err_oom(err);
    r = add_widening(st, NULL, variables, err);
    if (r < 0)
        return r;
    if (file_agents(&st->project.doc, &agents) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < agents.len; i++)
        r = add_widening(st, agents.v[i], variables, err);
    return r;
}

static int add_rule_wish(struct trust_state *st, const struct rule *rule, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(OUTPUT_MAX);

    rule_add_json(rule, &text);
    return strv_addf(&st->widens, "%s: rule %s", st->network.path, buf_str(&text)) < 0 ? err_oom(err) : 0;
}

/* The project's network rules: every rule that does not deny, and the mode, count only with trust. */
static int inspect_network(struct trust_state *st, struct err *err) {
    CLEANUP(closep) int top = open(st->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(rules_done) struct rules rules = {0};
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace '%s'", st->workspace);
    r = project_network_read(top, &st->network, err);
    if (r <= 0)
        return r;
    st->network_exists = true;
    r = rules_read(st->network.path, st->network.text, st->network.len, &rules, err);
    if (r == 0 && rules.mode != NET_UNSET &&
        strv_addf(&st->widens, "%s: mode '%s'", st->network.path, net_mode_names[rules.mode]) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < rules.len; i++)
        r = rules.v[i].action == RULE_DENY ? 0 : add_rule_wish(st, &rules.v[i], err);
    return r < 0 ? r : project_network_trusted(st->records, &st->network, &st->network_trusted, err);
}

static int inspect(const struct trust_request *q, struct trust_state *st, struct err *err) {
    int r;

    r = paths_home(environ, &st->home, err);
    if (r < 0)
        return r;
    r = paths_workspace(q->directory, &st->workspace, err);
    if (r < 0)
        return r;
    r = trust_file(environ, st->home, &st->records, err);
    if (r < 0)
        return r;
    if (!st->records)
        return err_set(err, -ENOENT, "there is no home folder to keep trust records in");
    if (q->revoke) /* must work however broken the project's file is */
        return 0;
    r = inspect_network(st, err);
    if (r < 0)
        return r;
    r = project_read(st->workspace, &st->project, err);
    if (r <= 0)
        return r;
    st->exists = true;
    r = trust_check(st->records, st->workspace, st->project.hash, &st->trusted, err);
    return r < 0 ? r : find_widenings(st, err);
}

static bool all_trusted(const struct trust_state *st) {
    return (!st->exists || st->trusted) && (!st->network_exists || st->network_trusted);
}

static const char *state_name(const struct trust_state *st) {
    if (st->revoked)
        return "revoked";
    if (!st->exists && !st->network_exists)
        return "none";
    return all_trusted(st) ? "trusted" : "untrusted";
}

static void add_json_file(const char *name, const char *hash, bool trusted, struct buf *b) {
    buf_addf(b, "{\"file\": \"%s\", \"state\": \"%s\", \"sha256\": \"%s\"}", name, trusted ? "trusted" : "untrusted", hash);
}

static void add_json_files(const struct trust_state *st, struct buf *b) {
    buf_adds(b, ", \"files\": [");
    if (st->exists)
        add_json_file(PROJECT_FILE, st->project.hash, st->trusted, b);
    buf_adds(b, st->exists && st->network_exists ? ", " : "");
    if (st->network_exists)
        add_json_file(PROJECT_NETWORK_FILE, st->network.hash, st->network_trusted, b);
    buf_addc(b, ']');
}

static void add_json(const struct trust_state *st, struct buf *b) {
    buf_adds(b, "{\"workspace\": ");
    buf_add_json(b, st->workspace);
    buf_addf(b, ", \"state\": \"%s\"", state_name(st));
    if (st->exists)
        buf_addf(b, ", \"sha256\": \"%s\"", st->project.hash);
    add_json_files(st, b);
    buf_adds(b, ", \"widens\": [");
    for (size_t i = 0; i < st->widens.len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, st->widens.v[i]);
    }
    buf_adds(b, "]}\n");
}

/* hash NULL: there is no such file. */
static void add_text_file(const struct trust_state *st, const char *name, const char *hash, bool trusted, struct buf *b) {
    buf_add_printable(b, st->workspace);
    buf_addf(b, "/%s: %s\n", name, !hash ? "there is no such file" : trusted ? "trusted" : "untrusted");
    if (hash)
        buf_addf(b, "sha256 %s\n", hash);
}

static void add_text(const struct trust_state *st, struct buf *b) {
    add_text_file(st, PROJECT_FILE, st->exists ? st->project.hash : NULL, st->trusted, b);
    if (st->network_exists)
        add_text_file(st, PROJECT_NETWORK_FILE, st->network.hash, st->network_trusted, b);
    if (!st->exists && !st->network_exists)
        return;
    if (st->widens.len == 0)
        buf_adds(b, "it asks for nothing that needs trust\n");
    else
        buf_adds(b, all_trusted(st) ? "because it is trusted, it gets:\n" : "if it is trusted, it gets:\n");
    for (size_t i = 0; i < st->widens.len; i++) {
        buf_adds(b, "  ");
        buf_add_printable(b, st->widens.v[i]);
        buf_addc(b, '\n');
    }
}

static bool user_agrees(void) {
    char answer[16];

    fputs("Trust exactly this content? [y/N] ", stderr);
    fflush(stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static void print_state(const struct trust_state *st, bool json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);

    if (json)
        add_json(st, &b);
    else
        add_text(st, &b);
    fputs(buf_str(&b), stdout);
    fflush(stdout);
}

/* Which content of which project. */
static int note_trust(const struct trust_state *st, const char *what, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", what);
    audit_add(&b, "workspace", st->workspace);
    audit_add(&b, "config_sha256", st->exists ? st->project.hash : NULL);
    audit_add(&b, "network_sha256", st->network_exists ? st->network.hash : NULL);
    return audit_verb(AUDIT_POLICY, "", &b, err);
}

static int grant(const struct trust_request *q, struct trust_state *st, struct err *err) {
    int r;

    if (!st->exists && !st->network_exists)
        return err_usage(err, "there is no '%s/" PROJECT_FILE "' or '" PROJECT_NETWORK_FILE "' to trust", st->workspace);
    if (!q->json && !all_trusted(st))
        print_state(st, false);
    if (!all_trusted(st) && !q->yes) {
        if (!isatty(STDIN_FILENO))
            return err_usage(err, "nobody is there to be asked; read the file and repeat with --yes");
        if (!user_agrees())
            return err_set(err, -ECANCELED, "not trusted");
    }
    r = note_trust(st, "project trusted", err);
    if (r == 0 && st->exists)
        r = trust_record(st->records, st->project.workspace, st->project.hash, err);
    if (r == 0 && st->network_exists)
        r = trust_record(st->records, st->network.path, st->network.hash, err);
    if (r < 0)
        return r;
    st->trusted = st->network_trusted = true;
    if (q->json)
        print_state(st, true);
    else
        log_line("trusted until the file changes");
    return 0;
}

static int take_back(const struct trust_request *q, struct trust_state *st, struct err *err) {
    CLEANUP(freep) char *network = str_dupf("%s/%s", st->workspace, PROJECT_NETWORK_FILE);
    int r = network ? note_trust(st, "trust revoked", err) : err_oom(err), n;

    r = r < 0 ? r : trust_revoke(st->records, st->workspace, err);
    n = r < 0 ? r : trust_revoke(st->records, network, err);
    if (n < 0)
        return n;
    st->revoked = r > 0 || n > 0;
    if (q->json)
        print_state(st, true);
    else
        log_line(st->revoked ? "no longer trusted" : "it was not trusted");
    return 0;
}

static int run_trust(const struct verb *self, int argc, char **argv) {
    CLEANUP(state_done) struct trust_state st = {0};
    struct trust_request q = {0};
    struct err err = {0};
    int r;

    if (read_options(argc, argv, &q, &err) < 0 || inspect(&q, &st, &err) < 0)
        return verb_fail(self, &err);
    if (q.show) {
        print_state(&st, q.json);
        return 0;
    }
    r = q.revoke ? take_back(&q, &st, &err) : grant(&q, &st, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "A project's own files, .bawn/config.json and .bawn/network.json in the workspace, may narrow what a run is allowed, but not "
    "widen it, until you trust them. This command shows what the files would widen, asks, and records the hashes of exactly this "
    "content. When a file changes, it is untrusted again.\n\n"
    "    bawn trust --show\n"
    "    bawn trust\n"
    "    bawn trust --revoke";

const struct verb verb_trust = {
    .name = "trust",
    .summary = "let the project's own configuration widen the sandbox",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_trust,
};
