/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached to a job in the background. Nothing here may block for long: keys that detach must work whatever the job, the
 * keeper and our own reader do. So the socket is non-blocking, what was typed waits in a buffer, and output is taken only
 * when the last was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "proto/execmsg.h"
#include "proto/termfilter.h"
#include "supervisor/keep/exec_client_priv.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/terminal/stdio_prompt.h"
#include "supervisor/terminal/tty.h"

enum { TYPED_MAX = 64 * 1024, READ_MAX = 4096, CTRL_D = 4, SHOWN_MAX = TERMFILTER_OUT_MAX(EXEC_OUTPUT_MAX) + 64 };
enum { QUIET_MS = 500, LEAVE_MS = 10000 }; /* after the end of our input */

struct attached {
    const struct attach_options *opt;
    const char *keys;
    int sock, signals, tty; /* tty: our terminal, 0 or 1; -1: none */
    bool job_tty, raw_on, started, ended, detached, in_ended;
    struct termios user;
    size_t matched; /* of the detach keys */
    struct buf body, typed;
    bool end_of_input; /* to be sent after what was typed */
    uint64_t leave_ms; /* our input has ended and a pty has no end of input: when we leave at the latest; 0: not */
    struct termfilter filters[2];
    bool screen[2]; /* 1 and 2 are terminals */
    uint8_t shown[SHOWN_MAX];
    size_t off, len;          /* of shown, still to be written */
    int to;                   /* where: 1 or 2 */
    struct stdio_prompt seen; /* whether the job has switched to the alternate screen */
    struct exec_result *result;
    struct err *err;
};

/* -- our terminal -------------------------------------------------------------------------------------------------------- */

/* Without a pty inside, our own terminal echoes and makes signals; only lines are not held back. */
static void set_raw(struct attached *a, bool on) {
    struct termios t = a->user;

    if (a->tty != STDIN_FILENO || a->opt->read_only || on == a->raw_on)
        return;
    if (on && a->job_tty) {
        t = tty_raw(&a->user, false);
    } else if (on) {
        t.c_lflag &= ~(tcflag_t)ICANON;
        t.c_iflag &= ~(tcflag_t)IXON;
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
    }
    if (tty_set(a->tty, &t) == 0)
        a->raw_on = on;
}

static void send_size(struct attached *a) {
    struct exec_msg m = {.type = EXEC_MSG_SIZE};
    struct winsize size;

    if (a->opt->read_only || !a->job_tty || a->tty < 0 || ioctl(a->tty, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
        return;
    m.value = size.ws_row;
    m.extra = size.ws_col;
    execmsg_send(a->sock, &m, NULL, NULL, 0);
}

static void resume_terminal(struct attached *a) {
    struct termios now;

    if (a->tty >= 0 && tcgetattr(a->tty, &now) == 0 && (now.c_lflag & ICANON))
        a->user = now; /* the user may have changed it while we were stopped */
    a->raw_on = false;
    set_raw(a, true);
    send_size(a);
}

static void suspend_terminal(struct attached *a, int sig) {
    set_raw(a, false);
    tty_stop_job(sig);
    resume_terminal(a);
}

static void on_signal(struct attached *a) {
    struct signalfd_siginfo info;

    while (sigfd_next(a->signals, &info))
        switch (info.ssi_signo) {
        case SIGWINCH:
            send_size(a);
            break;
        case SIGTSTP:
            suspend_terminal(a, SIGTSTP);
            break;
        case SIGCONT:
            resume_terminal(a);
            break;
        case SIGTERM:
        case SIGHUP:
            a->detached = true;
            break;
        case SIGINT:
        case SIGQUIT:
            if (a->opt->read_only)
                a->detached = true;
            else
                exec_send_signal(a->sock, (int)info.ssi_signo, true);
            break;
        default:
            break;
        }
}

/* -- what is typed ------------------------------------------------------------------------------------------------------- */

/* Keys of a sequence that was begun and not ended are the job's after all. */
static void type_key(struct attached *a, char c) {
    size_t n = strlen(a->keys);

    if (n && c == a->keys[a->matched]) {
        if (++a->matched == n)
            a->detached = true;
        return;
    }
    buf_add(&a->typed, a->keys, a->matched);
    a->matched = n && c == a->keys[0] ? 1 : 0;
    if (a->matched)
        return;
    if (a->tty == STDIN_FILENO && !a->job_tty && c == CTRL_D)
        a->end_of_input = a->in_ended = true;
    else
        buf_addc(&a->typed, c);
}

static void on_input(struct attached *a) {
    char part[READ_MAX];
    ssize_t n = fd_read_some(STDIN_FILENO, part, sizeof part);

    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        a->in_ended = a->end_of_input = true;
        a->leave_ms = a->job_tty ? clock_ms() + LEAVE_MS : 0;
        a->detached |= a->tty == STDIN_FILENO && a->job_tty; /* our terminal is gone */
        return;
    }
    for (ssize_t i = 0; i < n && !a->detached && !a->in_ended; i++)
        if (a->tty == STDIN_FILENO)
            type_key(a, part[i]);
        else
            buf_addc(&a->typed, part[i]);
}

static bool wants_input(const struct attached *a) {
    return a->started && !a->in_ended && a->typed.len + READ_MAX + EXEC_KEYS_MAX <= TYPED_MAX &&
           (a->tty != STDIN_FILENO || tty_is_foreground(STDIN_FILENO));
}

static int send_typed(struct attached *a) {
    struct exec_msg m = {.type = EXEC_MSG_INPUT};
    int r = 0;

    while (r == 0 && a->typed.len) {
        m.len = (uint32_t)MIN_OF(a->typed.len, (size_t)EXEC_OUTPUT_MAX);
        r = execmsg_send(a->sock, &m, a->typed.data, NULL, 0);
        if (r == 0) {
            memmove(a->typed.data, a->typed.data + m.len, a->typed.len - m.len);
            a->typed.len -= m.len;
        }
    }
    if (r == 0 && a->end_of_input) {
        m.len = 0;
        r = execmsg_send(a->sock, &m, NULL, NULL, 0);
        a->end_of_input = r != 0;
    }
    return r == -EAGAIN || r == -EPIPE ? 0 : r; /* a keeper that is gone is seen by reading */
}

/* -- what is shown ------------------------------------------------------------------------------------------------------- */

static void show_output(struct attached *a, int stream) {
    size_t n = MIN_OF(a->body.len, (size_t)EXEC_OUTPUT_MAX);
    int i = stream == 2;

    a->to = i + 1;
    a->off = 0;
    if (a->screen[i]) {
        a->len = termfilter_feed(&a->filters[i], (const uint8_t *)a->body.data, n, a->shown);
        stdio_prompt_saw(&a->seen, a->shown, a->len);
    } else {
        memcpy(a->shown, a->body.data, n);
        a->len = n;
    }
}

static void write_shown(struct attached *a) {
    ssize_t n = write(a->to, a->shown + a->off, MIN_OF(a->len, (size_t)PIPE_BUF));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) {
        a->detached = true; /* our reader is gone */
        return;
    }
    a->off += (size_t)n;
    a->len -= (size_t)n;
}

