/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files by tables of keys: what is new in them, and what is gone. */
#include "base/str.h"
#include "review/risk/risk_rule.h"

enum {
    KEYS_MAX = 20000,  /* new ones in one file; people write fewer, and each is compared with every row */
    VALUE_MAX = 16384, /* bytes of a value that are compared */
};

struct comparison {
    struct risk_case *c;
    size_t added, removed;
};

static const struct risk_key *find_in(const struct risk_key *keys, const char *key, const char *value) {
    size_t len = strlen(key), value_len = strnlen(value, VALUE_MAX);

    for (const struct risk_key *k = keys; k && k->key; k++)
        if (risk_glob(k->key, key, len) && (!k->value || risk_glob(k->value, value, value_len)))
            return k;
    return NULL;
}

static const struct risk_key *find(const struct risk_format *f, const char *key, const char *value) {
    const struct risk_key *k = find_in(f->keys, key, value);

    return k ? k : find_in(f->more, key, value);
}

/* As people write it. */
static const char *shown_key(const char *key, char out[static RISK_SHOWN_MAX + 4]) {
    risk_shown(key, out);
    for (char *s = out; *s; s++)
        if (*s == PAIR_STEP)
            *s = '.';
    return out;
}

/* "KEY[] = {" only says where an element begins. */
static bool marker(const struct pairs *p, size_t i) {
    return str_eq(pairs_value(p, i), "{") && str_ends(pairs_key(p, i), "[]");
}

/* core.worktree as git writes it for a submodule: from .git/modules/NAME up, and down to a folder of the same repository. */
static bool is_module_worktree(const char *path, const char *key, const char *value) {
    const char *git = strstr(path, ".git/modules/"), *to = value;
    long up = 0, depth = 0;

    if (!git || (git != path && git[-1] != '/') || !str_eq(key, "core.worktree"))
        return false;
    for (const char *s = git; *s; s++)
        depth += *s == '/';
    for (; str_starts(to, "../"); to += strlen("../"))
        up++;
    return up == depth && *to && !strstr(to, "..") && !strstr(to, ".git");
}

static void added(const struct pairs *p, size_t i, void *arg) {
    struct comparison *cmp = arg;
    struct risk_case *c = cmp->c;
    const struct risk_format *f = c->rule->format;
    char key[RISK_SHOWN_MAX + 4], value[RISK_SHOWN_MAX + 4];
    const struct risk_key *k;
    enum risk_level level;

    if (marker(p, i) || ++cmp->added > KEYS_MAX)
        return;
    k = find(f, pairs_key(p, i), pairs_value(p, i));
    level = is_module_worktree(c->path, pairs_key(p, i), pairs_value(p, i)) ? RISK_LOW : k ? k->level : f->rest;
    if (level != RISK_NONE)
        risk_add(c, k ? k->class : c->rule->class, level, p->v[i].line, "%s is '%s', %s", shown_key(pairs_key(p, i), key),
                 risk_shown(pairs_value(p, i), value), k ? k->reason : f->rest_reason);
}

static void removed(const struct pairs *p, size_t i, void *arg) {
    struct comparison *cmp = arg;
    char key[RISK_SHOWN_MAX + 4], value[RISK_SHOWN_MAX + 4];
    const struct risk_key *k;

    if (marker(p, i) || ++cmp->removed > KEYS_MAX)
        return;
    k = find(cmp->c->rule->format, pairs_key(p, i), pairs_value(p, i));
    if (k && k->level != RISK_NONE)
        risk_add(cmp->c, k->class, RISK_LOW, 0, "%s was '%s' and is gone", shown_key(pairs_key(p, i), key),
                 risk_shown(pairs_value(p, i), value));
}

void risk_inspect_keys(struct risk_case *c) {
    CLEANUP(pairs_done) struct pairs before = PAIRS_INIT, now = PAIRS_INIT;
    struct comparison cmp = {c, 0, 0};

    c->rule->format->read(&before, c->old_.data, c->old_.len);
    c->rule->format->read(&now, c->new_.data, c->new_.len);
    if (pairs_compare(&before, &now, added, removed, &cmp) < 0)
        c->failed = true;
    if (cmp.added > KEYS_MAX || cmp.removed > KEYS_MAX)
        risk_unread(c, 0, "it has too many keys");
    if (now.odd)
        risk_unread(c, now.odd, "it is written in a way that this reader does not know");
    if (c->old_.there && !c->old_.whole)
        risk_add(c, c->rule->class, RISK_LOW, 0, "%s, and its old version was not stored: everything in it counts as new",
                 c->rule->reason);
}

/* -- git's configuration -------------------------------------------------------------------------------------------------- */

/* Keys of git's configuration (git 2.50, git-config(1)), and of .gitmodules. */

