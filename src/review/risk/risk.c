/* SPDX-License-Identifier: Apache-2.0 */
/* Judges one change by the table of rules. */
#include "review/risk/risk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/risk/risk_rule.h"
#include "workspace/hide/protect.h"

const char *const risk_level_names[RISK_LEVELS] = {"none", "low", "medium", "high"};

const struct risk_class_info risk_classes[RISK_CLASSES] = {
    [RISK_GIT_HOOK] = {"git-hook", "Git hook", "Git runs hooks at commit, checkout, merge or push. Read the whole script."},
    [RISK_GIT_CONFIG] =
        {"git-config", "Git configuration",
         "Keys of git's configuration name programs that git runs, files that it includes and servers that it asks. "
         "Apply it only if you know why each of them changed."},
    [RISK_GIT_DIR] = {"git-dir", "Git directory",
                      "It leads git to a directory with configuration and hooks of unknown origin. Look at where it leads."},
    [RISK_GIT_ATTRIBUTES] =
        {"git-attributes", "Git attributes",
         "Attributes choose the filters, diff and merge drivers that git runs, and can take files out of diffs."},
    [RISK_CI] = {"ci", "Continuous integration", "Runs on the servers of your forge with its secrets as soon as it is pushed."},
    [RISK_IDE] = {"ide", "Editor or IDE", "Editors run tasks, launchers and program paths that a folder brings along."},
    [RISK_ENVIRONMENT] = {"environment", "Shell environment",
                          "Tools load it when you enter the folder or start a shell, container or machine from it."},
    [RISK_PACKAGE_SCRIPT] = {"package-script", "Build or package script",
                             "Package managers and build tools run it when you install, build or test."},
    [RISK_DEPENDENCY] = {"dependency", "Dependency",
                         "The next install brings code of other people. Check the name, the version and where it comes from."},
    [RISK_AGENT] = {"agent", "Agent configuration", "Coding agents take permissions, hooks and MCP servers from it on the host."},
    [RISK_INSTRUCTIONS] = {"instructions", "Agent instructions",
                           "Coding agents obey this text in the next session, outside the sandbox too."},
    [RISK_EXECUTABLE] = {"executable", "Executable", "It can be run as a program now, or by another interpreter than before."},
    [RISK_SYMLINK_OUT] = {"symlink-out", "Link out of the workspace",
                          "Programs on the host that follow the link read or write outside the workspace."},
    [RISK_BINARY] = {"binary", "Binary",
                     "Machine code or bytecode that no diff shows. Build it again from source rather than trusting it."},
    [RISK_IGNORED] = {"ignored", "Ignored by git",
                      "git status and git diff are silent about it, so it will not be noticed later."},
    [RISK_SANDBOX_POLICY] = {"sandbox-policy", "Sandbox policy",
                             "It decides what the next run may see and do. Accept it only if you wanted the change yourself."},
    [RISK_HIDDEN_TEXT] =
        {"hidden-text", "Hidden text",
         "Characters that are invisible or change the order of others: what you read is not what programs read."},
    [RISK_SPECIAL_FILE] = {"special-file", "Special file",
                           "Opening a device, FIFO or socket can hang a program or do something else than read."},
};

void risk_unread(struct risk_case *c, unsigned line, const char *why) {
    enum risk_level level = MIN_OF(c->rule->level + 1, RISK_HIGH);

    if (line)
        risk_add(c, c->rule->class, level, line, "%s, and line %u could not be read: %s", c->rule->reason, line, why);
    else
        risk_add(c, c->rule->class, level, 0, "%s, and it could not be read: %s", c->rule->reason, why);
}

int risk_text_read(int fd, struct risk_text *ret) {
    return risk_text_read_some(fd, RISK_FILE_MAX, ret);
}

