/* SPDX-License-Identifier: Apache-2.0 */
/* Steps for the user's own programs, and the places for those that are installed inside. */
#include "jail/plan/plan_tools.h"

#include <limits.h>

#include "base/str.h"
#include "jail/plan/plan.h"

void plan_tools_done(struct plan_tools *t) {
    struct strv *const lists[] = {&t->mounts, &t->links, &t->path, &t->env};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        strv_done(lists[i]);
}

static char *parent_of(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? strndup(path, (size_t)(slash - path)) : NULL;
}

/* PYTHONUSERBASE is the sandbox's own, so a file there leads to the modules of the host's ~/.local. */
static void add_user_site(struct plan *p, const char *mount) {
    const char *at = strstr(mount, "/.local/lib/python"), *version = at ? at + strlen("/.local/lib/") : NULL;
    int n = version ? (int)strcspn(version, "/") : 0;
    char name[NAME_MAX], in_run[NAME_MAX], content[PATH_MAX];

    if (!version || !str_eq(version + n, "/site-packages"))
        return;
    snprintf(name, sizeof name, PLAN_INSTALLED "/lib/%s/host.pth", version);
    snprintf(in_run, sizeof in_run, "%.*s.pth", n, version);
    snprintf(content, sizeof content, "%s\n", mount);
    plan_add_own(p, (struct step){.kind = STEP_DIR}, str_dupf("%s/" PLAN_INSTALLED "/lib/%s", p->home, version), NULL);
    plan_add_home_file(p, name, in_run, content);
}

void plan_make_tools(const struct plan_input *in, struct plan *p) {
    const struct step dir = {.kind = STEP_DIR}, link = {.kind = STEP_SYMLINK}, shown = {.kind = STEP_EXTRA, .optional = true};
    const struct plan_tools *t = in->home.tools;

    if (!t)
        return;
    for (size_t i = 0; i < t->mounts.len; i++)
        plan_add_own(p, shown, strdup(t->mounts.v[i]), strdup(t->mounts.v[i]));
    if (!rung_has_root(p->rung))
        return;
    for (size_t i = 0; i < t->mounts.len; i++)
        add_user_site(p, t->mounts.v[i]);
    plan_add_own(p, dir, str_dupf("%s/" PLAN_INSTALLED "/bin", p->home), NULL);
    plan_add_own(p, dir, str_dupf("%s/" PLAN_INSTALLED "/lib", p->home), NULL); /* npx fails where the prefix has none */
    for (size_t i = 0; i + 1 < t->links.len; i += 2) {
        plan_add_own(p, dir, parent_of(t->links.v[i]), NULL);
        plan_add_own(p, link, strdup(t->links.v[i]), strdup(t->links.v[i + 1]));
    }
}

bool plan_tools_use(const struct plan_input *in, const struct plan *p, const char *below_home) {
    size_t n = strlen(p->home), len = strlen(below_home);

    for (size_t i = 0; in->home.tools && i < in->home.tools->mounts.len; i++) {
        const char *m = in->home.tools->mounts.v[i];

        if (strncmp(m, p->home, n) == 0 && m[n] == '/' && strncmp(m + n + 1, below_home, len) == 0 &&
            (m[n + 1 + len] == '/' || m[n + 1 + len] == 0))
            return true;
    }
    return false;
}
