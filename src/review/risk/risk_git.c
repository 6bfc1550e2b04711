/* SPDX-License-Identifier: Apache-2.0 */
/* Where git looks for code to run, as far as no fixed list of paths tells (ATTACKS 34 to 39). */
#include "base/str.h"
#include "review/risk/risk_rule.h"

void risk_inspect_hook(struct risk_case *c) {
    const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;
    bool runs = c->change->new_.mode & 0111;

    if (str_ends(name, ".sample"))
        risk_add(c, c->rule->class, RISK_LOW, 0, "'%s' is a sample, which git does not run under this name", name);
    else
        risk_add(c, c->rule->class, c->rule->level, 0, "%s, '%s'%s", c->rule->reason, name,
                 runs ? "" : ", as soon as it is executable");
}

/* A word of an attribute line. False: no more. */
static bool next_attribute(const char **s, const char *end, const char **word, size_t *len) {
    while (*s < end && (**s == ' ' || **s == '\t'))
        (*s)++;
    *word = *s;
    while (*s < end && **s != ' ' && **s != '\t')
        (*s)++;
    *len = (size_t)(*s - *word);
    return *len > 0;
}

static const struct {
    const char *pattern;
    enum risk_level level; /* RISK_NONE: built into git */
    const char *reason;
} attribute_words[] = {
    {"diff=ada|diff=bash|diff=bibtex|diff=cpp|diff=csharp|diff=css|diff=dts|diff=elixir|diff=fortran|diff=fountain|"
     "diff=golang|diff=html|diff=java|diff=kotlin|diff=markdown|diff=matlab|diff=objc|diff=pascal|diff=perl|diff=php|"
     "diff=python|diff=ruby|diff=rust|diff=scheme|diff=tex|merge=text|merge=union",
     RISK_NONE, NULL},
    {"filter=lfs|diff=lfs|merge=lfs", RISK_LOW, "hands the file to git lfs"},
    {"filter=*", RISK_MEDIUM, "makes git run this filter at every add or checkout, if the configuration has it"},
    {"diff=*", RISK_MEDIUM, "makes git run this driver at every diff, if the configuration has it"},
    {"merge=binary", RISK_LOW, "keeps git from merging"},
    {"merge=*", RISK_MEDIUM, "makes git run this driver at every merge, if the configuration has it"},
    {"-diff|binary|linguist-generated*|linguist-vendored*", RISK_LOW, "takes the file out of what diffs and reviews show"},
    {"ident|export-subst|working-tree-encoding=*", RISK_LOW, "makes git change the content at checkout or export"},
};

static void attribute_line(struct risk_case *c, const struct text_line *l) {
    const char *s = l->s, *word;
    char shown[RISK_SHOWN_MAX + 4];
    size_t len;

    if (*l->s == '#' || !next_attribute(&s, l->s + l->len, &word, &len))
        return;
    while (next_attribute(&s, l->s + l->len, &word, &len))
        for (size_t i = 0; i < ARRAY_LEN(attribute_words); i++) {
            CLEANUP(freep) char *text = NULL;

            if (!risk_glob(attribute_words[i].pattern, word, len))
                continue;
            if (attribute_words[i].level == RISK_NONE)
                break;
            text = strndup(l->s, l->len);
            if (!text)
                c->failed = true;
            else
                risk_add(c, c->rule->class, attribute_words[i].level, l->number, "'%s' %s", risk_shown(text, shown),
                         attribute_words[i].reason);
            break;
        }
}

void risk_inspect_attributes(struct risk_case *c) {
    CLEANUP(freep) struct text_line *lines = NULL;
    int n = risk_new_lines(&c->old_, &c->new_, &lines);

    if (n < 0)
        risk_unread(c, 0, "it has too many lines");
    for (int i = 0; i < n; i++)
        attribute_line(c, &lines[i]);
}

/* What git itself writes for submodules and linked worktrees of a repository that they lie in: it leads to configuration and hooks that are judged. */
static bool is_usual_git_file(const char *path, const char *text) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *to = text + strlen("gitdir: ");

    if (str_eq(name, "commondir"))
        return strstr(path, ".git/worktrees/") && str_eq(text, "../..");
    if (str_eq(name, "gitdir"))
        return strstr(path, ".git/worktrees/") && str_ends(text, "/.git");
    if (!str_eq(name, ".git") || !str_starts(text, "gitdir: ../"))
        return false;
    while (str_starts(to, "../"))
        to += strlen("../");
    return (str_starts(to, ".git/modules/") || str_starts(to, ".git/worktrees/")) && !strstr(to, "..");
}

void risk_inspect_git_file(struct risk_case *c) {
    char shown[RISK_SHOWN_MAX + 4];
    struct text_line l = {0};
    size_t pos = 0;
    CLEANUP(freep) char *text = NULL;

    if (text_line_next(c->new_.data, c->new_.len, &pos, &l))
        text = strndup(l.s, l.len);
    risk_add(c, c->rule->class, text && is_usual_git_file(c->path, text) ? RISK_LOW : c->rule->level, 1, "%s: '%s'",
             c->rule->reason, risk_shown(text ? text : "", shown));
}

static const struct risk_rule hooks_rule = {"", RISK_GIT_HOOK, RISK_HIGH,
                                            "core.hooksPath names its folder, so git runs this hook", risk_inspect_hook};
static const struct risk_rule bare_hook_rule = {"", RISK_GIT_HOOK, RISK_HIGH,
                                                "it lies in a bare repository, so git runs this hook", risk_inspect_hook};
static const struct risk_rule include_rule = {
    "", RISK_GIT_CONFIG, RISK_HIGH, "git's configuration includes it", risk_inspect_keys, &risk_git_config};