int risk_text_read_some(int fd, size_t max, struct risk_text *ret) {
    CLEANUP(closep) int owned = fd;
    CLEANUP(buf_done) struct buf b = BUF_INIT(max);
    CLEANUP(freep) char *chunk = malloc(64 * 1024);
    ssize_t n = fd < 0 ? -EIO : 0;

    while (chunk && fd >= 0 && (n = fd_read_some(owned, chunk, 64 * 1024)) > 0 && b.len < max)
        buf_add(&b, chunk, MIN_OF((size_t)n, max - b.len));
    if (!chunk || !buf_ok(&b))
        return -ENOMEM;
    *ret = (struct risk_text){.len = b.len, .there = true, .whole = n == 0};
    ret->data = buf_take(&b);
    return ret->data ? 0 : -ENOMEM;
}

static bool content_changed(const struct change *ch) {
    return ch->kind != CHANGE_MODIFIED || (ch->what & (CHANGE_CONTENT | CHANGE_LINK | CHANGE_TYPE));
}

static int load_versions(const struct risk_context *ctx, const struct change *ch, struct risk_text *before,
                         struct risk_text *now) {
    int r = 0;

    if (content_changed(ch) && S_ISREG(ch->new_.mode))
        r = risk_text_read(change_open_new(ctx->set, ch), now);
    if (r == 0 && content_changed(ch) && S_ISREG(ch->old_.mode) && ch->kind != CHANGE_ADDED)
        r = risk_text_read(change_open_old(ctx->set, ch), before);
    if (r == 0 && ((!now->data && !(now->data = calloc(1, 1))) || (!before->data && !(before->data = calloc(1, 1)))))
        r = -ENOMEM;
    return r;
}

/* For rows without inspector: what it is, and where it differs first. */
static void report_name(struct risk_case *c) {
    char shown[RISK_SHOWN_MAX + 4];
    struct text_line l = {0};
    unsigned line = c->old_.there && c->old_.whole ? risk_first_change(&c->old_, &c->new_, &l) : 0;
    CLEANUP(freep) char *text = line ? strndup(l.s, l.len) : NULL;

    if (text)
        risk_add(c, c->rule->class, c->rule->level, line, "%s; line %u is now '%s'", c->rule->reason, line,
                 risk_shown(text, shown));
    else
        risk_add(c, c->rule->class, c->rule->level, 0, "%s", c->rule->reason);
}

static void judge_file(struct risk_case *c) {
    if (!content_changed(c->change)) { /* git runs only hooks that are executable */
        if (c->rule->class == RISK_GIT_HOOK && c->change->new_.mode & ~c->change->old_.mode & 0111)
            risk_add(c, RISK_GIT_HOOK, c->rule->level, 0, "%s: it was not executable before", c->rule->reason);
        return;
    }
    if (c->rule->inspect && c->new_.whole)
        c->rule->inspect(c);
    else if (c->new_.whole)
        report_name(c);
    else
        risk_unread(c, 0, "it is too large, or cannot be opened");
}

/* path is gone: what it did no longer happens. Without its rules the sandbox sees more. */
static void judge_removal(struct risk_case *c, const char *path) {
    bool policy = c->rule->class == RISK_SANDBOX_POLICY;

    risk_add(c, c->rule->class, policy ? RISK_HIGH : RISK_LOW, 0, "%s, and '%s' was removed%s", c->rule->reason, path,
             policy ? ": what it hid or forbade is open to the next run" : "");
}

void risk_judge_by(struct risk_case *c, const struct risk_rule *rule) {
    const struct change *ch = c->change;
    char shown[RISK_SHOWN_MAX + 4];

    c->rule = rule;
    c->asks_old = true;
    if (ch->new_.mode == 0)
        judge_removal(c, c->path);
    else if (S_ISLNK(ch->new_.mode))
        risk_add(c, c->rule->class, MAX_OF(c->rule->level, RISK_MEDIUM), 0, "%s, and it is a symbolic link to '%s'",
                 c->rule->reason, risk_shown(ch->new_.link ? ch->new_.link : "", shown));
    else if (S_ISREG(ch->new_.mode))
        judge_file(c);
    else if (S_ISREG(ch->old_.mode)) /* a folder or FIFO in the place of a file is as good as none */
        judge_removal(c, c->path);
}

/* A link in the place of a folder brings everything that is looked for in there. */
static bool replaces_folder(const struct change *ch, const struct risk_rule *rule, const struct risk_path *path) {
    return S_ISLNK(ch->new_.mode) && rule->level >= RISK_MEDIUM && risk_path_leads(rule->pattern, path);
}

