/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor has to know to hide files of the host that appear while the command runs (supervisor/watch/latecomers.h). */
#include <fcntl.h>

#include "init/guard/guard_judge.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

int guard_look(struct guard *g, const char *rel, bool closing) {
    return rel && *rel ? guard_ask(g, GUARD_MSG_LOOK, rel, closing) : 0;
}

int guard_making(struct guard *g, const struct place *p, enum rules_kind kind) {
    int r;

    if (!guard_rules_own(&g->rules, p->rel, kind))
        return 0;
    r = guard_ask(g, GUARD_MSG_MAKING, p->rel, 0);
    return r < 0 ? r : 1;
}

void guard_made(struct guard *g, const struct place *p, int fd) {
    guard_tell(g, GUARD_MSG_MADE, p->rel, fd);
}

void guard_made_there(struct guard *g, const struct place *p, bool made) {
    CLEANUP(closep) int fd = -1;

    if (made)
        fd = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    guard_made(g, p, fd);
}
