/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys of a repository's configuration may be set inside. A key that is missing here may not: most of git's keys name a program, a file, or a place to
 * ask, and new ones come with each version. A row that says never only gives the refusal a better reason.
 */
#include "workspace/git/gitconfig_keys.h"

#include "base/str.h"

static const char look[] = "only how git shows things";
static const char speed[] = "only how fast git is";
static const char strategy[] = "one of git's own ways to do it";
static const char text_form[] = "how git converts text, as .gitattributes may say";

static const struct gitconfig_key keys[] = {
    /* what git init and git clone write */
    {"core.repositoryformatversion", value_one_of, "0|1", "a number that git compares"},
    {"core.filemode", value_bool, NULL, "whether git looks at the executable bit"},
    {"core.bare", value_bool, NULL, "whether there is a work tree"},
    {"core.logallrefupdates", value_one_of, "true|false|always", "whether git keeps a log"},
    {"core.ignorecase", value_bool, NULL, "what git found out about the file system"},
    {"core.precomposeunicode", value_bool, NULL, "what git found out about the file system"},
    {"core.symlinks", value_bool, NULL, "without them git writes plain files"},
    {"core.worktree", value_worktree, NULL, "of a submodule, and where git itself puts it"},
    {"extensions.objectformat", value_one_of, "sha1|sha256", "a name that git compares"},
    {"extensions.compatobjectformat", value_one_of, "sha1|sha256", "a name that git compares"},
    {"extensions.refstorage", value_one_of, "files", "a name that git compares"},
    {"extensions.worktreeconfig", value_bool, NULL, "config.worktree is judged as this file is"},
    {"extensions.partialclone", value_name, NULL, "names a remote, whose address is judged"},
    {"extensions.preciousobjects", value_bool, NULL, "git removes less"},
    {"extensions.relativeworktrees", value_bool, NULL, "how git writes the paths of worktrees"},
    {"init.defaultbranch", value_name, NULL, "a name of a branch"},

    /* remotes and branches */
    {"remote.*.url", value_url, NULL, "an address of an ordinary scheme"},
    {"remote.*.pushurl", value_url, NULL, "an address of an ordinary scheme"},
    {"remote.*.fetch", value_fetch, NULL, "brings refs to branches, remote branches, tags and notes"},
    {"remote.*.push", value_push, NULL, "sends refs; forces and deletes nothing"},
    {"remote.*.prune", value_bool, NULL, "removes remote branches that are gone"},
    {"remote.*.prunetags", value_bool, NULL, "removes tags that are gone"},
    {"remote.*.tagopt", value_one_of, "--tags|--no-tags", "which tags come along"},
    {"remote.*.skipdefaultupdate", value_bool, NULL, "fetches less"},
    {"remote.*.skipfetchall", value_bool, NULL, "fetches less"},
    {"remote.*.promisor", value_bool, NULL, "fetches from the remote, whose address is judged"},
    {"remote.*.partialclonefilter", value_word, NULL, "what the remote leaves out"},
    {"remote.*.followremotehead", value_one_of, "create|always|warn|never", "where refs/remotes/NAME/HEAD leads"},
    {"remote.*.gh-resolved", value_word, NULL, "which repository gh works with"},
    {"remote.pushdefault", value_name, NULL, "names a remote, whose address is judged"},
    {"branch.*.remote", value_remote, NULL, "names a remote, or an address of an ordinary scheme"},
    {"branch.*.pushremote", value_remote, NULL, "names a remote, or an address of an ordinary scheme"},
    {"branch.*.merge", value_name, NULL, "a name of a ref"},
    {"branch.*.rebase", value_one_of, "true|false|merges|interactive", strategy},
    {"branch.*.description", value_lines, NULL, "a text for people"},
    {"branch.*.vscode-merge-base", value_name, NULL, "a name of a branch"},
    {"branch.*.gh-merge-base", value_name, NULL, "a name of a branch"},
    {"branch.autosetupmerge", value_one_of, "true|false|always|inherit|simple", "which of these keys git sets"},
    {"branch.autosetuprebase", value_one_of, "never|local|remote|always", "which of these keys git sets"},
    {"branch.sort", value_word, NULL, look},
    {"tag.sort", value_word, NULL, look},
    {"checkout.defaultremote", value_name, NULL, "names a remote, whose address is judged"},
    {"checkout.guess", value_bool, NULL, strategy},
    {"checkout.workers", value_number, NULL, speed},
    {"worktree.guessremote", value_bool, NULL, strategy},
    {"worktree.userelativepaths", value_bool, NULL, "how git writes the paths of worktrees"},

    /* submodules */
    {"submodule.*.url", value_module_url, NULL, "an address of an ordinary scheme"},
    {"submodule.*.active", value_bool, NULL, "whether git looks at it"},
    {"submodule.*.branch", value_name, NULL, "a name of a branch"},
    {"submodule.*.update", value_one_of, "checkout|rebase|merge|none", "one of git's own ways, and not a command"},
    {"submodule.*.ignore", value_one_of, "all|dirty|untracked|none", look},
    {"submodule.*.fetchrecursesubmodules", value_one_of, "true|false|on-demand", "fetches from addresses that are judged"},
    {"submodule.active", value_word, NULL, "which of them git looks at"},
    {"submodule.recurse", value_bool, NULL, "works in submodules, which are judged"},
    {"submodule.fetchjobs", value_number, NULL, speed},
    {"submodule.propagatebranches", value_bool, NULL, "works in submodules, which are judged"},

    /* who, and how they work */
    {"user.name", value_text, NULL, "a text in commits"},
    {"user.email", value_text, NULL, "a text in commits"},
    {"user.useconfigonly", value_bool, NULL, "git guesses no name"},
    {"author.name", value_text, NULL, "a text in commits"},
    {"author.email", value_text, NULL, "a text in commits"},
    {"committer.name", value_text, NULL, "a text in commits"},
    {"committer.email", value_text, NULL, "a text in commits"},
    {"pull.rebase", value_one_of, "true|false|merges|interactive", strategy},
    {"pull.ff", value_one_of, "true|false|only", strategy},
    {"push.default", value_one_of, "nothing|current|upstream|tracking|simple|matching", strategy},
    {"push.autosetupremote", value_bool, NULL, "which of these keys git sets"},
    {"push.followtags", value_bool, NULL, "sends tags, too"},
    {"push.recursesubmodules", value_one_of, "check|on-demand|only|no", "sends to addresses that are judged"},
    {"push.useforceifincludes", value_bool, NULL, "git forces less"},
    {"fetch.prune", value_bool, NULL, "removes remote branches that are gone"},
    {"fetch.prunetags", value_bool, NULL, "removes tags that are gone"},
    {"fetch.recursesubmodules", value_one_of, "true|false|on-demand", "fetches from addresses that are judged"},
    {"fetch.parallel", value_number, NULL, speed},
    {"fetch.all", value_bool, NULL, "fetches from addresses that are judged"},
    {"fetch.output", value_word, NULL, look},
    {"fetch.showforcedupdates", value_bool, NULL, look},
    {"fetch.writecommitgraph", value_bool, NULL, speed},
    {"merge.ff", value_one_of, "true|false|only", strategy},
    {"merge.conflictstyle", value_one_of, "merge|diff3|zdiff3", look},
    {"merge.renames", value_bool, NULL, strategy},
    {"merge.renamelimit", value_number, NULL, speed},
    {"merge.directoryrenames", value_one_of, "true|false|conflict", strategy},
    {"merge.renormalize", value_bool, NULL, text_form},
    {"merge.autostash", value_bool, NULL, strategy},
    {"merge.stat", value_bool, NULL, look},
    {"merge.log", value_word, NULL, look},
    {"rebase.autosquash", value_bool, NULL, strategy},
    {"rebase.autostash", value_bool, NULL, strategy},
    {"rebase.updaterefs", value_bool, NULL, strategy},
    {"rebase.stat", value_bool, NULL, look},
    {"rebase.backend", value_one_of, "apply|merge", strategy},
    {"rebase.abbreviatecommands", value_bool, NULL, look},
    {"rebase.missingcommitscheck", value_one_of, "warn|error|ignore", look},
    {"rerere.enabled", value_bool, NULL, "git repeats resolutions of this repository"},
    {"rerere.autoupdate", value_bool, NULL, "git repeats resolutions of this repository"},
    {"commit.verbose", value_bool, NULL, look},
    {"commit.status", value_bool, NULL, look},
    {"commit.cleanup", value_one_of, "strip|whitespace|verbatim|scissors|default", "what git leaves of a message"},
    {"stash.showpatch", value_bool, NULL, look},
    {"stash.showstat", value_bool, NULL, look},
    {"stash.showincludeuntracked", value_bool, NULL, look},
    {"receive.denycurrentbranch", value_one_of, "refuse|warn|ignore|updateinstead|true|false",
     "what a push to this repository may do"},
    {"apply.whitespace", value_one_of, "nowarn|warn|fix|error|error-all", text_form},
    {"apply.ignorewhitespace", value_one_of, "no|none|never|false|change", text_form},
    {"am.keepcr", value_bool, NULL, text_form},
    {"am.threeway", value_bool, NULL, strategy},

    /* files and speed */
    {"core.autocrlf", value_one_of, "true|false|input", text_form},
    {"core.eol", value_one_of, "lf|crlf|native", text_form},
    {"core.safecrlf", value_one_of, "true|false|warn", text_form},
    {"core.whitespace", value_word, NULL, look},
    {"core.abbrev", value_word, NULL, look},
    {"core.quotepath", value_bool, NULL, look},
    {"core.commentchar", value_text, NULL, "which lines of a message are left out"},
    {"core.commentstring", value_text, NULL, "which lines of a message are left out"},
    {"core.sparsecheckout", value_bool, NULL, "which files git writes"},
    {"core.sparsecheckoutcone", value_bool, NULL, "which files git writes"},
    {"core.preloadindex", value_bool, NULL, speed},
    {"core.untrackedcache", value_one_of, "true|false|keep", speed},
    {"core.trustctime", value_bool, NULL, "how git sees that a file changed"},
    {"core.checkstat", value_one_of, "default|minimal", "how git sees that a file changed"},
    {"core.commitgraph", value_bool, NULL, speed},
    {"core.multipackindex", value_bool, NULL, speed},
    {"core.compression", value_number, NULL, speed},
    {"core.loosecompression", value_number, NULL, speed},
    {"core.bigfilethreshold", value_number, NULL, speed},
    {"core.longpaths", value_bool, NULL, "what git found out about the file system"},
    {"core.hidedotfiles", value_one_of, "true|false|dotgitonly", look},
    {"index.version", value_one_of, "2|3|4", speed},
    {"index.threads", value_word, NULL, speed},
    {"index.sparse", value_bool, NULL, speed},
    {"index.skiphash", value_bool, NULL, speed},
    {"feature.manyfiles", value_bool, NULL, speed},
    {"pack.threads", value_number, NULL, speed},
    {"pack.windowmemory", value_number, NULL, speed},
    {"gc.auto", value_number, NULL, "how often git tidies up"},
    {"gc.autodetach", value_bool, NULL, "how git tidies up"},
    {"gc.autopacklimit", value_number, NULL, "how often git tidies up"},
    {"maintenance.auto", value_bool, NULL, "whether git tidies up"},
    {"maintenance.strategy", value_one_of, "none|incremental", "how git tidies up"},
    {"http.postbuffer", value_number, NULL, speed},
    {"http.version", value_one_of, "HTTP/1.1|HTTP/2", speed},
    {"i18n.commitencoding", value_word, NULL, text_form},
    {"i18n.logoutputencoding", value_word, NULL, text_form},
    {"lfs.repositoryformatversion", value_one_of, "0", "a number that git-lfs compares"},
    {"lfs.*.locksverify", value_bool, NULL, "whether git-lfs asks for locks"},
    {"lfs.*.access", value_one_of, "none|basic", "how git-lfs logs in, where the user has a login"},

    /* what is shown */
    {"color.*", value_word, NULL, look},
    {"color.*.*", value_word, NULL, look},
    {"column.*", value_word, NULL, look},
    {"advice.*", value_bool, NULL, look},
    {"diff.renames", value_one_of, "true|false|copies|copy", look},
    {"diff.renamelimit", value_number, NULL, speed},
    {"diff.algorithm", value_one_of, "default|myers|minimal|patience|histogram", look},
    {"diff.context", value_number, NULL, look},
    {"diff.interhunkcontext", value_number, NULL, look},
    {"diff.colormoved", value_word, NULL, look},
    {"diff.colormovedws", value_word, NULL, look},
    {"diff.mnemonicprefix", value_bool, NULL, look},
    {"diff.noprefix", value_bool, NULL, look},
    {"diff.indentheuristic", value_bool, NULL, look},
    {"diff.suppressblankempty", value_bool, NULL, look},
    {"diff.wserrorhighlight", value_word, NULL, look},
    {"diff.submodule", value_one_of, "short|log|diff", look},
    {"diff.ignoresubmodules", value_one_of, "all|dirty|untracked|none", look},
    {"diff.relative", value_bool, NULL, look},
    {"log.date", value_word, NULL, look},
    {"log.abbrevcommit", value_bool, NULL, look},
    {"log.decorate", value_word, NULL, look},
    {"log.follow", value_bool, NULL, look},
    {"log.showroot", value_bool, NULL, look},
    {"log.mailmap", value_bool, NULL, look},
    {"status.short", value_bool, NULL, look},
    {"status.branch", value_bool, NULL, look},
    {"status.showuntrackedfiles", value_one_of, "no|normal|all|true|false", look},
    {"status.submodulesummary", value_word, NULL, look},
    {"status.relativepaths", value_bool, NULL, look},
    {"status.aheadbehind", value_bool, NULL, look},
    {"status.showstash", value_bool, NULL, look},
    {"status.displaycommentprefix", value_bool, NULL, look},
    {"status.renames", value_one_of, "true|false|copies|copy", look},
    {"grep.linenumber", value_bool, NULL, look},
    {"grep.column", value_bool, NULL, look},
    {"grep.fullname", value_bool, NULL, look},
    {"grep.patterntype", value_one_of, "basic|extended|fixed|perl|default", look},
    {"grep.extendedregexp", value_bool, NULL, look},
    {"blame.date", value_word, NULL, look},
    {"blame.showemail", value_bool, NULL, look},
    {"blame.coloring", value_word, NULL, look},
    {"blame.ignorerevsfile", value_inside, NULL, "a list of commits in the work tree"},

    /* never */
    {"core.hookspath", NULL, NULL, "git runs the hooks in the folder it names"},
    {"core.fsmonitor", NULL, NULL, "git runs it at every status"},
    {"core.sshcommand", NULL, NULL, "git runs it to reach a remote"},
    {"core.editor", NULL, NULL, "git runs it"},
    {"core.pager", NULL, NULL, "git runs it"},
    {"core.askpass", NULL, NULL, "git runs it and tells it passwords"},
    {"core.gitproxy", NULL, NULL, "git runs it to reach a remote"},
    {"core.alternaterefscommand", NULL, NULL, "git runs it"},
    {"core.attributesfile", NULL, NULL, "git takes filters and drivers from it, and no diff shows it"},
    {"core.excludesfile", NULL, NULL, "it hides files from git status"},
    {"core.protecthfs", NULL, NULL, "git would write names that lead into .git"},
    {"core.protectntfs", NULL, NULL, "git would write names that lead into .git"},
    {"alias.*", NULL, NULL, "git runs it in place of a command"},
    {"alias.*.*", NULL, NULL, "git runs it in place of a command"},
    {"include.path", NULL, NULL, "git obeys the file that it names"},
    {"includeif.*.path", NULL, NULL, "git obeys the file that it names"},
    {"filter.*.*", NULL, NULL, "git runs it at checkout and add"},
    {"diff.external", NULL, NULL, "git runs it"},
    {"diff.*.*", NULL, NULL, "git may run it to show a difference"},
    {"merge.*.*", NULL, NULL, "git may run it at a merge"},
    {"difftool.*.*", NULL, NULL, "git runs it"},
    {"mergetool.*.*", NULL, NULL, "git runs it"},
    {"diff.tool", NULL, NULL, "git runs the script of this name"},
    {"merge.tool", NULL, NULL, "git runs the script of this name"},
    {"credential.*", NULL, NULL, "git runs it and tells it passwords"},
    {"credential.*.*", NULL, NULL, "git runs it and tells it passwords"},
    {"url.*.insteadof", NULL, NULL, "git goes to another address than it shows"},
    {"url.*.pushinsteadof", NULL, NULL, "git goes to another address than it shows"},
    {"remote.*.uploadpack", NULL, NULL, "git runs it at the remote"},
    {"remote.*.receivepack", NULL, NULL, "git runs it at the remote"},
    {"remote.*.vcs", NULL, NULL, "git runs the helper of this name"},
    {"remote.*.proxy", NULL, NULL, "git goes through it"},
    {"remote.*.mirror", NULL, NULL, "the next push would delete branches of the remote"},
    {"http.proxy", NULL, NULL, "git goes through it"},
    {"http.sslverify", NULL, NULL, "git would trust any server"},
    {"http.*.sslverify", NULL, NULL, "git would trust any server"},
    {"gpg.program", NULL, NULL, "git runs it"},
    {"gpg.*.program", NULL, NULL, "git runs it"},
    {"user.signingkey", NULL, NULL, "git would sign with another key"},
    {"commit.gpgsign", NULL, NULL, "it decides what the user's key signs"},
    {"commit.template", NULL, NULL, "git copies the file it names into messages"},
    {"sequence.editor", NULL, NULL, "git runs it"},
    {"init.templatedir", NULL, NULL, "git copies hooks from it"},
    {"uploadpack.packobjectshook", NULL, NULL, "git runs it"},
    {"protocol.allow", NULL, NULL, "it lets git run helpers"},
    {"protocol.*.allow", NULL, NULL, "it lets git run helpers"},
    {"fetch.fsckobjects", NULL, NULL, "git would check less"},
    {"transfer.fsckobjects", NULL, NULL, "git would check less"},
    {"core.sharedrepository", NULL, NULL, "other users could write the repository"},
};

