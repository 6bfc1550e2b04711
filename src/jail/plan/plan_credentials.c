/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has instead of the user's keys: sockets that lead to the gate, and files that say who is who. The variables: env.c. */
#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"

static int add_socket(struct plan *p, const char *to, const char *from, struct err *err) {
    return from ? plan_add_own(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(to), strdup(from), err) : 0;
}

static int add_program(const struct plan_input *in, struct plan *p, struct err *err) {
    static const char *const names[] = {"xdg-open", "bawn-key"};
    int r;

    if (!in->credentials.program)
        return 0;
    r = plan_add_own(p, (struct step){.kind = STEP_RO, .ours = true}, strdup(PLAN_INSIDE_BIN "/bawn-inside"),
                     strdup(in->credentials.program), err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
        r = plan_add_own(p, (struct step){.kind = STEP_SYMLINK}, str_dupf(PLAN_INSIDE_BIN "/%s", names[i]), strdup("bawn-inside"),
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
        r = plan_add_own(p, (struct step){.kind = STEP_DIR, .mode = 0700}, str_dupf("%s/.ssh", p->home), NULL, err);
    if (r == 0 && in->credentials.known_hosts)
        r = plan_add_home_file(p, ".ssh/known_hosts", "known_hosts", in->credentials.known_hosts, err);
    if (r == 0 && in->credentials.gitignore)
        r = plan_add_home_file(p, ".gitignore_global", "gitignore_global", in->credentials.gitignore, err);
    return r < 0 ? r : add_program(in, p, err);
}
