/* SPDX-License-Identifier: Apache-2.0 */
/* Filters the user's git configuration by a list of keys. */
#include "workspace/git/gitidentity.h"

#include <errno.h>

#include "base/str.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "os/file.h"
#include "workspace/git/gitconfig.h"
#include "workspace/hide/ignore.h"

enum { FILE_MAX = 256 * 1024 };

/* Keys without a subsection; "section.*" is all of them. Not here: credential.*, http.* (extraHeader, proxy passwords), url.* (tokens in
 * addresses), include*, gpg.* and commit.gpgsign (no keys inside), core.editor, core.pager, core.sshCommand, core.hooksPath,
 * core.fsmonitor, diff.external, filters, merge drivers. */
static const char *const allowed[] = {
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.*",
    "committer.*",
    "init.defaultbranch",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.quotepath",
    "core.abbrev",
    "core.whitespace",
    "core.longpaths",
    "core.safecrlf",
    "core.commentchar",
    "core.preloadindex",
    "pull.*",
    "push.default",
    "push.autosetupremote",
    "push.followtags",
    "push.recursesubmodules",
    "fetch.prune",
    "fetch.prunetags",
    "fetch.parallel",
    "merge.conflictstyle",
    "merge.ff",
    "merge.log",
    "merge.stat",
    "merge.autostash",
    "merge.renamelimit",
    "rebase.*",
    "rerere.*",
    "branch.autosetuprebase",
    "branch.autosetupmerge",
    "branch.sort",
    "tag.sort",
    "log.date",
    "log.decorate",
    "log.follow",
    "log.abbrevcommit",
    "log.showroot",
    "blame.*",
    "grep.*",
    "format.pretty",
    "color.*",
    "column.*",
    "diff.algorithm",
    "diff.colormoved",
    "diff.mnemonicprefix",
    "diff.renames",
    "diff.renamelimit",
    "diff.noprefix",
    "diff.context",
    "diff.interhunkcontext",
    "diff.indentheuristic",
    "diff.wordregex",
    "diff.relative",
    "diff.submodule",
    "status.*",
    "commit.verbose",
    "commit.status",
    "checkout.*",
    "clean.requireforce",
    "interactive.singlekey",
    "worktree.guessremote",
    "commit.cleanup",
    "advice.*",
    "help.autocorrect",
    "i18n.*",
    "apply.whitespace",
    "index.version",
    "feature.manyfiles",
    "gc.auto",
    "stash.*",
    "submodule.recurse",
    "versionsort.suffix",
};

static bool is_allowed(const char *key) {
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        size_t n = strlen(allowed[i]);

        if (allowed[i][n - 1] == '*' ? strncmp(key, allowed[i], n - 1) == 0 && !strchr(key + n - 1, '.')
                                     : str_eq(key, allowed[i]))
            return true;
    }
    return false;
}

/* A name for a git command; one that begins with '!' is a program of the host's, and may have a token in it. */
static bool is_alias(const char *key, const char *value) {
    return str_starts(key, "alias.") && !strchr(key + strlen("alias."), '.') && value && *value != '!';
}

struct identity_reader {
    struct buf *out;
    char *excludes; /* core.excludesFile */
};

static int add_key(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err) {
    const char *dot = strchr(key, '.');
    struct identity_reader *in = arg;

    if (str_eq(key, "core.excludesfile") && value) {
        free(in->excludes);
        in->excludes = strdup(value);
        return in->excludes ? 0 : err_oom(err);
    }
    if (!is_allowed(key) && !is_alias(key, value))
        return 0;
    buf_addf(in->out, "[%.*s]\n\t%s", (int)(dot - key), key, dot + 1);
    if (value) {
        buf_adds(in->out, " = ");
        gitconfig_add_quoted(in->out, value, strlen(value));
    }
    buf_addc(in->out, '\n');
    return buf_ok(in->out) ? 0 : err_oom(err);
}

static int add_config_file(const char *path, struct identity_reader *in, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(FILE_MAX);
    int r = file_read(path, FILE_FOLLOW, &data) < 0 ? 0 : gitconfig_parse(buf_str(&data), data.len, add_key, in, err);

    return r == -EBADMSG ? 0 : r; /* what git would refuse as well */
}

static int add_excludes(const char *home, const char *folder, const char *excludes, struct buf *out, struct err *err) {
    CLEANUP(freep)
    char *path = !excludes                    ? str_dupf("%s/ignore", folder)
                 : str_starts(excludes, "~/") ? str_dupf("%s%s", home, excludes + 1)
                                              : strdup(excludes);
    CLEANUP(buf_done) struct buf data = BUF_INIT(FILE_MAX);

    if (!path)
        return err_oom(err);
    if (*path == '/' && file_read(path, FILE_FOLLOW, &data) >= 0 && !memchr(buf_str(&data), 0, data.len)) {
        buf_add(out, buf_str(&data), data.len);
        buf_addc(out, '\n');
    }
    return buf_ok(out) ? 0 : err_oom(err);
}

static int add_user(char *const *environ_, const char *home, struct git_identity *ret, struct err *err) {
    const char *xdg = paths_getenv(environ_, "XDG_CONFIG_HOME");
    CLEANUP(freep) char *folder = xdg && *xdg == '/' ? str_dupf("%s/git", xdg) : str_dupf("%s/.config/git", home);
    CLEANUP(freep) char *first = folder ? str_dupf("%s/config", folder) : NULL, *second = str_dupf("%s/.gitconfig", home);
    struct identity_reader in = {.out = &ret->config};
    int r;

    if (!first || !second)
        return err_oom(err);
    r = add_config_file(first, &in, err);
    r = r < 0 ? r : add_config_file(second, &in, err);
    r = r < 0 ? r : add_excludes(home, folder, in.excludes, &ret->ignore, err);
    free(in.excludes);
    return r;
}

void git_identity_done(struct git_identity *g) {
    buf_done(&g->config);
    buf_done(&g->ignore);
}

int git_identity_read(char *const *environ_, const char *home, const struct strv *hidden, struct git_identity *ret,
                      struct err *err) {
    int r = home ? add_user(environ_, home, ret, err) : 0;

    for (size_t i = 0; r >= 0 && hidden && i < hidden->len; i++) {
        if (str_starts(hidden->v[i], ".git/"))
            continue;
        buf_addc(&ret->ignore, '/');
        ignore_quote(&ret->ignore, hidden->v[i]);
        buf_addc(&ret->ignore, '\n');
    }
    return r < 0 ? r : buf_ok(&ret->ignore) ? 0 : err_oom(err);
}
