/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_question.h"
#include "cli/policy/policy_view.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/policy/policy_edit.h"
#include "ops/policy/policy_live.h"

enum {
    OPT_METHOD = 1,
    OPT_PATH,
    OPT_MAX_BODY,
    OPT_PRIVATE,
    OPT_INSPECT,
    OPT_COMMENT,
    OPT_ID,
    OPT_PROJECT,
    OPT_USER,
    OPT_SANDBOX,
    OPT_FIRST
};

#define WHERE_OPTS                                                   \
    {OPT_USER, 0, "user", NULL, "in your own file (default)", NULL}, \
        {OPT_PROJECT, 0, "project", NULL, "in the project's file, .bawn/network.json", NULL}, POLICY_VIEW_DIR
#define REQUEST_OPTS                                                                                                        \
    {OPT_METHOD, 0, "method", "METHOD", "only requests with this method (may be repeated)", NULL},                          \
        {OPT_PATH, 0, "path", "GLOB", "only requests for these paths, e.g. '/api/**' (may be repeated)", NULL},             \
        {OPT_COMMENT, 0, "comment", "TEXT", "why; kept with the rule", NULL},                                               \
        {OPT_ID, 0, "id", "ID", "name of the rule (default: made from the host)", NULL}, {                                  \
        OPT_SANDBOX, 0, "sandbox", "SANDBOX", "only for this running one (its name, or its pid), until it ends", "@sandbox" \
    }

static const struct opt allow_opts[] = {
    REQUEST_OPTS,
    {OPT_MAX_BODY, 0, "max-body", "SIZE", "the most that one request may carry, e.g. 1m", NULL},
    {OPT_PRIVATE, 0, "private", NULL, "the host may have an address that is not public", NULL},
    {OPT_INSPECT, 0, "inspect", NULL, "look into the TLS even if the rule does not need it", NULL},
    {OPT_FIRST, 0, "first", NULL, "in front of the other rules of the file (default: behind them)", NULL},
    WHERE_OPTS,
};
static const struct opt deny_opts[] = {REQUEST_OPTS, WHERE_OPTS};
static const struct opt rm_opts[] = {WHERE_OPTS};

struct policy_edit_request {
    struct policy_view_opts view;
    struct rule more; /* what the options say; only some members */
    bool project, user, first;
    const char *sandbox;
};

static void request_done(struct policy_edit_request *q) {
    rule_done(&q->more);
}

/* "GET,HEAD" is two. */
static int take_methods(struct rule *rule, const char *value, struct err *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";

    for (const char *at = value;; at++) {
        size_t n = strspn(at, letters);
        char upper[RULE_ID_MAX];

        if (n == 0 || n >= sizeof upper || (at[n] && at[n] != ','))
            return err_usage(err, "--method '%.60s' is not a method such as GET", value);
        for (size_t i = 0; i < n; i++)
            upper[i] = at[i] >= 'a' && at[i] <= 'z' ? (char)(at[i] - 0x20) : at[i];
        upper[n] = 0;
        if (strv_add(&rule->methods, upper) < 0)
            return err_oom(err);
        at += n;
        if (!*at)
            return 0;
    }
}

static int take_path(struct rule *rule, const char *value, struct err *err) {
    char glob[PATH_GLOB_MAX + 1];
    int r = path_glob_parse(value, strlen(value), glob, err);

    if (r == -EINVAL)
        return err_usage(err, "--path '%.200s' is not a pattern for paths such as '/api/**'", value);
    return r < 0 || strv_add(&rule->paths, glob) < 0 ? err_oom(err) : 0;
}

static int take_text(char **to, const char *value, struct err *err) {
    free(*to);
    *to = strdup(value);
    return *to ? 0 : err_oom(err);
}

static int take(void *arg, int id, const char *value, struct err *err) {
    struct policy_edit_request *q = arg;

    switch (id) {
    case OPT_METHOD:
        return take_methods(&q->more, value, err);
    case OPT_PATH:
        return take_path(&q->more, value, err);
    case OPT_MAX_BODY:
        return parse_size(value, &q->more.max_body, err) < 0 ? err_ctx(err, -EINVAL, "--max-body") : 0;
    case OPT_COMMENT:
        return take_text(&q->more.comment, value, err);
    case OPT_ID:
        if (!rule_id_ok(value))
            return err_usage(err, "--id takes 1 to %d letters, digits, '.', '_' or '-'", RULE_ID_MAX);
        return take_text(&q->more.id, value, err);
    case OPT_PRIVATE:
        q->more.allow_private = true;
        return 0;
    case OPT_INSPECT:
        q->more.inspect = INSPECT_YES;
        return 0;
    case OPT_PROJECT:
        q->project = true;
        return 0;
    case OPT_USER:
        q->user = true;
        return 0;
    case OPT_FIRST:
        q->first = true;
        return 0;
    case OPT_SANDBOX:
        q->sandbox = value;
        return 0;
    }
    policy_view_take(&q->view, id, value);
    return 0;
}

