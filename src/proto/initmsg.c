/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks the start message of bawn-init. */
#include "proto/initmsg.h"

#include <errno.h>

#include "base/buf.h"
#include "proto/cursor.h"

static const char magic[8] = "bawnini3";

struct initmsg_head {
    char magic[8];
    uint32_t flags, umask, seccomp, landlock;
    uint64_t watch_memory, cpu_affinity;
    uint32_t argc, envc, n_rules, n_rlimits, n_hide, n_protect;
};

static void add_string(struct buf *out, const char *s) {
    buf_add(out, s, strlen(s) + 1);
}

static void add_texts(struct buf *out, const struct init_text *texts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t len = (uint32_t)texts[i].len;

        add_string(out, texts[i].dir);
        add_string(out, texts[i].origin);
        buf_add(out, &len, sizeof len);
        buf_add(out, texts[i].data, len);
    }
}

int init_start_encode(const struct init_start *s, struct buf *out) {
    struct initmsg_head h = {.flags = s->flags,
                             .umask = s->umask,
                             .seccomp = s->seccomp,
                             .landlock = s->landlock,
                             .watch_memory = s->watch_memory,
                             .cpu_affinity = s->cpu_affinity,
                             .argc = (uint32_t)s->argc,
                             .envc = (uint32_t)s->envc,
                             .n_rules = (uint32_t)s->n_rules,
                             .n_rlimits = (uint32_t)s->n_rlimits,
                             .n_hide = (uint32_t)s->n_hide,
                             .n_protect = (uint32_t)s->n_protect};

    memcpy(h.magic, magic, sizeof magic);
    buf_add(out, &h, sizeof h);
    for (size_t i = 0; i < s->n_rlimits; i++)
        buf_add(out, &s->rlimits[i], sizeof s->rlimits[i]);
    for (size_t i = 0; i < s->n_rules; i++) {
        uint32_t pair[2] = {s->rules[i].access, s->rules[i].optional};

        buf_add(out, pair, sizeof pair);
    }
    for (size_t i = 0; i < s->n_rules; i++)
        add_string(out, s->rules[i].path);
    add_string(out, s->cwd);
    add_string(out, s->search_path);
    for (size_t i = 0; i < s->argc; i++)
        add_string(out, s->argv[i]);
    for (size_t i = 0; i < s->envc; i++)
        add_string(out, s->envp[i]);
    add_string(out, s->guard_root ? s->guard_root : "");
    add_texts(out, s->hide, s->n_hide);
    add_texts(out, s->protect, s->n_protect);
    return buf_ok(out) ? 0 : -E2BIG;
}

static int take_tables(struct cursor *c, struct init_start *s) {
    s->rlimits = calloc(s->n_rlimits + 1, sizeof *s->rlimits);
    s->rules = calloc(s->n_rules + 1, sizeof *s->rules);
    if (!s->rlimits || !s->rules)
        return -ENOMEM;
    if (cursor_take(c, s->rlimits, s->n_rlimits * sizeof *s->rlimits) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < s->n_rules; i++) {
        uint32_t pair[2];

        if (cursor_take(c, pair, sizeof pair) < 0)
            return -EBADMSG;
        s->rules[i].access = pair[0];
        s->rules[i].optional = pair[1];
    }
    for (size_t i = 0; i < s->n_rules; i++)
        if (!(s->rules[i].path = cursor_string(c)))
            return -EBADMSG;
    return 0;
}

static int take_texts(struct cursor *c, size_t n, struct init_text **ret) {
    struct init_text *texts = *ret = calloc(n + 1, sizeof *texts); /* the caller frees it also on failure */

    for (size_t i = 0; texts && i < n; i++) {
        uint32_t len;

        texts[i].dir = cursor_string(c);
        texts[i].origin = texts[i].dir ? cursor_string(c) : NULL;
        if (!texts[i].origin || cursor_take(c, &len, sizeof len) < 0 || !(texts[i].data = cursor_skip(c, len)))
            return -EBADMSG;
        texts[i].len = len;
    }
    return texts ? 0 : -ENOMEM;
}

static int take_guard(struct cursor *c, struct init_start *s) {
    int r;

    s->guard_root = cursor_string(c);
    r = s->guard_root ? take_texts(c, s->n_hide, &s->hide) : -EBADMSG;
    return r < 0 ? r : take_texts(c, s->n_protect, &s->protect);
}

static int take_body(struct cursor *c, struct init_start *s) {
    int r = take_tables(c, s);

    if (r < 0)
        return r;
    s->cwd = cursor_string(c);
    s->search_path = s->cwd ? cursor_string(c) : NULL;
    s->argv = s->search_path ? cursor_strings(c, s->argc) : NULL;
    s->envp = s->argv ? cursor_strings(c, s->envc) : NULL;
    r = s->envp ? take_guard(c, s) : -EBADMSG;
    return r < 0 || c->left == 0 ? r : -EBADMSG;
}

/* A resident init has no command of its own, and so no terminal; every other one has. */
static bool command_fits(const struct initmsg_head *h) {
    return h->flags & INIT_FLAG_RESIDENT ? h->argc == 0 && !(h->flags & INIT_FLAGS_TTY) : h->argc >= 1;
}

int init_start_decode(char *bytes, size_t len, struct init_start *ret) {
    struct cursor c = {bytes, len};
    struct init_start s = {0};
    struct initmsg_head h;
    int r;

    if (cursor_take(&c, &h, sizeof h) < 0 || memcmp(h.magic, magic, sizeof magic) != 0)
        return -EBADMSG;
    if (!command_fits(&h) || h.argc > INIT_STRINGS_MAX || h.envc > INIT_STRINGS_MAX || h.n_rules > INIT_STRINGS_MAX ||
        h.n_rlimits > 64 || h.n_hide > INIT_TEXTS_MAX || h.n_protect > INIT_TEXTS_MAX)
        return -EBADMSG;
    s = (struct init_start){.flags = h.flags,
                            .umask = h.umask,
                            .seccomp = h.seccomp,
                            .landlock = h.landlock,
                            .watch_memory = h.watch_memory,
                            .cpu_affinity = h.cpu_affinity,
                            .argc = h.argc,
                            .envc = h.envc,
                            .n_rules = h.n_rules,
                            .n_rlimits = h.n_rlimits,
                            .n_hide = h.n_hide,
                            .n_protect = h.n_protect};
    r = take_body(&c, &s);
    if (r < 0) {
        init_start_done(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void init_start_done(struct init_start *s) {
    free(s->argv);
    free(s->envp);
    free(s->rules);
    free(s->rlimits);
    free(s->hide);
    free(s->protect);
    *s = (struct init_start){0};
}
