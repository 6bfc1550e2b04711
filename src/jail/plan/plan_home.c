/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the sandbox beside its root: the home with caches and git identity, the CA, and what stands in for the user's keys. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_system.h"
#include "jail/plan/plan_tools.h"

/* One volume is mounted at ~/.cache, where most tools look; links lead the others there, for a mount would cost every start ten
 * times more. `sub` is made in the volume (supervisor/session/volumes.c) because no tool creates what a link leads to. */
const struct plan_cache plan_caches[] = {
    {".npm", "npm"},
    {".local/share/pnpm", "pnpm-store", "npm_config_store_dir"},
    {".yarn/berry", "yarn-berry", "YARN_GLOBAL_FOLDER"},
    {".bun/install/cache", "bun", "BUN_INSTALL_CACHE_DIR"},
    {".cargo/registry", "cargo-registry"},
    {".cargo/git", "cargo-git"},
    {"go/pkg/mod", "go-mod", "GOMODCACHE"},
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

static void add_link(struct plan *p, const struct plan_cache *c) {
    const char *slash = strrchr(c->link, '/');

    if (slash)
        plan_add_own(p, (struct step){.kind = STEP_DIR}, str_dupf("%s/%.*s", p->home, (int)(slash - c->link), c->link), NULL);
    plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("%s/%s", p->home, c->link), link_to(c));
}

static void add_run_file(struct plan *p, const char *name, const char *content) {
    plan_add(p, (struct step){.kind = STEP_DIR, .to = "/run/bawn"});
    plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = 0444}, str_dupf("/run/bawn/%s", name), strdup(content));
}

void plan_add_home_file(struct plan *p, const char *name, const char *in_run, const char *content) {
    add_run_file(p, in_run, content);
    plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("%s/%s", p->home, name), str_dupf("/run/bawn/%s", in_run));
}

/* Size and time of a lookalike are those in git's index; its inode and ctime are not. */
static const char by_size_and_time[] = "[core]\n\ttrustctime = false\n\tcheckStat = minimal\n";

/* The user's part cannot be changed. The file that git writes with --global is the sandbox's own. Whose the repository is matters to a
 * user that others share a machine with, not in here. */
static void add_git(const struct plan_input *in, struct plan *p) {
    bool ignore = in->git.ignore && *in->git.ignore, tracked = in->workspace.tracked && in->workspace.tracked->n;
    CLEANUP(freep)
    char *config = str_dupf("[safe]\n\tdirectory = *\n%s%s%s", in->git.config ? in->git.config : "",
                            tracked ? by_size_and_time : "", ignore ? "[core]\n\texcludesFile = /run/bawn/gitignore\n" : "");

    p->failed |= !config;
    if (config)
        add_run_file(p, "gitconfig", config);
    if (ignore)
        add_run_file(p, "gitignore", in->git.ignore);
    plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = 0644}, str_dupf("%s/.gitconfig", p->home),
                 strdup("[include]\n\tpath = /run/bawn/gitconfig\n"));
}

void plan_make_home(const struct plan_input *in, struct plan *p) {
    const struct step folder = {.kind = STEP_EXTRA, .writable = true, .ours = true};
    const struct strv *agent = in->home.agent; /* what an agent has between runs (ops/agent/agent_run.h) */
    const char *caches = plan_ids_many(&p->ids) ? NULL : in->home.caches; /* other sandboxes of the user have these, too */

    if (!rung_has_root(p->rung))
        return;
    add_git(in, p);
    if (caches)
        plan_add_own(p, folder, str_dupf("%s/.cache", p->home), strdup(caches));
    for (size_t i = 0; caches && i < n_plan_caches; i++)
        if (plan_caches[i].sub && !plan_tools_use(in, p, plan_caches[i].link))
            add_link(p, &plan_caches[i]);
    for (size_t i = 0; agent && i + 1 < agent->len; i += 2)
        plan_add_own(p, folder, str_dupf("%s/%s", p->home, agent->v[i + 1]), strdup(agent->v[i]));
}

/* -- trust --------------------------------------------------------------------------------------------------------- */

/* The sandbox's own CA in the places where programs look for authorities. The variables for those that look elsewhere: env.c.
 * Java needs none: Debian's JDKs link to /etc/ssl/certs/java/cacerts, Fedora's to the file of ca-trust. */
static const char fedora_bundle[] = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem";

/* from: below the CA's folder. */
static void add_trust(const struct plan_input *in, struct plan *p, const char *to, const char *from) {
    plan_add_own(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(to), str_dupf("%s/%s", in->trust.folder, from));
}

/* Browsers. A copy of its own for each sandbox, because Chromium ignores a database that it cannot write. */
static void add_nss(const struct plan_input *in, struct plan *p) {
    static const char *const files[] = {"cert9.db", "key4.db", "pkcs11.txt"};

    add_trust(in, p, "/run/bawn/nssdb", "nssdb");
    plan_add_own(p, (struct step){.kind = STEP_DIR}, str_dupf("%s/.pki/nssdb", p->home), NULL);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        plan_add_own(p, (struct step){.kind = STEP_COPY, .mode = 0600}, str_dupf("%s/.pki/nssdb/%s", p->home, files[i]),
                     str_dupf("/run/bawn/nssdb/%s", files[i]));
}