#define HIGH RISK_GIT_CONFIG, RISK_HIGH
#define MEDIUM RISK_GIT_CONFIG, RISK_MEDIUM
#define LOW RISK_GIT_CONFIG, RISK_LOW
#define FINE RISK_GIT_CONFIG, RISK_NONE, NULL

static const struct risk_key git_keys[] = {
    {"core.fsmonitor", "true|false|yes|no|on|off|1|0|", LOW, "which switches git's own file system monitor"},
    {"core.fsmonitor", NULL, HIGH, "which git runs at every status"},
    {"core.hookspath", NULL, HIGH, "where git looks for hooks to run"},
    {"core.sshcommand", NULL, HIGH, "which git runs at every fetch and push"},
    {"core.editor|sequence.editor", NULL, HIGH, "which git runs to edit a commit message or a rebase"},
    {"core.pager|pager.*", "true|false|cat|less|", LOW, "which git shows its output with"},
    {"core.pager|pager.*", NULL, HIGH, "which git runs to show its output"},
    {"core.askpass", NULL, HIGH, "which git runs to ask for passwords"},
    {"core.gitproxy", NULL, HIGH, "which git runs to reach a server"},
    {"core.alternaterefscommand", NULL, HIGH, "which git runs at every fetch"},
    {"core.attributesfile", NULL, HIGH, "from which git takes filters and diff drivers"},
    {"core.excludesfile", NULL, MEDIUM, "whose patterns hide files from git status"},
    {"core.worktree", NULL, HIGH, "which makes git work on another folder"},
    {"core.bare", "false", FINE},
    {"core.bare", NULL, MEDIUM, "which makes git see no working tree"},
    {"core.untrackedcache|core.splitindex|core.commitgraph", NULL, FINE},
    {"core.repositoryformatversion|core.filemode|core.logallrefupdates|core.ignorecase|core.precomposeunicode|"
     "core.symlinks|core.autocrlf|core.eol|core.safecrlf|core.abbrev|core.quotepath|core.longpaths",
     NULL, FINE},
    {"core.protecthfs|core.protectntfs", NULL, MEDIUM, "which decides if spellings of .git are accepted"},
    {"attr.tree", NULL, HIGH, "from which git takes attributes, and with them filters and drivers"},
    {"diff.external", NULL, HIGH, "which git runs at every diff"},
    {"diff.*.command|diff.*.textconv", NULL, HIGH, "which git runs to show the diff of a file"},
    {"filter.*.clean|filter.*.smudge|filter.*.process", "git-lfs *", LOW, "which git runs at every add or checkout of a file"},
    {"filter.*.clean|filter.*.smudge|filter.*.process", NULL, HIGH, "which git runs at every add or checkout of a file"},
    {"merge.*.driver", NULL, HIGH, "which git runs at every merge of a file"},
    {"mergetool.*.cmd|mergetool.*.path|difftool.*.cmd|difftool.*.path|guitool.*.cmd", NULL, HIGH,
     "which git runs as merge or diff tool"},
    {"merge.tool|merge.guitool|diff.tool|diff.guitool", NULL, MEDIUM, "which is the tool that git mergetool or difftool runs"},
    {"credential.helper|credential.*.helper", NULL, HIGH, "which git runs to get, and hands, passwords"},
    {"credential.*", NULL, MEDIUM, "which decides what is sent to whom as a password"},
    {"gpg.program|gpg.*.program|gpg.*.defaultkeycommand", NULL, HIGH, "which git runs to sign or verify"},
    {"gpg.*|user.signingkey|commit.gpgsign|tag.gpgsign", NULL, LOW, "which changes how commits are signed"},
    {"uploadpack.packobjectshook", NULL, HIGH, "which git runs whenever it serves objects"},
    {"uploadpack.*|receive.*|transfer.*|fetch.*|fsck.*", NULL, LOW, "which changes what git accepts or serves"},
    {"alias.*", "!*", HIGH, "which git runs in a shell as a command of its own"},
    {"alias.*", NULL, LOW, "which git takes for a command"},
    {"include.path|includeif.*", NULL, HIGH, "a file from which git takes further configuration"},
    {"url.*.insteadof|url.*.pushinsteadof", NULL, HIGH, "which git rewrites to another server"},
    {"remote.*.url|remote.*.pushurl", "ext::*|-*|*::*", HIGH, "which git runs as a program to fetch or push"},
    {"remote.*.url|remote.*.pushurl", NULL, MEDIUM, "the server that git fetches from or pushes to"},
    {"remote.*.uploadpack|remote.*.receivepack|remote.*.vcs", NULL, HIGH, "which git runs to fetch or push"},
    {"remote.*.proxy|http.proxy|http.*.proxy|remote.*.proxyauthmethod", NULL, HIGH,
     "through which everything that git sends goes"},
    {"remote.*.fetch|remote.*.push|remote.*.tagopt|remote.*.mirror|remote.*.prune*|remote.pushdefault", NULL, LOW,
     "which changes what git fetches or pushes"},
    {"http.*sslverify", "true|1|yes|on", FINE},
    {"http.*sslverify|http.*sslcainfo|http.*sslcapath|http.*sslcert*|http.*sslkey|http.*schannel*|http.*sslbackend|"
     "http.*pinnedpubkey",
     NULL, HIGH, "which decides whether git can be deceived about a server"},
    {"http.*extraheader|http.*cookiefile|http.*savecookies|http.*useragent|http.*curloptresolve", NULL, HIGH,
     "which git sends to, or takes for, servers"},
    {"submodule.*.update", "!*", HIGH, "which git runs at every submodule update"},
    {"submodule.*.url", NULL, MEDIUM, "the server that a submodule is fetched from"},
    {"submodule.recurse|submodule.*", NULL, LOW, "which changes what git does with submodules"},
    {"protocol.*allow", NULL, HIGH, "which decides what ways of fetching, programs included, are allowed"},
    {"browser.*|web.browser|instaweb.*|help.browser|man.*|help.format", NULL, HIGH, "which git runs to show help or pages"},
    {"trailer.*.command|trailer.*.cmd", NULL, HIGH, "which git runs for commit messages"},
    {"sendemail.*", NULL, HIGH, "which decides what git send-email runs and where mail goes"},
    {"imap.*|imap.tunnel", NULL, HIGH, "which decides what git imap-send runs"},
    {"safe.*", NULL, HIGH, "which tells git to trust folders of others"},
    {"extensions.objectformat|extensions.noop*|extensions.refstorage|extensions.compatobjectformat|extensions.preciousobjects",
     NULL, LOW, "which changes the format of the repository"},
    {"extensions.worktreeconfig", NULL, LOW, "which makes git obey config.worktree, which is judged as this file is"},
    {"extensions.partialclone", NULL, LOW, "which names the remote that objects are fetched from"},
    {"extensions.*", NULL, HIGH, "which makes git read further files such as config.worktree"},
    {"init.templatedir|init.*", NULL, MEDIUM, "from which git copies hooks into new repositories"},
    {"interactive.difffilter", NULL, HIGH, "which git runs at every git add -p"},
    {"commit.template|commit.cleanup|blame.ignorerevsfile", NULL, LOW, "a file that git reads"},
    {"difftool.*|mergetool.*|diff.*.xfuncname|diff.*.funcname|diff.*.binary|diff.*.wordregex|diff.*|merge.*", NULL, LOW,
     "which changes what diffs and merges look like"},
    {"filter.*.required", NULL, LOW, "which makes a filter obligatory"},
    {"lfs.customtransfer.*|lfs.*.path|lfs.extension.*|lfs.standalonetransferagent", NULL, HIGH, "which git lfs runs"},
    {"lfs.url|lfs.*url|lfs.*", NULL, MEDIUM, "which changes where git lfs fetches from"},
    {"gitcvs.*|svn.*|svn-remote.*|git-p4.*|cvsimport.*", NULL, MEDIUM, "which changes what git's bridges run or reach"},
    {"maintenance.*|gc.*|pack.*|index.*|feature.*|repack.*|checkout.*|status.*|log.*|color.*|column.*|rerere.*|advice.*|"
     "i18n.*|branch.*.remote|branch.*.merge|branch.*.rebase|branch.*.description|branch.*.pushremote|"
     "branch.*.vscode-merge-base|branch.*.github-pr-owner-number|pull.*|push.*|rebase.*|user.name|user.email|"
     "user.useconfigonly|stash.*|tag.sort|branch.sort|author.*|committer.*",
     NULL, FINE},
    {NULL},
};
const struct risk_format risk_git_config = {pairs_read_git, git_keys, RISK_LOW, "a key that no rule knows"};

static const struct risk_key module_keys[] = {
    {"submodule.../*|submodule.*/../*|submodule.*/..*", NULL, HIGH, "under a name that leads out of .git/modules"},
    {"submodule.*.update", "!*", HIGH, "which git runs at every submodule update"},
    {"submodule.*.update", NULL, LOW, "which is how git updates the submodule"},
    {"submodule.*.url", "-*|ext::*|*::*|*%0a*", HIGH, "which git takes for a program or an option"},
    {"submodule.*.url", "./*|../*|/*|file:*", MEDIUM, "a repository on this machine"},
    {"submodule.*.url", NULL, MEDIUM, "the server that the submodule comes from"},
    {"submodule.*.path", "-*|/*|..*|*/../*|*/..|*.git|*.git/*|*git~*", HIGH, "a place where no submodule belongs"},
    {"submodule.*.path", NULL, LOW, "the folder that is filled with another repository"},
    {"submodule.*", NULL, LOW, "which changes how the submodule is fetched"},
    {NULL},
};
const struct risk_format risk_gitmodules = {pairs_read_git, module_keys, RISK_MEDIUM, "which does not belong into .gitmodules"};
