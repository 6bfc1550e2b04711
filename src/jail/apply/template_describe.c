/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as bytes: the size of the root, then steps one after another, each with its strings. */
#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply/template_priv.h"

struct template_head {
    uint64_t private_size;
    uint32_t n_steps, unused;
};

struct template_record {
    uint16_t kind, optional;
    uint32_t mode, to, from; /* lengths; from: NO_STRING if there is none */
};
#define NO_STRING UINT32_MAX

static bool is_below(const char *dir, const char *path) {
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Private areas come one after another (plan_root.c), so that this need not look at all steps for each of them. */
bool template_leaves(const struct plan *p, const char *path) {
    size_t i = 0;

    while (i < p->n_steps && p->steps[i].kind != STEP_PRIVATE)
        i++;
    for (; i < p->n_steps && p->steps[i].kind == STEP_PRIVATE; i++)
        if (is_below(p->steps[i].to, path))
            return true;
    return false;
}

static bool is_made_before(enum step_kind kind) {
    return kind == STEP_DIR || kind == STEP_SYMLINK || kind == STEP_FILE || kind == STEP_RO;
}

bool template_holds(const struct plan *p, const struct step *s) {
    return s->kind == STEP_DEVICE || (is_made_before(s->kind) && !template_leaves(p, s->to));
}

/* An overlay needs a place for its layers, a persistent home is checked step by step, and what is `ours` differs from run to run. */
static bool can_have(const struct plan *p) {
    size_t groups = 0;

    if (p->ids.by_root || p->rung != RUNG_FULL || p->mode == WORKSPACE_OVERLAY || p->home_persistent)
        return false;
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind == STEP_COPY || p->steps[i].ours || p->steps[i].at_home)
            return false;
        groups += p->steps[i].kind == STEP_PRIVATE && (i == 0 || p->steps[i - 1].kind != STEP_PRIVATE);
    }
    return groups == 1;
}

static void add_step(struct buf *out, const struct step *s, uint32_t *n) {
    struct template_record r = {.kind = (uint16_t)s->kind,
                                .optional = s->optional,
                                .mode = s->mode,
                                .to = (uint32_t)strlen(s->to),
                                .from = s->from ? (uint32_t)strlen(s->from) : NO_STRING};

    buf_add(out, &r, sizeof r);
    buf_add(out, s->to, r.to + 1);
    if (s->from)
        buf_add(out, s->from, r.from + 1);
    ++*n;
}

/* Places for what is mounted later, in the form of the steps that make them. */
static void add_point(struct buf *out, const struct plan *p, const struct step *s, uint32_t *n) {
    struct step point = {.kind = STEP_DIR, .to = s->to};
    struct stat st;

    if (s->kind != STEP_PRIVATE && s->kind != STEP_WORKSPACE && s->kind != STEP_EXTRA)
        return;
    if (template_leaves(p, s->to))
        return;
    if (s->kind == STEP_EXTRA && stat(s->from, &st) == 0 && !S_ISDIR(st.st_mode)) {
        point.kind = STEP_FILE;
        point.from = "";
        point.mode = 0444;
    }
    add_step(out, &point, n);
}

void template_describe(const struct plan *p, struct buf *out) {
    struct template_head head = {.private_size = p->private_size};

    if (!can_have(p))
        return;
    buf_add(out, &head, sizeof head);
    for (size_t i = 0; i < p->n_steps; i++)
        add_point(out, p, &p->steps[i], &head.n_steps);
    for (size_t i = 0; i < p->n_steps; i++)
        if (template_holds(p, &p->steps[i]))
            add_step(out, &p->steps[i], &head.n_steps);
    if (buf_ok(out) && out->len <= TEMPLATE_MAX && head.n_steps <= TEMPLATE_STEPS_MAX)
        memcpy(out->data, &head, sizeof head);
    else
        buf_clear(out);
}

struct template_reader {
    const char *at;
    size_t left;
};

static int take_bytes(struct template_reader *in, void *to, size_t len) {
    if (in->left < len)
        return -EBADMSG;
    memcpy(to, in->at, len);
    in->at += len;
    in->left -= len;
    return 0;
}

static int take_string(struct template_reader *in, uint32_t len, const char **ret) {
    const char *s = in->at;

    if (len == NO_STRING) {
        *ret = NULL;
        return 0;
    }
    if (len >= in->left || s[len] != 0 || memchr(s, 0, len))
        return -EBADMSG;
    in->at += len + 1;
    in->left -= len + 1;
    *ret = s;
    return 0;
}

/* The strings stay where they are. */
static int take_step(struct template_reader *in, struct step *ret) {
    struct template_record r;
    struct step s;
    int failed = take_bytes(in, &r, sizeof r);

    if (failed)
        return failed;
    s = (struct step){.kind = r.kind, .optional = r.optional != 0, .mode = r.mode & 07777};
    if (take_string(in, r.to, &s.to) < 0 || take_string(in, r.from, &s.from) < 0)
        return -EBADMSG;
    if ((!is_made_before(s.kind) && s.kind != STEP_DEVICE) || !s.to || s.to[0] != '/' || (!s.from && s.kind != STEP_DIR))
        return -EBADMSG;
    *ret = s;
    return 0;
}

int template_read(const char *bytes, size_t len, struct plan *ret, struct err *err) {
    struct template_reader in = {bytes, len};
    struct plan p = {.rung = RUNG_FULL};
    struct template_head head;
    int r = len > TEMPLATE_MAX ? -EBADMSG : take_bytes(&in, &head, sizeof head);

    if (r == 0 && head.n_steps > TEMPLATE_STEPS_MAX)
        r = -EBADMSG;
    for (uint32_t i = 0; r == 0 && i < head.n_steps; i++) {
        struct step s;

        r = take_step(&in, &s);
        r = r < 0 ? r : plan_add(&p, s, err);
    }
    if (r < 0 || in.left) {
        plan_done(&p);
        return err_set(err, r < 0 ? r : -EBADMSG, "what a template is made of is not understood");
    }
    p.private_size = head.private_size;
    *ret = p;
    return 0;
}

int template_each_source(const char *bytes, size_t len, int (*fn)(void *arg, const char *path), void *arg) {
    CLEANUP(plan_done) struct plan p = {0};
    int r = template_read(bytes, len, &p, NULL);

    for (size_t i = 0; r == 0 && i < p.n_steps; i++)
        if (p.steps[i].kind == STEP_RO) /* devices are the kernel's own, and what comes and goes beside them does not matter */
            r = fn(arg, p.steps[i].from);
    return r;
}