void plan_input_trust(struct plan_input *in, const char *folder) {
    char nss[PATH_MAX];

    in->trust.folder = folder;
    in->trust.nss = (size_t)snprintf(nss, sizeof nss, "%s/nssdb", folder) < sizeof nss && access(nss, F_OK) == 0;
    in->trust.pki = access(fedora_bundle, F_OK) == 0;
}

/* A package's `update-ca-certificates` makes the bundle anew, and then runs what is in update.d. */
static void add_writable_trust(const struct plan_input *in, struct plan *p) {
    plan_add_own(p, (struct step){.kind = STEP_COW, .writable = true}, strdup(PLAN_SYSTEM_CERTS),
                 str_dupf("%s/certs", in->trust.folder));
    add_trust(in, p, "/run/bawn/ca.crt", "ca.pem");
    plan_add(p, (struct step){STEP_DIR, "/etc/ca-certificates/update.d"});
    plan_add(p, (struct step){STEP_FILE, "/etc/ca-certificates/update.d/bawn",
                              "#!/bin/sh\ncat /run/bawn/ca.crt >>" PLAN_SYSTEM_CERTS "/ca-certificates.crt\n", .mode = 0755});
}

void plan_make_trust(const struct plan_input *in, struct plan *p) {
    if (!p->network || !in->trust.folder)
        return;
    if (p->rung == RUNG_LANDLOCK && p->ids.by_root && p->ids.host_uid) {
        p->bundle = plan_own(p, str_dupf("%s/certs/" PLAN_BUNDLE, in->trust.folder));
        return;
    }
    if (p->writable_system)
        add_writable_trust(in, p);
    else
        add_trust(in, p, "/etc/ssl/certs", "certs");
    if (in->trust.pki || in->image) /* over a file of the host's folder, which is there as a whole */
        add_trust(in, p, fedora_bundle, "certs/ca-certificates.crt");
    if (in->trust.nss && rung_has_root(p->rung))
        add_nss(in, p);
}

/* -- credentials --------------------------------------------------------------------------------------------------- */

/* Instead of the user's keys: sockets that lead to the gate, and files that say who is who. The variables: env.c. */
static void add_ours(struct plan *p, const char *to, const char *from) {
    if (from)
        plan_add_own(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(to), strdup(from));
}

#define SOCKETS_MADE_INSIDE "/run/bawn-sockets"
static const struct {
    const char *seen, *made;
} plan_sockets[PLAN_SOCKETS] = {{PLAN_SSH_SOCKET, SOCKETS_MADE_INSIDE "/ssh-agent.sock"},
                                {PLAN_CREDENTIAL_SOCKET, SOCKETS_MADE_INSIDE "/credentials.sock"}};

bool plan_is_socket(const struct step *s) {
    return s->kind == STEP_RO && (str_eq(s->to, PLAN_SSH_SOCKET) || str_eq(s->to, PLAN_CREDENTIAL_SOCKET));
}

static struct step *find_socket(const struct plan *p, size_t which, enum step_kind kind) {
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == kind && str_eq(p->steps[i].to, plan_sockets[which].seen))
            return &p->steps[i];
    return NULL;
}

void plan_own_sockets(struct plan *p) {
    bool any = false;

    for (size_t i = 0; i < PLAN_SOCKETS; i++) {
        struct step *s = find_socket(p, i, STEP_RO);

        if (s)
            *s = (struct step){.kind = STEP_SYMLINK, .to = s->to, .from = plan_sockets[i].made};
        any |= s != NULL;
    }
    if (any)
        plan_add(
            p, (struct step){.kind = STEP_PRIVATE, .to = SOCKETS_MADE_INSIDE, .from = "private", .writable = true, .mode = 0755});
}

const char *plan_own_socket(const struct plan *p, size_t i) {
    return find_socket(p, i, STEP_SYMLINK) ? plan_sockets[i].made : NULL;
}

void plan_make_credentials(const struct plan_input *in, struct plan *p) {
    if (!p->network)
        return;
    add_ours(p, PLAN_SSH_SOCKET, in->credentials.ssh_socket);
    add_ours(p, PLAN_CREDENTIAL_SOCKET, in->credentials.credential_socket);
    add_ours(p, PLAN_INSIDE_BIN "/bawn-inside", in->credentials.program);
    if (!rung_has_root(p->rung)) /* plan_bare.c */
        return;
    if (in->credentials.known_hosts) { /* ssh wants this folder to be the user's alone */
        plan_add_own(p, (struct step){.kind = STEP_DIR, .mode = 0700}, str_dupf("%s/.ssh", p->home), NULL);
        plan_add_home_file(p, ".ssh/known_hosts", "known_hosts", in->credentials.known_hosts);
    }
    if (in->credentials.gitignore)
        plan_add_home_file(p, ".gitignore_global", "gitignore_global", in->credentials.gitignore);
    if (in->credentials.program) {
        plan_add(p, (struct step){STEP_SYMLINK, PLAN_INSIDE_BIN "/xdg-open", "bawn-inside"});
        plan_add(p, (struct step){STEP_SYMLINK, PLAN_INSIDE_BIN "/bawn-key", "bawn-inside"});
    }
}
