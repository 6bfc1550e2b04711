/* SPDX-License-Identifier: Apache-2.0 */
/* Decides for each stream whether it goes through a pty, through a pipe, or directly. */
#include "supervisor/terminal/stdio_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"

static const char *const stream_names[3] = {"standard input", "standard output", "standard error"};

enum stdio_class stdio_classify(int fd) {
    struct stat st;
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) < 0)
        return STDIO_CLOSED;
    if (S_ISDIR(st.st_mode))
        return STDIO_DIRECTORY;
    if (flags & O_PATH)
        return STDIO_PATH;
    if (S_ISFIFO(st.st_mode))
        return STDIO_PIPE;
    if (S_ISREG(st.st_mode))
        return STDIO_FILE;
    if (S_ISSOCK(st.st_mode))
        return STDIO_SOCKET;
    if (!S_ISCHR(st.st_mode))
        return STDIO_DEVICE;
    if (st.st_rdev == makedev(1, 3))
        return STDIO_NULLDEV;
    return isatty(fd) ? STDIO_TERMINAL : STDIO_DEVICE;
}

bool stdio_same_object(int a, int b) {
    struct stat x, y;

    return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Without options. A socket could carry descriptors in (ATTACKS 26), or be the host's network. */
static const enum stdio_way default_way[] = {
    [STDIO_CLOSED] = STDIO_WAY_NULL,    [STDIO_TERMINAL] = STDIO_WAY_PTY,   [STDIO_PIPE] = STDIO_WAY_DIRECT,
    [STDIO_NULLDEV] = STDIO_WAY_DIRECT, [STDIO_FILE] = STDIO_WAY_RELAY,     [STDIO_SOCKET] = STDIO_WAY_RELAY,
    [STDIO_DEVICE] = STDIO_WAY_RELAY,   [STDIO_DIRECTORY] = STDIO_WAY_NULL, [STDIO_PATH] = STDIO_WAY_NULL,
};
static_assert(ARRAY_LEN(default_way) == STDIO_CLASS_COUNT, "a way for each class");

static enum stdio_way choose_way(enum stdio_class cls, const struct stdio_wish *wish) {
    if (wish->force_tty)
        return STDIO_WAY_PTY;
    if (cls == STDIO_TERMINAL && wish->no_tty)
        return STDIO_WAY_RELAY;
    return default_way[cls];
}

static int choose_screen(const enum stdio_class cls[3], const struct stdio_wish *wish) {
    static const int order[] = {1, 2, 0};

    if (wish->force_tty)
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (cls[order[i]] == STDIO_TERMINAL)
            return order[i];
    return -1;
}

/* `bawn run -- cat | less`: less has the terminal. `bawn run -- fzf > choice`: no other program has it. */
static enum stdio_term choose_term(const enum stdio_class cls[3]) {
    bool in = cls[0] == STDIO_TERMINAL, out = cls[1] == STDIO_TERMINAL, err = cls[2] == STDIO_TERMINAL;
    bool pipeline = cls[1] == STDIO_PIPE || cls[1] == STDIO_SOCKET;

    if (in)
        return out || (err && !pipeline) ? STDIO_TERM_RAW : STDIO_TERM_COOKED;
    return out || err ? STDIO_TERM_OUTPUT : STDIO_TERM_NONE;
}

static int refuse_escapes(const enum stdio_class cls[3], struct err *err) {
    for (int i = 0; i < 3; i++) {
        if (cls[i] == STDIO_DIRECTORY)
            return err_set(err, -EISDIR,
                           "%s is a directory, through which the sandboxed program could open files outside; "
                           "redirect it to a file or a pipe",
                           stream_names[i]);
        if (cls[i] == STDIO_PATH)
            return err_set(err, -EBADF, "%s was opened with O_PATH and cannot be read or written", stream_names[i]);
    }
    return 0;
}

int stdio_plan(const enum stdio_class cls[3], bool same, const struct stdio_wish *wish, struct stdio_plan *ret, struct err *err) {
    struct stdio_plan plan = {.screen = -1};
    int r = refuse_escapes(cls, err);

    if (r < 0)
        return r;
    if (wish->force_tty && wish->no_tty)
        return err_usage(err, "a terminal cannot be both forced and forbidden");
    for (int i = 0; i < 3; i++) {
        plan.way[i] = choose_way(cls[i], wish);
        plan.pty |= plan.way[i] == STDIO_WAY_PTY;
    }
    plan.merged = same && plan.way[1] == STDIO_WAY_RELAY && plan.way[2] == STDIO_WAY_RELAY;
    if (plan.pty) {
        plan.screen = choose_screen(cls, wish);
        plan.term = choose_term(cls);
    }
    *ret = plan;
    return 0;
}
