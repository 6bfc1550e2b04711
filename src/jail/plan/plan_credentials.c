/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has instead of the user's keys: sockets that lead to the gate, and files that say who is who. The variables: env.c. */
#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"

static int add_step(struct plan *p, struct step step, char *to, char *from, struct err *err) {
    step.to = plan_own(p, to);
    step.from = from ? plan_own(p, from) : NULL;
    if (!step.to || (from && !step.from))
        return err_oom(err);
    return plan_add(p, step, err);
}

static int add_socket(struct plan *p, const char *to, const char *from, struct err *err) {
    return from ? add_step(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(to), strdup(from), err) : 0;
}

/* Read-only: the file is in the sealed root, and the name in the home leads to it. */
static int add_home_file(struct plan *p, const char *name, const char *kept, const char *content, struct err *err) {
    int r;

    if (!content)
        return 0;
    r = add_step(p, (struct step){.kind = STEP_DIR}, strdup("/run/bawn"), NULL, err);
    r = r < 0 ? r
              : add_step(p, (struct step){.kind = STEP_FILE, .mode = 0444}, str_dupf("/run/bawn/%s", kept), strdup(content), err);
    return r < 0 ? r
                 : add_step(p, (struct step){.kind = STEP_SYMLINK}, str_dupf("%s/%s", p->home, name),
                            str_dupf("/run/bawn/%s", kept), err);
}

static int add_program(const struct plan_input *in, struct plan *p, struct err *err) {
    static const char *const names[] = {"xdg-open", "bawn-key"};
    int r;

    if (!in->credentials.program)
        return 0;
    r = add_step(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(PLAN_INSIDE_BIN "/bawn-inside"),
                 strdup(in->credentials.program), err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
        r = add_step(p, (struct step){.kind = STEP_SYMLINK}, str_dupf(PLAN_INSIDE_BIN "/%s", names[i]), strdup("bawn-inside"),
                     err);
    return r;
}

int plan_make_credentials(const struct plan_input *in, struct plan *p, struct err *err) {
    int r = 0;

    if (!p->network)
        return 0;
    r = add_socket(p, PLAN_SSH_SOCKET, in->credentials.ssh_socket, err);
    r = r < 0 ? r : add_socket(p, PLAN_CREDENTIAL_SOCKET, in->credentials.credential_socket, err);
    if (r == 0 && in->credentials.known_hosts) /* ssh wants this folder to be the user's alone */
        r = add_step(p, (struct step){.kind = STEP_DIR, .mode = 0700}, str_dupf("%s/.ssh", p->home), NULL, err);
    r = r < 0 ? r : add_home_file(p, ".ssh/known_hosts", "known_hosts", in->credentials.known_hosts, err);
    r = r < 0 ? r : add_home_file(p, ".gitignore_global", "gitignore_global", in->credentials.gitignore, err);
    return r < 0 ? r : add_program(in, p, err);
}