static int check(const struct policy_edit_request *q, struct err *err) {
    if (q->project + q->user + (q->sandbox != NULL) > 1)
        return err_usage(err, "--user, --project and --sandbox exclude each other");
    return 0;
}

struct policy_edit_place {
    char *home, *workspace;
};

static void place_done(struct policy_edit_place *p) {
    free(p->home);
    free(p->workspace);
}

static int find_place(const struct policy_edit_request *q, struct policy_edit_place *ret, struct err *err) {
    int r = paths_home(environ, &ret->home, err);

    return r < 0 ? r : paths_workspace(q->view.dir, &ret->workspace, err);
}

static int make_rule(const char *text, enum rule_action action, struct policy_edit_request *q, struct rule *ret,
                     struct err *err) {
    int r = rule_from_text(text, action, ret, err);

    if (r < 0)
        return r;
    ret->methods = TAKE(q->more.methods, (struct strv){0});
    ret->paths = TAKE(q->more.paths, (struct strv){0});
    ret->comment = TAKE_PTR(q->more.comment);
    ret->id = TAKE_PTR(q->more.id);
    ret->max_body = q->more.max_body;
    ret->inspect = q->more.inspect;
    ret->allow_private |= q->more.allow_private;
    return 0;
}

/* An exception that stands behind a denial, or under the organisation's, does nothing: better said than searched for. */
static void warn_if_idle(const struct policy_edit_request *q, const struct rule *rule) {
    CLEANUP(policy_view_done) struct policy_view view = POLICY_VIEW_INIT;
    const struct pattern *p = &rule->hosts[0];
    struct policy_question question = {.host = p->text, .host_len = strlen(p->text)};
    const struct policy_verdict *v;
    struct policy_answer a;
    struct err err = {0};

    if (rule->action != RULE_ALLOW || p->kind != PATTERN_EXACT || policy_view_open(&q->view, &view, &err) < 0 ||
        policy_ask(&view.policy, &question, &a, &err) < 0)
        return;
    v = policy_answer_verdict(&a);
    if (v->action == RULE_DENY)
        log_line("it is still denied: %s", v->reason);
}

static void say(const struct policy_edit_result *d) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(64 * 1024);
    static const char *const words[] = {[EDIT_NOTHING] = "was there already",
                                        [EDIT_ADDED] = "added",
                                        [EDIT_MOVED] = "moved to the front",
                                        [EDIT_REMOVED] = "removed"};

    buf_add_printable(&path, d->path);
    log_line("rule '%s' %s: %s", d->id, words[d->what], buf_str(&path));
    if (d->untrusted && d->what != EDIT_REMOVED)
        log_line("the project's rules can only deny until you have read and trusted them (see 'bawn trust')");
}

static const char *target_of(const struct policy_edit_request *q) {
    return q->sandbox ? q->sandbox : q->project ? "project" : "user";
}

/* The rule as the file gets it; its comment, too, is what the user said. */
static int note_rule(const struct policy_edit_request *q, const struct rule *rule, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX), text = BUF_INIT(AUDIT_LINE_MAX);

    rule_add_json(rule, &text);
    audit_add(&b, "what", "rule added");
    audit_add(&b, "where", target_of(q));
    audit_add(&b, "rule", buf_str(&text));
    if (!buf_ok(&text))
        return err_oom(err);
    return audit_verb(AUDIT_POLICY, "", &b, err);
}

