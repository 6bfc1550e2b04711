/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent left, as both versions of a file that some rule reads: the first byte chooses the file, a 0xff ends the old
 * version (without one there is none). Whatever the bytes are, the list of risks is bounded and every risk has a reason.
 */
#include "base/str.h"
#include "review/risk/risk_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {
    ".git/config",
    ".gitmodules",
    ".gitattributes",
    ".git/hooks/pre-commit",
    "sub/.git",
    ".sandboxignore",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    "x.code-workspace",
    ".devcontainer.json",
    "package.json",
    ".npmrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "pyproject.toml",
    "setup.cfg",
    "venv/pyvenv.cfg",
    "Cargo.toml",
    ".cargo/config.toml",
    "gradle-wrapper.properties",
    "composer.json",
    "go.mod",
    "mise.toml",
    ".pre-commit-config.yaml",
    ".mcp.json",
    ".codex/config.toml",
    ".aider.conf.yml",
    "requirements.txt",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "Cargo.lock",
    "poetry.lock",
    "Pipfile.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "gradle.lockfile",
    "flake.lock",
    "deno.lock",
    "Makefile",
    ".github/workflows/a.yml",
    "plain.txt",
};

static struct risk_text text(const uint8_t *data, size_t len, bool there) {
    struct risk_text t = {.data = malloc(len + 1), .len = len, .there = there, .whole = true};

    if (!t.data)
        BUG("no memory");
    memcpy(t.data, data, len);
    t.data[len] = 0;
    return t;
}

static void judge(struct risk_case *c, const struct change *link) {
    struct risk_path path;

    risk_path_split(c->path, &path);
    for (const struct risk_rule *r = risk_rules; r->pattern; r++)
        if (risk_path_match(r->pattern, &path))
            risk_judge_by(c, r);
    risk_judge_exec(c);
    risk_judge_text(c, &c->old_);
    c->change = link;
    c->path = link->path;
    risk_judge_git(c);
    risk_judge_link(c);
    risk_judge_name(c);
    risk_add_rest(c);
    risk_sort(c->out);
}

static void check(const struct risk_list *l) {
    if (l->n > (RISK_SAME_MAX + 1) * RISK_CLASSES * RISK_LEVELS)
        BUG("more risks than there can be");
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].level == RISK_NONE || l->v[i].level >= RISK_LEVELS || l->v[i].class >= RISK_CLASSES || !*l->v[i].reason)
            BUG("a risk that is none");
        if (i && l->v[i - 1].level < l->v[i].level)
            BUG("not sorted");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct change_set set = CHANGE_SET_INIT;
    const struct risk_context ctx = {.set = &set, .workspace = -1};
    const uint8_t *cut = size > 1 ? memchr(data + 1, 0xff, size - 1) : NULL;
    CLEANUP(risk_text_done) struct risk_text before = text(data + 1, cut ? (size_t)(cut - data - 1) : 0, cut != NULL);
    CLEANUP(risk_text_done)
    struct risk_text now =
        cut ? text(cut + 1, size - (size_t)(cut + 1 - data), true) : text(data + (size > 0), size - (size > 0), true);
    CLEANUP(risk_list_done) struct risk_list list = {0};
    struct change change = {
        .kind = CHANGE_MODIFIED, .what = CHANGE_CONTENT, .old_ = {0100644, 0, NULL}, .new_ = {0100755, 0, NULL}};
    struct change link = {.kind = CHANGE_ADDED, .what = CHANGE_LINK, .path = before.data, .new_ = {0120777, 0, now.data}};
    struct risk_case c = {.ctx = &ctx, .change = &change, .old_ = before, .new_ = now, .out = &list};

    if (size == 0)
        return 0;
    change.path = (char *)paths[data[0] % ARRAY_LEN(paths)];
    c.path = change.path;
    judge(&c, &link);
    if (c.failed)
        BUG("no memory");
    check(&list);
    return 0;
}
