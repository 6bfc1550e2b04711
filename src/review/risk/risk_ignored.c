/* SPDX-License-Identifier: Apache-2.0 */
/* Files that git does not show: what is changed there, nobody sees again. */
#include "review/risk/risk_rule.h"

/* Ignored, and yet run by a usual action. */
static const char runs[] =
    "node_modules/**|venv/**|.venv/**|env/**|site-packages/**|vendor/**|dist/**|build/**|target/**|out/**|.tox/**|.nox/**|"
    "bin/**|_build/**|__pycache__/**|.next/**|.nuxt/**|.yarn/**|.pnp.*|.gradle/**|deps/**|bower_components/**|.direnv/**|"
    "Pods/**|obj/**|.terraform/**|*.js|*.py|*.sh|*.mjs|*.cjs|*.pl|*.rb";

void risk_judge_ignored(struct risk_case *c) {
    const struct change *ch = c->change;
    struct risk_path path;

    if (ch->new_.mode == 0 || S_ISDIR(ch->new_.mode) || !risk_git_ignored(c->ctx, ch))
        return;
    risk_path_split(c->path, &path);
    if ((S_ISREG(ch->new_.mode) && ch->new_.mode & 0111) || risk_path_match(runs, &path))
        risk_add(c, RISK_IGNORED, RISK_MEDIUM, 0, "git ignores it, and it is something that builds, tests or tools run");
    else
        risk_add(c, RISK_IGNORED, RISK_LOW, 0, "git ignores it, so git status and git diff do not show it");
}