/* A full-screen program inside does not know that we leave. */
static void clear_screen(struct attached *a) {
    static const char leave[] = "\033[?1049l",
                      usual[] = "\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?2004l\033[?25h\033[m\r\n";

    if (!a->screen[0] || !a->detached || !tty_is_foreground(STDOUT_FILENO))
        return;
    if (a->seen.inside_alt)
        fd_write_all(STDOUT_FILENO, leave, sizeof leave - 1);
    fd_write_all(STDOUT_FILENO, usual, sizeof usual - 1);
}

/* -- the conversation ---------------------------------------------------------------------------------------------------- */

static int on_message(struct attached *a) {
    struct exec_msg m;
    int r = exec_recv(a->sock, &m, &a->body, NULL, a->err);

    if (r == 0 && !a->started)
        return exec_gone(a->opt->sandbox, a->err);
    if (r <= 0) {
        exec_lost(a->result);
        a->ended = true;
        return r;
    }
    switch (m.type) {
    case EXEC_MSG_STARTED:
        a->started = true;
        a->result->job = m.value;
        set_raw(a, true);
        send_size(a);
        return 0;
    case EXEC_MSG_OUTPUT:
        if (a->body.len)
            show_output(a, m.value);
        return 0;
    case EXEC_MSG_STOPPED:
        if (a->opt->read_only)
            return 0;
        suspend_terminal(a, m.value);
        exec_send_signal(a->sock, SIGCONT, true);
        return 0;
    case EXEC_MSG_EXITED:
        exec_exited(&m, a->result);
        a->ended = true;
        return 0;
    case EXEC_MSG_FAILED:
        return exec_failed(&m, &a->body, a->err);
    default:
        return exec_unexpected(&m, a->err);
    }
}

/* The answer to what was piped in is still shown: we leave when nothing comes for a moment. */
static int leave_in_ms(const struct attached *a) {
    uint64_t now = clock_ms();

    if (!a->leave_ms || a->typed.len || a->end_of_input)
        return -1;
    return now >= a->leave_ms ? 0 : (int)MIN_OF(a->leave_ms - now, (uint64_t)QUIET_MS);
}

