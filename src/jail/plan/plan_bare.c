/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Home and programs of Bawn's in the landlock rung, where nothing can be mounted. What is a mount in the full rung is a link here, and Landlock lets
 * the inside to where it leads. What is in /run/bawn there is in a folder beside the home, which the inside can read and not write.
 * engine/private_home.c makes these steps.
 */
#include <unistd.h>

#include "base/str.h"
#include "jail/plan/plan.h"

static const struct step link_step = {.kind = STEP_SYMLINK};

const char *plan_bin(const struct plan *p) {
    return p->run ? p->bin : PLAN_INSIDE_BIN;
}

static void add_file(struct plan *p, const char *name, mode_t mode, char *content) {
    plan_add_own(p, (struct step){.kind = STEP_FILE, .mode = mode}, str_dupf("%s/%s", p->run, name), content);
}

/* Of the system's level, because the file in the home may be one that an earlier life of the sandbox wrote. */
static void add_git(const struct plan_input *in, struct plan *p) {
    CLEANUP(freep) char *ignore = NULL;

    if (in->git.ignore && *in->git.ignore) {
        add_file(p, "gitignore", 0444, strdup(in->git.ignore));
        ignore = str_dupf("[core]\n\texcludesFile = \"%s/gitignore\"\n", p->run);
        p->failed |= !ignore;
    }
    add_file(p, PLAN_BARE_GITCONFIG, 0444,
             str_dupf("[include]\n\tpath = /etc/gitconfig\n[safe]\n\tdirectory = *\n%s%s", in->git.config ? in->git.config : "",
                      ignore ? ignore : ""));
}

/* ssh takes the home from the user database, and there it is the user's own, which is closed. */
static bool can_be_quoted(const struct plan *p) {
    return !strpbrk(p->home, "\"%$\\\n") && !strpbrk(p->run, "\"%$\\\n");
}

static void add_ssh(const struct plan_input *in, struct plan *p) {
    static const char *const programs[] = {"ssh", "scp", "sftp"};

    if (!can_be_quoted(p))
        return;
    add_file(p, "known_hosts", 0444, strdup(in->credentials.known_hosts ? in->credentials.known_hosts : ""));
    add_file(p, "ssh_config", 0444,
             str_dupf("Include \"%s/.ssh/config\"\nUserKnownHostsFile \"%s/.ssh/known_hosts\" \"%s/known_hosts\"\n", p->home,
                      p->home, p->run));
    plan_add_own(p, (struct step){.kind = STEP_DIR, .mode = 0700}, str_dupf("%s/.ssh", p->home), NULL);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        CLEANUP(freep) char *program = str_dupf("/usr/bin/%s", programs[i]), *name = str_dupf("first/%s", programs[i]);

        p->failed |= !program || !name;
        if (program && name && access(program, X_OK) == 0)
            add_file(p, name, 0555, str_dupf("#!/bin/sh\nexec %s -F \"${0%%/*}/../ssh_config\" \"$@\"\n", program));
    }
}

static void add_credentials(const struct plan_input *in, struct plan *p) {
    static const char *const names[] = {"xdg-open", "bawn-key"};

    add_ssh(in, p);
    if (in->credentials.gitignore) {
        add_file(p, "gitignore_global", 0444, strdup(in->credentials.gitignore));
        plan_add_own(p, link_step, str_dupf("%s/.gitignore_global", p->home), str_dupf("%s/gitignore_global", p->run));
    }
    for (size_t i = 0; in->credentials.program && i < ARRAY_LEN(names); i++)
        plan_add_own(p, link_step, str_dupf("%s/%s", p->bin, names[i]), strdup(in->credentials.program));
}

/* A folder of the host's that the inside may write, seen in its home. */
static void add_folder(struct plan *p, const char *name, const char *folder) {
    plan_add_own(p, (struct step){.kind = STEP_EXTRA, .writable = true, .ours = true}, strdup(folder), strdup(folder));
    plan_add_own(p, link_step, str_dupf("%s/%s", p->home, name), strdup(folder));
}

bool plan_bare_has_folders(const struct plan *p) {
    return !p->ids.by_root || !p->ids.host_uid;
}

/* Removing a folder from a disk takes longer than all else at the end of a short run, so none is made for a link that a variable can replace (env.c). */
static void add_folders(const struct plan_input *in, struct plan *p) {
    const struct strv *agent = in->home.agent;

    if (in->home.caches)
        add_folder(p, ".cache", in->home.caches);
    for (size_t i = 0; in->home.caches && i < n_plan_caches; i++)
        if (plan_caches[i].sub && !plan_caches[i].variable)
            plan_add_own(p, link_step, str_dupf("%s/%s", p->home, plan_caches[i].link),
                         str_dupf("%s/%s", in->home.caches, plan_caches[i].sub));
    for (size_t i = 0; agent && i + 1 < agent->len; i += 2)
        add_folder(p, agent->v[i + 1], agent->v[i]);
}

void plan_make_bare_home(const struct plan_input *in, struct plan *p) {
    if (p->rung != RUNG_LANDLOCK)
        return;
    p->run = plan_own(p, str_dupf("%s/bawn", p->private_dir));
    p->bin = plan_own(p, str_dupf("%s/bawn/bin", p->private_dir));
    if (p->failed)
        return;
    add_git(in, p);
    if (p->network)
        add_credentials(in, p);
    if (plan_bare_has_folders(p))
        add_folders(in, p);
}
