/* SPDX-License-Identifier: Apache-2.0 */
/* The moving parts of stdio.h: flows, the terminal's mode, hang-ups. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

enum {
    RUNS_PER_TURN = 16,        /* of one flow, before the others and the caller's signals get their turn */
    HUP_RETRY_MS = 50,         /* no process has the pty open: one may reopen /dev/tty */
    BACKGROUND_CHECK_MS = 250, /* `fg` of a running job sends no signal */
    STUCK_MS = 1000,           /* after the end, how long an impatient user waits for a reader that takes nothing */
    QUIET_MS = 100,            /* after the end, a pipe that is silent this long is held by no process of ours */
    CTRL_D = 4,
};

static size_t filter_screen(void *ctx, const uint8_t *in, size_t n, bool final, uint8_t *out) {
    size_t len = termfilter_feed(ctx, in, n, out);

    return final ? len + termfilter_end(ctx, out + len) : len;
}

/* What the pty prints; the other streams of a terminal do not switch its screens in a way that we follow. */
static size_t filter_pty(void *ctx, const uint8_t *in, size_t n, bool final, uint8_t *out) {
    struct stdio *s = ctx;
    size_t len = filter_screen(&s->filters[s->plan.screen], in, n, final, out);

    stdio_prompt_saw(&s->prompt, out, len);
    return len;
}
static_assert(TERMFILTER_OUT_MAX(STDIO_FLOW_READ) + 3 <= STDIO_FLOW_BUF, "filtered output fits");

static bool is_special(const struct termios *t, uint8_t c) {
    for (size_t i = 0; i < NCCS; i++)
        if (i != VMIN && i != VTIME && t->c_cc[i] != _POSIX_VDISABLE && t->c_cc[i] == c)
            return true;
    return false;
}

/* A line that the real terminal already edited: its bytes are data, so those that mean something inside are quoted. */
static size_t quote_line(const struct termios *t, const uint8_t *in, size_t n, uint8_t *out) {
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (is_special(t, in[i]))
            out[len++] = t->c_cc[VLNEXT];
        out[len++] = in[i];
    }
    return len;
}

/* Bytes for the pty. The end of input becomes VEOF, which is an end only after a newline; else it just sends the line. */
static size_t rewrite_keys(void *ctx, const uint8_t *in, size_t n, bool final, uint8_t *out) {
    struct stdio *s = ctx;
    struct termios t = {0};
    bool canonical = tcgetattr(s->master, &t) == 0 && (t.c_lflag & ICANON), push;
    uint8_t veof = t.c_cc[VEOF] != _POSIX_VDISABLE ? t.c_cc[VEOF] : CTRL_D;
    size_t len;

    if (s->plan.term == STDIO_TERM_COOKED && canonical)
        len = quote_line(&t, in, n, out);
    else
        memcpy(out, in, len = n);
    push = final && s->line_open; /* a terminal never leaves a line open: see below */
    if (n > 0)
        s->line_open = in[n - 1] != '\n';
    if (s->keys.src_tty && canonical && s->plan.term == STDIO_TERM_COOKED && s->line_open && n < STDIO_FLOW_READ) {
        out[len++] = veof;
        s->line_open = false;
    }
    if (push)
        out[len++] = veof;
    if (final)
        out[len++] = veof;
    return len;
}

static enum stdio_io io_of(enum stdio_class cls, int own) {
    if (own >= 0 || cls == STDIO_FILE || cls == STDIO_NULLDEV)
        return STDIO_IO_NONBLOCK;
    return cls == STDIO_SOCKET ? STDIO_IO_SOCKET : STDIO_IO_POLLED;
}

static int host_end(const struct stdio *s, int i) {
    return s->own[i] >= 0 ? s->own[i] : s->host[i];
}

static int open_output(struct stdio *s, struct stdio_flow *f, int i, int src) {
    *f = (struct stdio_flow){.src = src,
                             .dst = host_end(s, i),
                             .dst_io = io_of(s->cls[i], s->own[i]),
                             .rewrite = s->cls[i] == STDIO_TERMINAL ? filter_screen : NULL,
                             .rewrite_ctx = &s->filters[i]};
    return stdio_flow_open(f);
}

int stdio_open_relays(struct stdio *s) {
    int r = 0;

    if (s->plan.way[0] == STDIO_WAY_RELAY) {
        s->in = (struct stdio_flow){.src = host_end(s, 0), .src_io = io_of(s->cls[0], s->own[0]), .dst = s->ours[0]};
        r = stdio_flow_open(&s->in);
    }
    if (r == 0 && s->ours[1] >= 0)
        r = open_output(s, &s->out, 1, s->ours[1]);
    if (r == 0 && s->ours[2] >= 0)
        r = open_output(s, &s->err, 2, s->ours[2]);
    return r;
}

static int open_keys(struct stdio *s, int src, enum stdio_io io, bool tty) {
    s->keys = (struct stdio_flow){
        .src = src, .src_io = io, .src_tty = tty, .dst = s->master, .rewrite = rewrite_keys, .rewrite_ctx = s};
    return stdio_flow_open(&s->keys);
}

