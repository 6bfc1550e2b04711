/* What the supervisor has to know to hide files of the host that appear while the command runs (supervisor/latecomers.h). */
#include <fcntl.h>

#include "init/guard_priv.h"
#include "os/fd.h"

int guard_look(struct guard *g, const char *rel, bool closing) {
    return rel && *rel ? guard_ask(g, GUARD_MSG_LOOK, rel, closing) : 0;
}

int guard_making(struct guard *g, const struct place *p, enum rules_kind kind) {
    return guard_rules_own(&g->rules, p->rel, kind) ? guard_ask(g, GUARD_MSG_MAKING, p->rel, 0) : 0;
}

void guard_made(struct guard *g, const struct place *p, enum rules_kind kind, int fd) {
    if (guard_rules_own(&g->rules, p->rel, kind))
        guard_tell(g, GUARD_MSG_MADE, p->rel, fd);
}

void guard_made_there(struct guard *g, const struct place *p, enum rules_kind kind, bool made) {
    CLEANUP(closep) int fd = -1;

    if (!guard_rules_own(&g->rules, p->rel, kind))
        return;
    if (made)
        fd = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    guard_tell(g, GUARD_MSG_MADE, p->rel, fd);
}
