/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/gitidentity.h"

#include <errno.h>

#include "base/buf.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/file.h"
#include "workspace/git/gitconfig.h"

enum { FILE_MAX = 256 * 1024 };

/* Keys without a subsection; "section.*" is all of them. Not here: credential.*, http.* (extraHeader, proxy passwords), url.* (tokens in
 * addresses), include*, gpg.* and commit.gpgsign (no keys inside), core.editor, core.pager, core.sshCommand, core.hooksPath,
 * core.fsmonitor, diff.external, filters, merge drivers, aliases that run programs. */
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
    "pull.*",
    "push.default",
    "push.autosetupremote",
    "push.followtags",
    "fetch.prune",
    "fetch.prunetags",
    "merge.conflictstyle",
    "merge.ff",
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
    "format.pretty",
    "color.*",
    "column.*",
    "diff.algorithm",
    "diff.colormoved",
    "diff.mnemonicprefix",
    "diff.renames",
    "diff.renamelimit",
    "diff.noprefix",
    "diff.submodule",
    "status.*",
    "commit.verbose",
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

static int add_key(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err) {
    const char *dot = strchr(key, '.');
    struct buf *out = arg;

    if (!is_allowed(key))
        return 0;
    buf_addf(out, "[%.*s]\n\t%s", (int)(dot - key), key, dot + 1);
    if (value) {
        buf_adds(out, " = ");
        gitconfig_add_quoted(out, value, strlen(value));
    }
    buf_addc(out, '\n');
    return buf_ok(out) ? 0 : err_oom(err);
}

int git_identity_filter(const char *data, size_t len, struct buf *out, struct err *err) {
    int r = gitconfig_parse(data, len, add_key, out, err);

    return r == -EBADMSG ? 0 : r; /* what git would refuse as well */
}

static int add_file(const char *path, struct buf *out, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(FILE_MAX);

    return file_read(path, FILE_FOLLOW, &data) < 0 ? 0 : git_identity_filter(buf_str(&data), data.len, out, err);
}

int git_identity(char *const *environ_, const char *home, struct buf *out, struct err *err) {
    const char *xdg = paths_getenv(environ_, "XDG_CONFIG_HOME");
    CLEANUP(freep) char *first = NULL, *second = NULL;
    int r;

    if (!home)
        return 0;
    first = xdg && *xdg == '/' ? str_dupf("%s/git/config", xdg) : str_dupf("%s/.config/git/config", home);
    second = str_dupf("%s/.gitconfig", home);
    if (!first || !second)
        return err_oom(err);
    r = add_file(first, out, err);
    return r < 0 ? r : add_file(second, out, err);
}
