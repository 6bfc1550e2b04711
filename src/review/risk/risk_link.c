/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links: where they lead, by text. */
#include "base/str.h"
#include "review/risk/risk_rule.h"

/* What a link is most dangerous to lead to. */
static const char secrets[] =
    "*/.ssh|*/.ssh/*|*/.gnupg*|*/.aws*|*/.kube*|*/.docker*|*/.config*|*/.netrc|*/.git-credentials|*/.npmrc|*/.pypirc|"
    "*/.bash*|*/.zsh*|*/.profile|/etc*|/proc*|/sys*|/dev/*|/root*|/run*|/var/run*|/boot*|/|/home|/home/*|~*|*.sock|"
    "*/.local*|*/.cargo*|*/.mozilla*";
/* What links usually lead to. */
static const char usual[] = "/usr/bin/*|/usr/lib/*|/usr/local/bin/*|/bin/*|/lib/*|/usr/share/*|/nix/store/*|/opt/*";

static bool in_git(const char *path) {
    return str_eq(path, ".git") || str_starts(path, ".git/") || strstr(path, "/.git/") || str_ends(path, "/.git");
}

void risk_judge_link(struct risk_case *c) {
    const char *link = c->change->new_.link;
    CLEANUP(freep) char *folder = risk_folder(c->path);
    CLEANUP(freep) char *where = NULL;
    char shown[RISK_SHOWN_MAX + 4];
    int r;

    if (!S_ISLNK(c->change->new_.mode) || !link)
        return;
    r = folder ? risk_resolve(c->ctx, folder, link, &where) : -1;
    risk_shown(link, shown);
    if (in_git(c->path)) /* git itself makes none; its reflog, say, is appended to whatever the link leads to */
        risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0, "it is a link in git's own directory, to '%s': what git writes goes there",
                 shown);
    if (r < 0)
        c->failed = true;
    else if (r == 0 && risk_glob(secrets, link, strlen(link)) && !risk_glob(usual, link, strlen(link)))
        risk_add(c, RISK_SYMLINK_OUT, RISK_HIGH, 0,
                 "it leads out of the workspace, to '%s', where the system or your secrets are", shown);
    else if (r == 0)
        risk_add(c, RISK_SYMLINK_OUT, risk_glob(usual, link, strlen(link)) && !strstr(link, "..") ? RISK_LOW : RISK_MEDIUM, 0,
                 "it leads out of the workspace, to '%s'", shown);
    else if (in_git(where) && !in_git(c->path))
        risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0, "it leads to '%s', into git's own directory: what is written there, git may run",
                 shown);
}
