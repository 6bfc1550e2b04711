/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the sandbox's home from the beginning: caches, git identity. Everything else is its own business. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"

/* One volume is mounted at ~/.cache, where most tools look; links lead the others there, for a mount would cost every start ten
 * times more. `sub` is made in the volume (supervisor/session/volumes.c) because no tool creates what a link leads to. */
const struct plan_cache plan_caches[] = {
    {".npm", "npm"},
    {".local/share/pnpm", "pnpm-store"},
    {".yarn/berry", "yarn-berry"},
    {".bun/install/cache", "bun"},
    {".cargo/registry", "cargo-registry"},
    {".cargo/git", "cargo-git"},
    {"go/pkg/mod", "go-mod"},
    {".m2/repository", "maven"},
    {".gradle/caches", "gradle"},
    {".gradle/wrapper", "gradle-wrapper"},
    {".cache/pip", NULL},
    {".cache/uv", NULL},
    {".cache/yarn", NULL},
    {".cache/go-build", NULL},
};
const size_t n_plan_caches = ARRAY_LEN(plan_caches);

/* "../../.cache/npm" from ".yarn/berry": relative, so that the home may be anywhere. */
static char *link_to(const struct plan_cache *c) {
    static const char up[] = "../../../";
    int depth = 0;

    for (const char *s = c->link; (s = strchr(s, '/')); s++)
        depth++;
    return str_dupf("%.*s.cache/%s", 3 * depth, up, c->sub);
}

static int add_link(struct plan *p, const struct plan_cache *c, struct err *err) {
    const char *slash = strrchr(c->link, '/');
    int r = 0;

    if (slash)
        r = plan_add_own(p, (struct step){.kind = STEP_DIR}, str_dupf("%s/%.*s", p->home, (int)(slash - c->link), c->link), NULL,
                         err);
    return r < 0 ? r : plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("%s/%s", p->home, c->link), link_to(c), err);
}

static int add_caches(const struct plan_input *in, struct plan *p, struct err *err) {
    int r = plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true}, str_dupf("%s/.cache", p->home),
                         strdup(in->home.caches), err);

    for (size_t i = 0; r >= 0 && i < n_plan_caches; i++)
        if (plan_caches[i].sub)
            r = add_link(p, &plan_caches[i], err);
    return r;
}

/* What an agent keeps between runs (ops/agent/agent_run.h). */
static int add_agent_home(const struct plan_input *in, struct plan *p, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i + 1 < in->home.agent->len; i += 2)
        r = plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true},
                         str_dupf("%s/%s", p->home, in->home.agent->v[i + 1]), strdup(in->home.agent->v[i]), err);
    return r;
}

/* Read-only: the file is in the sealed root, and the name in the home leads to it. */
int plan_add_home_file(struct plan *p, const char *name, const char *in_run, const char *content, struct err *err) {
    int r = plan_add_own(p, (struct step){.kind = STEP_DIR}, strdup("/run/bawn"), NULL, err);

    if (r == 0)
        r = plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = 0444}, str_dupf("/run/bawn/%s", in_run), strdup(content),
                         err);
    if (r == 0)
        r = plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("%s/%s", p->home, name),
                         str_dupf("/run/bawn/%s", in_run), err);
    return r;
}

int plan_make_home(const struct plan_input *in, struct plan *p, struct err *err) {
    int r = 0;

    if (p->rung != RUNG_FULL)
        return 0;
    if (in->git.config && *in->git.config)
        r = plan_add_home_file(p, ".gitconfig", "gitconfig", in->git.config, err);
    r = r < 0 || !in->home.caches ? r : add_caches(in, p, err);
    return r < 0 || !in->home.agent ? r : add_agent_home(in, p, err);
}
