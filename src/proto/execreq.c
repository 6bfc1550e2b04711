/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks a command for a persistent sandbox. */
#include "proto/execreq.h"

#include <errno.h>
#include <termios.h>

#include "base/buf.h"
#include "proto/cursor.h"

static const char magic[8] = "bawnexe1";

struct execreq_head {
    char magic[8];
    uint64_t timeout_ms;
    uint32_t flags, rows, cols, modes[4], argc, envc;
    uint8_t cc[EXEC_CC];
};
static_assert(sizeof(struct execreq_head) == 72, "no bytes between");
static_assert(EXEC_CC <= NCCS, "room in a struct termios");

static void add_strings(struct buf *out, char *const *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        buf_add(out, v[i], strlen(v[i]) + 1);
}

int exec_request_encode(const struct exec_request *r, struct buf *out) {
    struct execreq_head h = {.timeout_ms = r->timeout_ms,
                             .flags = r->flags,
                             .rows = r->rows,
                             .cols = r->cols,
                             .argc = (uint32_t)r->argc,
                             .envc = (uint32_t)r->envc};
    const char *cwd = r->cwd ? r->cwd : "";

    if (r->argc > EXEC_STRINGS_MAX || r->envc > EXEC_STRINGS_MAX)
        return -E2BIG;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.modes, r->modes, sizeof h.modes);
    memcpy(h.cc, r->cc, sizeof h.cc);
    buf_add(out, &h, sizeof h);
    buf_add(out, cwd, strlen(cwd) + 1);
    add_strings(out, r->argv, r->argc);
    add_strings(out, r->envp, r->envc);
    return buf_ok(out) ? 0 : -E2BIG;
}

/* Each stream has one source, and a stream of a terminal needs the terminal. */
static bool flags_fit(uint32_t flags) {
    uint32_t tty = flags & (EXEC_TTY_STDIN | EXEC_TTY_STDOUT | EXEC_TTY_STDERR), fds = flags & EXEC_FLAGS_FDS;

    static_assert(EXEC_TTY_STDIN << 3 == EXEC_STDIN && EXEC_TTY_STDERR << 3 == EXEC_STDERR, "same order");
    return !(flags & ~(uint32_t)EXEC_FLAGS_ALL) && (!tty || (flags & EXEC_TTY)) && !(tty << 3 & fds);
}

static bool head_fits(const struct execreq_head *h) {
    return memcmp(h->magic, magic, sizeof magic) == 0 && flags_fit(h->flags) && h->rows <= UINT16_MAX && h->cols <= UINT16_MAX &&
           h->argc >= 1 && h->argc <= EXEC_STRINGS_MAX && h->envc <= EXEC_STRINGS_MAX;
}

static bool names_fit(char *const *envp) {
    while (*envp && **envp != 0 && **envp != '=')
        envp++;
    return !*envp;
}

static int take_body(struct cursor *c, struct exec_request *r) {
    r->cwd = cursor_string(c);
    r->argv = r->cwd ? cursor_strings(c, r->argc) : NULL;
    r->envp = r->argv ? cursor_strings(c, r->envc) : NULL;
    if (!r->envp || c->left != 0)
        return -EBADMSG;
    return (r->cwd[0] == 0 || r->cwd[0] == '/') && names_fit(r->envp) ? 0 : -EBADMSG;
}

int exec_request_decode(char *bytes, size_t len, struct exec_request *ret) {
    struct cursor c = {bytes, len};
    struct exec_request r;
    struct execreq_head h;

    if (len > EXEC_REQUEST_MAX || cursor_take(&c, &h, sizeof h) < 0 || !head_fits(&h))
        return -EBADMSG;
    r = (struct exec_request){
        .flags = h.flags, .rows = h.rows, .cols = h.cols, .timeout_ms = h.timeout_ms, .argc = h.argc, .envc = h.envc};
    memcpy(r.modes, h.modes, sizeof r.modes);
    memcpy(r.cc, h.cc, sizeof r.cc);
    if (take_body(&c, &r) < 0) {
        exec_request_done(&r);
        return -EBADMSG;
    }
    *ret = r;
    return 0;
}

void exec_request_done(struct exec_request *r) {
    free(r->argv);
    free(r->envp);
    *r = (struct exec_request){0};
}

void exec_request_modes(struct exec_request *r, const struct termios *t) {
    const uint32_t modes[] = {t->c_iflag, t->c_oflag, t->c_cflag, t->c_lflag};

    static_assert(sizeof modes == sizeof r->modes, "one each");
    memcpy(r->modes, modes, sizeof modes);
    memcpy(r->cc, t->c_cc, sizeof r->cc);
    r->flags |= EXEC_TERMIOS;
}