static const struct risk_rule bare_config_rule = {
    "", RISK_GIT_CONFIG, RISK_HIGH, "git obeys it in this bare repository", risk_inspect_keys, &risk_git_config};

/* The hooks folder itself, or something in it. An absolute path is compared by its end: where the workspace lies is not known. */
static bool below(const char *folder, const char *path) {
    size_t n = strlen(folder);
    const char *slash = strchr(path, '/');

    if (n == 0)
        return !slash;
    if (*folder != '/' && *folder != '~')
        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
    for (; slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);

        if (n > len && folder[n - len - 1] == '/' && memcmp(folder + n - len, path, len) == 0)
            return true;
    }
    return false;
}

static void judge_configured(struct risk_case *c) {
    for (size_t i = 0; i < c->ctx->hooks.len; i++)
        if (below(c->ctx->hooks.v[i], c->path))
            risk_judge_by(c, &hooks_rule);
    if (strv_has(&c->ctx->includes, c->path))
        risk_judge_by(c, &include_rule);
}

static bool after(const struct risk_case *c, const char *folder, const char *name) {
    CLEANUP(freep) char *path = str_dupf("%s%s%s", folder, *folder ? "/" : "", name);

    return !path || risk_after_exists(c->ctx, path);
}

/* git takes any folder with these three for a repository, if it is called in there (CVE-2022-24765's cousin, ATTACKS 37). */
static bool is_repository(const struct risk_case *c, const char *folder) {
    return after(c, folder, "HEAD") &&
           (after(c, folder, "commondir") || (after(c, folder, "objects") && after(c, folder, "refs")));
}

static void judge_bare_folder(struct risk_case *c, const char *folder, const char *part) {
    if (c->change->new_.mode == 0 || !is_repository(c, folder))
        return;
    risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0,
             "'%s' is a bare repository with this change: git obeys its configuration and runs its hooks when called in there",
             *folder ? folder : ".");
    if (str_starts(part, "hooks/"))
        risk_judge_by(c, &bare_hook_rule);
    else if (str_eq(part, "config") || str_eq(part, "config.worktree"))
        risk_judge_by(c, &bare_config_rule);
}

/* A repository's own folder; those that git makes for submodules and worktrees have rules of their own. */
static bool is_gits_own(const char *folder) {
    const char *git = strstr(folder, ".git/");

    while (git && git != folder && git[-1] != '/')
        git = strstr(git + 1, ".git/");
    return str_ends(folder, "/.git") || str_eq(folder, ".git") ||
           (git && (str_starts(git, ".git/modules/") || str_starts(git, ".git/worktrees/")));
}

/* Every folder above the path in which the next name is one of a repository's. Also below .git: a link leads there as well as anywhere. */
static void judge_bare(struct risk_case *c) {
    static const char names[] = "HEAD|config|config.worktree|commondir|packed-refs|objects|refs|hooks|hooks/*|objects/*|refs/*";

    for (const char *part = c->path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        CLEANUP(freep) char *folder = NULL;

        if (!risk_glob(names, part, strlen(part)))
            continue;
        folder = strndup(c->path, part > c->path ? (size_t)(part - c->path) - 1 : 0);
        if (!folder)
            c->failed = true;
        else if (!is_gits_own(folder))
            judge_bare_folder(c, folder, part);
    }
}

/* Characters that HFS+ leaves out of names. */
static size_t ignorable(const char *s) {
    const unsigned char *u = (const unsigned char *)s;

    if (u[0] == 0xe2 && u[1] == 0x80 && ((u[2] >= 0x8b && u[2] <= 0x8f) || (u[2] >= 0xaa && u[2] <= 0xae)))
        return 3;
    if (u[0] == 0xe2 && u[1] == 0x81 && u[2] >= 0xa0 && u[2] <= 0xaf)
        return 3;
    return u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf ? 3 : 0;
}

/* What macOS and Windows make of a name: without those characters, and what follows ':' and dots and spaces at its end. */
static bool means_git(const char *part, size_t len) {
    char plain[16];
    size_t n = 0;

    for (size_t i = 0; i < len && part[i] != ':';) {
        size_t skip = ignorable(part + i);

        if (!skip && n == sizeof plain)
            return false;
        if (!skip)
            plain[n++] = part[i];
        i += skip ? skip : 1;
    }
    while (n && (plain[n - 1] == '.' || plain[n - 1] == ' '))
        n--;
    return risk_glob(".git", plain, n) || (n == 5 && risk_glob("git~*", plain, n));
}

static void judge_spelling(struct risk_case *c, const struct risk_path *path) {
    char shown[RISK_SHOWN_MAX + 4];

    for (size_t i = 0; i < path->n; i++) {
        CLEANUP(freep) char *part = NULL;

        if ((path->len[i] == 4 && memcmp(path->part[i], ".git", 4) == 0) || !means_git(path->part[i], path->len[i]))
            continue;
        part = strndup(path->part[i], path->len[i]);
        if (part)
            risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0, "'%s' is the same as '.git' on some file systems", risk_shown(part, shown));
        else
            c->failed = true;
    }
}

void risk_judge_git(struct risk_case *c) {
    struct risk_path path;
    const char *git = strstr(c->path, ".git/");
    bool inside = git && (git == c->path || git[-1] == '/');

    risk_path_split(c->path, &path);
    judge_configured(c);
    judge_spelling(c, &path);
    judge_bare(c);
    if (inside && git != c->path && c->change->new_.mode && risk_path_match(".git/HEAD|.git/commondir", &path))
        risk_add(c, RISK_GIT_DIR, RISK_MEDIUM, 0, "'%.*s' is a repository of its own, with its own configuration and hooks",
                 (int)MIN_OF(git - c->path - 1, RISK_SHOWN_MAX), c->path);
}
