/* SPDX-License-Identifier: Apache-2.0 */
/* Lockfiles: which reader, and what is said. */
#include <errno.h>

#include "base/str.h"
#include "review/risk/risk_deps.h"
#include "review/risk/risk_rule.h"

static const struct {
    const char *names;
    deps_read_fn *read;
} readers[] = {
    {"package-lock.json|npm-shrinkwrap.json|.package-lock.json", deps_read_npm},
    {"yarn.lock", deps_read_yarn},
    {"pnpm-lock.yaml", deps_read_pnpm},
    {"bun.lock", deps_read_bun},
    {"Cargo.lock|poetry.lock|uv.lock|pdm.lock|pylock*.toml", deps_read_toml},
    {"Pipfile.lock", deps_read_pipfile},
    {"composer.lock", deps_read_composer},
    {"flake.lock", deps_read_flake},
    {"deno.lock", deps_read_deno},
    {"go.sum|go.work.sum", deps_read_go_sum},
    {"Gemfile.lock", deps_read_gemfile},
    {"gradle.lockfile", deps_read_gradle},
};

static void inspect(struct risk_case *c, deps_read_fn *read) {
    CLEANUP(deps_done) struct deps before = DEPS_INIT, now = DEPS_INIT;

    read(&before, c->old_.data, c->old_.len);
    read(&now, c->new_.data, c->new_.len);
    deps_compare(c, &before, &now);
    if (now.odd)
        risk_unread(c, now.odd, "it is written in a way that this reader does not know");
    if (c->old_.there && !c->old_.whole)
        risk_add(c, RISK_DEPENDENCY, RISK_LOW, 0, "%s, and its old version was not stored: every dependency counts as added",
                 c->rule->reason);
}

void risk_inspect_lock(struct risk_case *c) {
    const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;

    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        if (risk_glob(readers[i].names, name, strlen(name))) {
            inspect(c, readers[i].read);
            return;
        }
    BUG("a lockfile in the rules has no reader");
}

void risk_inspect_requirements(struct risk_case *c) {
    static const char options[] = "-i*|--index-url*|--extra-index-url*|--find-links*|-f *|--trusted-host*|--no-index*";
    CLEANUP(freep) struct text_line *lines = NULL;
    char shown[RISK_SHOWN_MAX + 4];
    int n = risk_new_lines(&c->old_, &c->new_, &lines);

    inspect(c, deps_read_requirements);
    if (n < 0)
        risk_unread(c, 0, "it has too many lines");
    for (int i = 0; i < n; i++) {
        CLEANUP(freep) char *text = strndup(lines[i].s, lines[i].len);

        if (!text)
            c->failed = true;
        else if (risk_glob(options, text, strlen(text)))
            risk_add(c, RISK_DEPENDENCY, RISK_HIGH, lines[i].number, "'%s' changes where pip takes packages from",
                     risk_shown(text, shown));
    }
}