static int class_named(const char *name) {
    for (int i = 0; i < RISK_CLASSES; i++)
        if (str_eq(risk_classes[i].name, name))
            return i;
    return -1;
}

/* What direct mode does not let be written, and no row of risk_rules knows better. */
static void judge_protected(struct risk_case *c, const bool done[static RISK_CLASSES]) {
    const struct protect_row *row = protect_row_for(c->ctx->protect, c->path, S_ISDIR(c->change->new_.mode));
    int class = row ? class_named(row->class) : -1;
    struct risk_rule rule = {"", RISK_ENVIRONMENT, RISK_HIGH, row ? row->reason : NULL};

    if (!row || (class >= 0 && done[class]))
        return;
    rule.class = class < 0 ? rule.class : (enum risk_class) class;
    risk_judge_by(c, &rule);
    c->rule = NULL;
}

/* The first row of each class counts. */
static void judge_rules(struct risk_case *c) {
    bool done[RISK_CLASSES] = {0}, moved[RISK_CLASSES] = {0};
    struct risk_path path, from = {.n = 0};

    risk_path_split(c->path, &path);
    if (c->change->kind == CHANGE_RENAMED && c->change->from)
        risk_path_split(c->change->from, &from);
    for (const struct risk_rule *rule = risk_rules; rule->pattern; rule++) {
        if (!done[rule->class] && (risk_path_match(rule->pattern, &path) || replaces_folder(c->change, rule, &path))) {
            done[rule->class] = true;
            risk_judge_by(c, rule);
        }
        if (from.n && !moved[rule->class] && risk_path_match(rule->pattern, &from)) {
            moved[rule->class] = true;
            c->rule = rule;
            judge_removal(c, c->change->from);
        }
    }
    if (c->ctx->protect)
        judge_protected(c, done);
}

static void judge_special(struct risk_case *c) {
    mode_t mode = c->change->new_.mode;

    if (S_ISCHR(mode) || S_ISBLK(mode))
        risk_add(c, RISK_SPECIAL_FILE, RISK_HIGH, 0, "it is a device");
    else if (S_ISFIFO(mode) || S_ISSOCK(mode))
        risk_add(c, RISK_SPECIAL_FILE, RISK_MEDIUM, 0, "it is a %s: a program that opens it may wait for ever",
                 S_ISFIFO(mode) ? "FIFO" : "socket");
}

int risk_judge_versions(const struct risk_context *ctx, const struct change *change, const struct risk_text *before,
                        const struct risk_text *now, struct risk_list *ret, bool *ret_asks_old, struct err *err) {
    CLEANUP(risk_list_done) struct risk_list list = {0};
    struct risk_case c = {.ctx = ctx, .change = change, .path = change->path, .out = &list, .new_ = *now};

    /* What was renamed did nothing here before: all of it is new at this place. */
    c.old_ = change->kind == CHANGE_RENAMED ? (struct risk_text){.data = (char[1]){0}} : *before;
    judge_rules(&c);
    risk_judge_git(&c);
    risk_judge_exec(&c);
    risk_judge_link(&c);
    judge_special(&c);
    risk_judge_name(&c);
    risk_judge_text(&c, before);
    if (!ctx->look) /* git tracks what is in a commit or in the index, ignored or not */
        risk_judge_ignored(&c);
    risk_add_rest(&c);
    risk_sort(&list);
    if (c.failed)
        return err_oom(err);
    if (ret_asks_old)
        *ret_asks_old = c.asks_old || list.n > 0;
    *ret = TAKE(list, (struct risk_list){0});
    return 0;
}

int risk_judge(const struct risk_context *ctx, const struct change *change, struct risk_list *ret, struct err *err) {
    CLEANUP(risk_text_done) struct risk_text before = {0}, now = {0};

    if (change->hidden) {
        *ret = (struct risk_list){0};
        return 0;
    }
    if (load_versions(ctx, change, &before, &now) < 0)
        return err_oom(err);
    return risk_judge_versions(ctx, change, &before, &now, ret, NULL, err);
}