int stdio_open_pty_flows(struct stdio *s) {
    int r = open_output(s, &s->screen, s->plan.screen, s->master);

    if (s->screen.rewrite) {
        s->screen.rewrite = filter_pty;
        s->screen.rewrite_ctx = s;
    }
    if (s->own_screen >= 0) {
        s->screen.dst = s->own_screen;
        s->screen.dst_io = STDIO_IO_NONBLOCK;
    }
    if (r == 0 && s->plan.way[0] == STDIO_WAY_PTY && s->cls[0] != STDIO_CLOSED)
        r = open_keys(s, host_end(s, 0), io_of(s->cls[0], s->own[0]), s->cls[0] == STDIO_TERMINAL);
    return r;
}

/* A reader or a terminal that goes away is no failure. */
static void note_lost(struct stdio *s, const struct stdio_flow *f, int i) {
    if (f->failed && (s->cls[i] == STDIO_FILE || s->cls[i] == STDIO_DEVICE))
        s->lost[i] = f->failed;
}

static void end_stream(struct stdio *s, struct stdio_flow *f, int i) {
    note_lost(s, f, i);
    stdio_flow_close(f);
    closep(&s->ours[i]); /* the next write inside gets SIGPIPE, as it would without us */
}

static void end_pty(struct stdio *s) {
    if (s->plan.screen > 0)
        note_lost(s, &s->screen, s->plan.screen);
    stdio_flow_close(&s->keys);
    stdio_flow_close(&s->screen);
    closep(&s->master); /* SIGHUP inside, as when a terminal is closed */
}

void stdio_close_relays(struct stdio *s) {
    end_stream(s, &s->in, 0);
    end_stream(s, &s->out, 1);
    end_stream(s, &s->err, 2);
    end_pty(s);
}

/* Terminal mode --------------------------------------------------------------------------------------------- */

static bool inner_is_raw(const struct stdio *s) {
    struct termios t;

    return s->master >= 0 && tcgetattr(s->master, &t) == 0 && !(t.c_lflag & ICANON);
}

/* The command reads keys although its stdin is none of them: `git log | bawn run -- less`. */
static void open_dev_tty(struct stdio *s) {
    if (s->dev_tty >= 0 || s->keys.active || s->finishing)
        return;
    s->dev_tty = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (s->dev_tty >= 0 && open_keys(s, s->dev_tty, STDIO_IO_NONBLOCK, true) == 0)
        return;
    closep(&s->dev_tty);
}

static void set_raw(struct stdio *s, bool on) {
    struct termios now, raw = tty_raw(&s->modes.user, s->plan.term != STDIO_TERM_RAW);

    if (!s->modes.have_user || on == s->modes.raw_on)
        return;
    /* The user may have used stty while we were stopped; but after a bare SIGSTOP the terminal can still be as we set it. */
    if (on && tcgetattr(s->tty, &now) == 0 && (now.c_lflag != raw.c_lflag || now.c_iflag != raw.c_iflag))
        s->modes.user = now;
    raw = tty_raw(&s->modes.user, s->plan.term != STDIO_TERM_RAW);
    if (tty_set(s->tty, on ? &raw : &s->modes.user) == 0)
        s->modes.raw_on = on;
}

/* Brings the real terminal to the mode that the command wants and our place in the foreground allows. */
static void follow_terminal(struct stdio *s) {
    bool want, foreground;

    if (s->in.active && s->cls[0] == STDIO_TERMINAL)
        s->in.src_paused = !tty_is_foreground(s->host[0]);
    if (!s->started || s->suspended || s->tty < 0 || s->master < 0)
        return;
    foreground = tty_is_foreground(s->tty);
    want = s->plan.term == STDIO_TERM_RAW || (s->plan.term != STDIO_TERM_NONE && inner_is_raw(s));
    if (want && foreground && s->plan.term == STDIO_TERM_OUTPUT)
        open_dev_tty(s);
    if (!foreground)
        s->modes.raw_on = false; /* the program that took the terminal has set it; it is set again when it is ours */
    else
        set_raw(s, want);
    if (s->keys.active && s->keys.src_tty)
        s->keys.src_paused = !foreground || (s->plan.term == STDIO_TERM_OUTPUT && !want) || s->prompt.on;
}

void stdio_start(struct stdio *s) {
    s->started = true;
    stdio_resize(s);
    follow_terminal(s);
}

void stdio_resize(struct stdio *s) {
    if (s->tty >= 0 && s->master >= 0)
        tty_copy_size(s->tty, s->master);
}

void stdio_suspend(struct stdio *s) {
    if (s->prompt.on) {
        stdio_prompt_hide(s);
        stdio_flow_run(&s->screen); /* what hides it must be out before the shell writes */
    }
    if (s->modes.raw_on)
        set_raw(s, false);
    s->suspended = true;
}