static int attach_turn(struct attached *a) {
    struct pollfd fds[] = {
        {.fd = a->len ? -1 : a->sock, .events = POLLIN},
        {.fd = a->signals, .events = POLLIN},
        {.fd = !a->opt->read_only && wants_input(a) ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = a->len ? a->to : -1, .events = POLLOUT},
        {.fd = a->typed.len || a->end_of_input ? a->sock : -1, .events = POLLOUT},
    };
    enum { BACKGROUND_CHECK_MS = 250 }; /* `fg` of a running job sends no signal */
    int leave = leave_in_ms(a), r = 0;
    int wait = a->tty == STDIN_FILENO && !tty_is_foreground(STDIN_FILENO) ? BACKGROUND_CHECK_MS : leave;
    int n = poll(fds, ARRAY_LEN(fds), wait);

    if (n < 0 && errno != EINTR)
        return err_sys(a->err, -errno, "poll");
    a->detached |= leave == 0 || (leave > 0 && n == 0);
    if (fds[1].revents)
        on_signal(a);
    if (fds[2].revents)
        on_input(a);
    if (fds[3].revents)
        write_shown(a);
    if (fds[0].revents)
        r = on_message(a);
    if (r == 0 && a->started && !a->ended && (a->typed.len || a->end_of_input))
        r = send_typed(a);
    return r < 0 && !a->err->msg[0] ? err_sys(a->err, r, "speak to the sandbox's supervisor") : r;
}

static int begin_attach(struct attached *a) {
    struct exec_msg m = {
        .type = EXEC_MSG_ATTACH, .value = a->opt->job, .extra = (int32_t)MIN_OF(a->opt->history, (size_t)INT32_MAX)};
    struct exec_request r;
    int e;

    if (a->opt->start) {
        r = *a->opt->start;
        r.flags |= EXEC_BACKGROUND;
        if (r.flags & EXEC_TTY)
            exec_request_terminal(&r, a->tty, a->tty >= 0 ? &a->user : NULL);
        e = exec_send_request(a->sock, &r, NULL, 0, a->err);
    } else {
        e = exec_not_sent(execmsg_send(a->sock, &m, NULL, NULL, 0), a->err);
    }
    if (e == 0 && fcntl(a->sock, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        e = err_sys(a->err, -errno, "the sandbox's socket");
    return e;
}

static void look_at_streams(struct attached *a) {
    for (int i = 0; i < 2; i++) {
        a->screen[i] = isatty(i + 1);
        termfilter_init(&a->filters[i]);
    }
    a->tty = tcgetattr(STDIN_FILENO, &a->user) == 0 ? STDIN_FILENO : tcgetattr(STDOUT_FILENO, &a->user) == 0 ? STDOUT_FILENO : -1;
}

int exec_attach(int sock, const struct attach_options *opt, struct exec_result *ret, bool *ret_detached, struct err *err) {
    static const char usual_keys[] = {'P' - '@', 'Q' - '@', 0};
    struct attached a = {.opt = opt,
                         .keys = opt->detach_keys ? opt->detach_keys : usual_keys,
                         .job_tty = opt->start ? (opt->start->flags & EXEC_TTY) != 0 : opt->tty,
                         .sock = sock,
                         .signals = -1,
                         .body = BUF_INIT(EXEC_OUTPUT_MAX),
                         .typed = BUF_INIT(TYPED_MAX),
                         .result = ret,
                         .err = err};
    uint64_t begun = clock_us();
    sigset_t old;
    int r;

    *ret = (struct exec_result){0};
    look_at_streams(&a);
    r = loop_signals(&old, &a.signals, err);
    r = r < 0 ? r : begin_attach(&a);
    while (r == 0 && !a.detached && (!a.ended || a.len))
        r = attach_turn(&a);
    clear_screen(&a);
    set_raw(&a, false);
    ret->duration_us = clock_us() - begun;
    *ret_detached = a.detached;
    buf_done(&a.body);
    buf_done(&a.typed);
    closep(&a.signals);
    return r;
}

/* -- keys ---------------------------------------------------------------------------------------------------------------- */

/* One key; returns how many characters it took, 0: it is none. */
static size_t one_key(const char *s, char *ret) {
    size_t n = strcspn(s, ",");

    if (n == 1 && (unsigned char)s[0] > ' ' && (unsigned char)s[0] < 0x7f)
        *ret = s[0];
    else if (n == 6 && strncmp(s, "ctrl-", 5) == 0 && ((s[5] >= 'a' && s[5] <= 'z') || strchr("@[\\]^_", s[5])))
        *ret = (char)((s[5] >= 'a' ? s[5] - 'a' + 'A' : s[5]) - '@');
    else
        return 0;
    return *ret ? n : 0; /* ctrl-@ is NUL, the end of our string */
}

int exec_detach_keys(const char *text, char ret[static EXEC_KEYS_MAX + 1], struct err *err) {
    char keys[EXEC_KEYS_MAX + 1] = "";
    size_t n = 0, len;

    for (const char *p = text; *p; p += len) {
        if (n == EXEC_KEYS_MAX)
            return err_usage(err, "--detach-keys takes at most %d keys", EXEC_KEYS_MAX);
        len = one_key(p, &keys[n]);
        if (len == 0 || (p[len] == ',' && !p[len + 1]))
            return err_usage(err, "--detach-keys takes keys such as ctrl-p,ctrl-q or ctrl-], not '%.60s'", text);
        n++;
        len += p[len] == ',';
    }
    memcpy(ret, keys, sizeof keys);
    return 0;
}
