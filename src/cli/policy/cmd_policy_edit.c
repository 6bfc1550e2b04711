/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy allow`, `deny` and `rm`. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "ops/policy/policy_edit.h"

struct policy_edit_request {
    struct policy_here_opts view;
    struct rule more; /* what the options say; only some members */
    bool project, user, first, inspect;
    const char *sandbox;
};

/* "GET,HEAD" is two. */
static int take_methods(const struct opt *o UNUSED, const char *value, void *methods, struct err *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";

    for (const char *at = value;; at++) {
        size_t n = strspn(at, letters);
        char upper[RULE_ID_MAX];

        if (n == 0 || n >= sizeof upper || (at[n] && at[n] != ','))
            return err_usage(err, "--method '%.60s' is not a method such as GET", value);
        for (size_t i = 0; i < n; i++)
            upper[i] = at[i] >= 'a' && at[i] <= 'z' ? (char)(at[i] - 0x20) : at[i];
        upper[n] = 0;
        if (strv_add(methods, upper) < 0)
            return err_oom(err);
        at += n;
        if (!*at)
            return 0;
    }
}

static int take_path(const struct opt *o UNUSED, const char *value, void *paths, struct err *err) {
    char glob[PATH_GLOB_MAX + 1];
    int r = path_glob_parse(value, strlen(value), glob, err);

    if (r == -EINVAL)
        return err_usage(err, "--path '%.200s' is not a pattern for paths such as '/api/**'", value);
    return r < 0 || strv_add(paths, glob) < 0 ? err_oom(err) : 0;
}

static int take_id(const struct opt *o UNUSED, const char *value, void *id, struct err *err) {
    if (!rule_id_ok(value))
        return err_usage(err, "--id takes 1 to %d letters, digits, '.', '_' or '-'", RULE_ID_MAX);
    return str_set(id, value) < 0 ? err_oom(err) : 0;
}

#define TO(kind, member) OPT_TO_##kind(struct policy_edit_request, member)
#define CALL(member, fn) OPT_TO_CALL(struct policy_edit_request, member, fn)
/* `rm` has the first of them, `deny` some more, `allow` all. */
enum { RM_OPTS = 3, DENY_OPTS = 8 };
static const struct opt opts[] = {
    {0, 0, "user", NULL, "in your own file (default)", NULL, TO(FLAG, user)},
    {0, 0, "project", NULL, "in the project's file, .bawn/network.json", NULL, TO(FLAG, project)},
    POLICY_VIEW_DIR(struct policy_edit_request, view),
    {0, 0, "sandbox", "SANDBOX", "only for this running one (its name, or its pid), until it ends", "@sandbox",
     TO(TEXT, sandbox)},
    {0, 0, "method", "METHOD", "only requests with this method (may be repeated)", NULL, CALL(more.methods, take_methods)},
    {0, 0, "path", "GLOB", "only requests for these paths, e.g. '/api/**' (may be repeated)", NULL, CALL(more.paths, take_path)},
    {0, 0, "comment", "TEXT", "why; stored with the rule", NULL, TO(COPY, more.comment)},
    {0, 0, "id", "ID", "name of the rule (default: made from the host)", NULL, CALL(more.id, take_id)},
    {0, 0, "max-body", "SIZE", "the most that one request may carry, e.g. 1m", NULL, TO(SIZE, more.max_body)},
    {0, 0, "private", NULL, "the host may have an address that is not public", NULL, TO(FLAG, more.allow_private)},
    {0, 0, "inspect", NULL, "inspect TLS even if the rule does not need it", NULL, TO(FLAG, inspect)},
    {0, 0, "first", NULL, "in front of the other rules of the file (default: behind them)", NULL, TO(FLAG, first)},
};

/* Returns whether there is an operand, which is argv[1] then. */
static int read_request(struct verb_call *c, struct policy_edit_request *q, struct policy_edit *ret, struct err *err) {
    int n = verb_parse(c, q, 1, err);

    if (n >= 0 && q->project + q->user + (q->sandbox != NULL) > 1)
        return err_usage(err, "--user, --project and --sandbox exclude each other");
    *ret = (struct policy_edit){.target = q->sandbox   ? POLICY_TARGET_SANDBOX
                                          : q->project ? POLICY_TARGET_PROJECT
                                                       : POLICY_TARGET_USER,
                                .sandbox = q->sandbox,
                                .dir = q->view.dir};
    return n;
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
    ret->inspect = q->inspect ? INSPECT_YES : INSPECT_IF_NEEDED;
    ret->allow_private |= q->more.allow_private;
    return 0;
}

static void print_edit(const struct policy_edit *e, const struct policy_edit_result *d) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(64 * 1024);
    static const char *const words[] = {[EDIT_NOTHING] = "was there already",
                                        [EDIT_ADDED] = "added",
                                        [EDIT_MOVED] = "moved to the front",
                                        [EDIT_REMOVED] = "removed"};

    if (!d->path) {
        log_line("rule '%s' holds for sandbox %s until it ends", d->id, e->sandbox);
        return;
    }
    buf_add_printable(&path, d->path);
    log_line("rule '%s' %s: %s", d->id, words[d->what], buf_str(&path));
    if (d->untrusted && d->what != EDIT_REMOVED)
        log_line("the project's rules can only deny until you have read and trusted them (see 'bawn trust')");
    if (d->denied)
        log_line("it is still denied: %s", d->denied);
}

/* The last word of the verb is the action. */
static int run_add(struct verb_call *c, struct err *err) {
    CLEANUP(policy_edit_result_done) struct policy_edit_result done = {0};
    struct policy_edit_request q = {0};
    CLEANUP(rule_done) struct rule rule = {0};
    enum rule_action action = str_eq(c->argv[0], "deny") ? RULE_DENY : RULE_ALLOW;
    struct policy_edit e;
    int r = read_request(c, &q, &e, err);

    if (r == 0)
        r = err_usage(err, "name a host, e.g. bawn policy %s example.com:443", rule_action_names[action]);
    r = r < 0 ? r : make_rule(c->argv[1], action, &q, &rule, err);
    r = r < 0 ? r : policy_edit_add(&e, &rule, q.first || action == RULE_DENY, &done, err);
    if (r >= 0)
        print_edit(&e, &done);
    rule_done(&q.more);
    return r;
}

static int run_rm(struct verb_call *c, struct err *err) {
    CLEANUP(policy_edit_result_done) struct policy_edit_result done = {0};
    struct policy_edit_request q = {0};
    struct policy_edit e;
    int r = read_request(c, &q, &e, err);

    if (r == 0)
        r = err_usage(err, "name a rule (see 'bawn policy ls')");
    r = r < 0 ? r : policy_edit_remove(&e, c->argv[1], &done, err);
    if (r >= 0)
        print_edit(&e, &done);
    rule_done(&q.more);
    return r;
}

const struct verb verb_policy_allow = {
    .name = "policy allow",
    .summary = "let sandboxes reach a host",
    .synopsis = "[options] HOST[:PORT]",
    .description =
        "Writes a rule into a file with network rules, behind the rules that are there; running sandboxes follow at once. The host "
        "is a name, *.suffix (one label in front), **.suffix (one or more), an address, a network, or a @group. Without a port, "
        "every port is allowed. host.bawn.internal is this machine.\n\n"
        "    bawn policy allow internal.example.com:443\n"
        "    bawn policy allow api.github.com --method GET,HEAD --path '/repos/our/**'\n"
        "    bawn policy allow db.lan:5432 --private\n"
        "    bawn policy allow host.bawn.internal:11434 --project",
    VERB_OPTS(opts),
    .run = run_add,
};

const struct verb verb_policy_deny = {
    .name = "policy deny",
    .summary = "do not let sandboxes reach a host",
    .synopsis = "[options] HOST[:PORT]",
    .description =
        "Writes a rule into a file with network rules, in front of the rules that are there; running sandboxes follow at once and "
        "lose connections that are no longer allowed.\n\n"
        "    bawn policy deny gist.github.com\n"
        "    bawn policy deny registry.npmjs.org --method PUT,POST,DELETE",
    .opts = opts,
    .n_opts = DENY_OPTS,
    .run = run_add,
};

const struct verb verb_policy_rm = {
    .name = "policy rm",
    .summary = "remove a network rule",
    .synopsis = "[options] ID",
    .description = "Removes the rule with this id from your own file, or, with --project, from the project's.",
    .opts = opts,
    .n_opts = RM_OPTS,
    .run = run_rm,
};
