/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool is told to make a template of. Must hold: whatever is accepted is steps that a template may have, and all of its strings are
 * within the bytes. */
#include "base/err.h"
#include "jail/apply/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bounds {
    const char *from, *to;
};

static void expect_inside(const struct bounds *b, const char *s) {
    if (s < b->from || s >= b->to || s + strlen(s) >= b->to)
        BUG("a string outside of the message");
}

static int look(void *arg, const char *path) {
    expect_inside(arg, path);
    return 0;
}

static void expect_sense(const struct plan *p, const struct bounds *b) {
    if (p->n_steps > TEMPLATE_STEPS_MAX)
        BUG("too many steps");
    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];

        expect_inside(b, s->to);
        if (s->from)
            expect_inside(b, s->from);
        if (s->to[0] != '/' || s->writable || s->at_home || s->ours || (s->mode & ~07777u) || !template_holds(p, s))
            BUG("a step that no template has");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err = {0};
    struct plan p;
    char *bytes = malloc(size ? size : 1); /* of exactly that size */
    struct bounds b = {bytes, bytes + size};

    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (template_read(bytes, size, &p, &err) == 0) {
        expect_sense(&p, &b);
        if (template_each_source(bytes, size, look, &b) < 0)
            BUG("not read a second time");
        plan_done(&p);
    } else if (err.msg[0] == 0) {
        BUG("a failure without a message");
    }
    free(bytes);
    return 0;
}