void stdio_resume(struct stdio *s) {
    s->suspended = false;
    s->modes.raw_on = false;
    stdio_resize(s);
    follow_terminal(s);
}

/* Turning ----------------------------------------------------------------------------------------------------- */

size_t stdio_poll_fds(struct stdio *s, struct pollfd *out) {
    const struct stdio_flow *flows[] = {&s->in, &s->keys, &s->out, &s->err, &s->screen};
    size_t n = 0;

    static_assert(ARRAY_LEN(flows) < STDIO_POLL_MAX, "one entry per flow, and one for a question's keys");
    follow_terminal(s);
    if (s->hup_until && clock_ms() >= s->hup_until) {
        s->hup_until = 0;
        s->screen.src_paused = s->prompt.on;
    }
    if (s->prompt.wiggle_ms && clock_ms() >= s->prompt.wiggle_ms) {
        s->prompt.wiggle_ms = 0;
        stdio_resize(s);
    }
    for (size_t i = 0; i < ARRAY_LEN(flows); i++)
        n += stdio_flow_poll(flows[i], out + n);
    if (s->prompt.on && s->keys.active && tty_is_foreground(s->tty))
        out[n++] = (struct pollfd){.fd = s->keys.src, .events = POLLIN};
    return n;
}

int stdio_timeout_ms(const struct stdio *s) {
    if (s->finishing)
        return stdio_drained(s) ? 0 : QUIET_MS;
    if (s->hup_until || s->prompt.wiggle_ms)
        return HUP_RETRY_MS;
    if (s->plan.term == STDIO_TERM_OUTPUT)
        return -1;
    return s->keys.src_paused || s->in.src_paused ? BACKGROUND_CHECK_MS : -1;
}

static int run_flow(struct stdio *s, struct stdio_flow *f) {
    uint64_t before = f->bytes;
    size_t waiting = f->len;
    int r = 1;

    if (!f->active)
        return 0;
    for (int i = 0; i < RUNS_PER_TURN && r > 0; i++)
        r = stdio_flow_run(f);
    if (f->bytes != before || f->len != waiting)
        s->last_moved = clock_ms();
    return r;
}

static void run_screen(struct stdio *s) {
    int r = run_flow(s, &s->screen);

    if (r == -EIO && !s->finishing) {
        s->screen.src_paused = true;
        s->hup_until = clock_ms() + HUP_RETRY_MS;
    } else if (r < 0) {
        end_pty(s);
    }
}

/* A process that is not ours to kill may hold a pipe open for ever; it is not waited for. */
static void give_up_quiet(struct stdio *s) {
    uint64_t quiet = s->finishing ? clock_ms() - s->last_moved : 0;
    bool stuck = s->impatient && quiet >= STUCK_MS;

    if (quiet < QUIET_MS)
        return;
    if (s->out.len == 0 || stuck)
        end_stream(s, &s->out, 1);
    if (s->err.len == 0 || stuck)
        end_stream(s, &s->err, 2);
    if (s->screen.len == 0 || stuck)
        end_pty(s);
}

void stdio_handle(struct stdio *s, const struct pollfd *fds, size_t n) {
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any |= fds[i].revents != 0;
    if (any)
        stdio_prompt_read(s);
    if (any || s->finishing) {
        if (run_flow(s, &s->in) < 0)
            end_stream(s, &s->in, 0);
        if (run_flow(s, &s->keys) < 0)
            stdio_flow_close(&s->keys);
        if (run_flow(s, &s->out) < 0)
            end_stream(s, &s->out, 1);
        if (run_flow(s, &s->err) < 0)
            end_stream(s, &s->err, 2);
        run_screen(s);
    }
    give_up_quiet(s);
}

void stdio_finish(struct stdio *s) {
    stdio_prompt_hide(s);
    end_stream(s, &s->in, 0);
    stdio_flow_close(&s->keys);
    s->screen.src_paused = false;
    s->hup_until = 0;
    s->finishing = true;
    s->last_moved = clock_ms();
}

int stdio_status(const struct stdio *s, int status) {
    static const char *const names[3] = {[1] = "standard output", [2] = "standard error"};

    for (int i = 1; i < 3; i++)
        if (s->lost[i])
            log_line("the %s cannot be written: %s; what the command printed is not all there", names[i], strerror(-s->lost[i]));
    return s->lost[1] && status == 0 ? EXIT_SANDBOX : status;
}

bool stdio_drained(const struct stdio *s) {
    return !s->out.active && !s->err.active && !s->screen.active;
}

int stdio_drain(struct stdio *s, int wake_fd) {
    struct pollfd fds[STDIO_POLL_MAX + 1];

    while (!stdio_drained(s)) {
        size_t n = stdio_poll_fds(s, fds);

        fds[n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
        if (poll(fds, n + 1, stdio_timeout_ms(s)) < 0 && errno != EINTR)
            return 0;
        stdio_handle(s, fds, n);
        if (wake_fd >= 0 && fds[n].revents)
            return 1;
    }
    return 0;
}