static const struct gitconfig_key module_keys[] = {
    {"submodule.*.path", value_module_path, NULL, "a folder of the work tree"},
    {"submodule.*.url", value_module_url, NULL, "an address of an ordinary scheme"},
    {"submodule.*.update", value_one_of, "checkout|rebase|merge|none", "one of git's own ways, and not a command"},
    {"submodule.*.branch", value_name, NULL, "a name of a branch"},
    {"submodule.*.*", value_harmless, NULL, "other programs have notes there"},
    {"submodule.*", value_word, NULL, "how many are fetched at once, and the like"},
};

/* The parts of a key: up to the first dot, between, and from the last dot on. */
struct parts {
    size_t section, middle; /* middle 0: it has no subsection */
    const char *name;
};

static struct parts parts_of(const char *key) {
    const char *first = strchr(key, '.'), *last = strrchr(key, '.');

    return (struct parts){
        .section = (size_t)(first - key), .middle = first == last ? 0 : (size_t)(last - first), .name = last + 1};
}

static bool matches(const char *pattern, const char *key) {
    struct parts p = parts_of(pattern), k = parts_of(key);

    return p.section == k.section && memcmp(pattern, key, k.section) == 0 && !p.middle == !k.middle &&
           (str_eq(p.name, "*") || str_eq(p.name, k.name));
}

static const struct gitconfig_key *find(const struct gitconfig_key *rows, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (matches(rows[i].pattern, key))
            return &rows[i];
    return NULL;
}

const struct gitconfig_key *gitconfig_key_find(const char *key) {
    return find(keys, ARRAY_LEN(keys), key);
}

const struct gitconfig_key *gitconfig_key_find_module(const char *key) {
    return find(module_keys, ARRAY_LEN(module_keys), key);
}