static int add(const char *text, enum rule_action action, struct policy_edit_request *q, struct err *err) {
    CLEANUP(policy_edit_result_done) struct policy_edit_result done = {0};
    CLEANUP(place_done) struct policy_edit_place place = {0};
    CLEANUP(rule_done) struct rule rule = {0};
    CLEANUP(freep) char *id = NULL;
    struct policy_edit e = {.target = q->project ? POLICY_TARGET_PROJECT : POLICY_TARGET_USER};
    int r = make_rule(text, action, q, &rule, err);

    r = r < 0 ? r : note_rule(q, &rule, err);
    if (r < 0)
        return r;
    if (q->sandbox) {
        r = policy_live_add(q->sandbox, &rule, &id, err);
        if (r >= 0)
            log_line("rule '%s' holds for sandbox %s until it ends", id, q->sandbox);
        return r;
    }
    r = find_place(q, &place, err);
    if (r < 0)
        return r;
    e.workspace = place.workspace;
    e.home = place.home;
    r = policy_edit_add(&e, &rule, q->first || action == RULE_DENY, &done, err);
    if (r < 0)
        return r;
    say(&done);
    warn_if_idle(q, &rule);
    return 0;
}

static int run_add(const struct verb *self, int argc, char **argv, enum rule_action action) {
    CLEANUP(request_done) struct policy_edit_request q = {0};
    struct policy_words words = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    r = r < 0 ? r : check(&q, &err);
    if (r == 0)
        r = words.n == 1 ? add(words.v[0], action, &q, &err)
                         : err_usage(&err, "which host? e.g. bawn policy %s example.com:443", rule_action_names[action]);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int run_allow(const struct verb *self, int argc, char **argv) {
    return run_add(self, argc, argv, RULE_ALLOW);
}

static int run_deny(const struct verb *self, int argc, char **argv) {
    return run_add(self, argc, argv, RULE_DENY);
}

static int remove_rule(const char *id, const struct policy_edit_request *q, struct err *err) {
    CLEANUP(policy_edit_result_done) struct policy_edit_result done = {0};
    CLEANUP(place_done) struct policy_edit_place place = {0};
    struct policy_edit e = {.target = q->project ? POLICY_TARGET_PROJECT : POLICY_TARGET_USER};
    int r = find_place(q, &place, err);

    if (r < 0)
        return r;
    e.workspace = place.workspace;
    e.home = place.home;
    r = audit_verb_word(AUDIT_POLICY, "", "rule removed", id, err);
    r = r < 0 ? r : policy_edit_remove(&e, id, &done, err);
    if (r == 0)
        say(&done);
    return r;
}

static int run_rm(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct policy_edit_request q = {0};
    struct policy_words words = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    r = r < 0 ? r : check(&q, &err);
    if (r == 0)
        r = words.n == 1 ? remove_rule(words.v[0], &q, &err) : err_usage(&err, "which rule? (see 'bawn policy ls')");
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char allow_description[] =
    "Writes a rule into a file with network rules, behind the rules that are there; running sandboxes follow at once. The host "
    "is a name, *.suffix (one label in front), **.suffix (one or more), an address, a network, or a @group. Without a port, "
    "every port is allowed. host.bawn.internal is this machine.\n\n"
    "    bawn policy allow internal.example.com:443\n"
    "    bawn policy allow api.github.com --method GET,HEAD --path '/repos/our/**'\n"
    "    bawn policy allow db.lan:5432 --private\n"
    "    bawn policy allow host.bawn.internal:11434 --project";
static const char deny_description[] =
    "Writes a rule into a file with network rules, in front of the rules that are there; running sandboxes follow at once and "
    "lose connections that are no longer allowed.\n\n"
    "    bawn policy deny gist.github.com\n"
    "    bawn policy deny registry.npmjs.org --method PUT,POST,DELETE";

const struct verb verb_policy_allow = {
    .name = "policy allow",
    .summary = "let sandboxes reach a host",
    .synopsis = "[options] HOST[:PORT]",
    .description = allow_description,
    .opts = allow_opts,
    .n_opts = ARRAY_LEN(allow_opts),
    .run = run_allow,
};

const struct verb verb_policy_deny = {
    .name = "policy deny",
    .summary = "do not let sandboxes reach a host",
    .synopsis = "[options] HOST[:PORT]",
    .description = deny_description,
    .opts = deny_opts,
    .n_opts = ARRAY_LEN(deny_opts),
    .run = run_deny,
};

const struct verb verb_policy_rm = {
    .name = "policy rm",
    .summary = "remove a network rule",
    .synopsis = "[options] ID",
    .description = "Removes the rule with this id from your own file, or, with --project, from the project's.",
    .opts = rm_opts,
    .n_opts = ARRAY_LEN(rm_opts),
    .run = run_rm,
};
