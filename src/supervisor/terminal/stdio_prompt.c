/* SPDX-License-Identifier: Apache-2.0 */
/* A question of ours over what the command shows, and the screen as it was afterwards. */
#include "supervisor/terminal/stdio_prompt.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "os/clock.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

enum { WIGGLE_MS = 50, USUAL_COLUMNS = 80, PROMPT_BYTES_MAX = 8 * 1024 };

/* Plain letters whatever the command has set: shift in, ASCII, no colours. */
#define PLAIN "\017\033(B\033[0m"

bool stdio_prompt_possible(const struct stdio *s) {
    return s->plan.pty && s->plan.term == STDIO_TERM_RAW && s->tty >= 0 && !s->finishing;
}

/* Behind what waits already, which is whole sequences. */
static bool put_bytes(struct stdio_flow *f, const struct buf *b) {
    if (!f->active || !buf_ok(b) || f->len + b->len > STDIO_FLOW_BUF)
        return false;
    memmove(f->buf, f->buf + f->off, f->len);
    f->off = 0;
    memcpy(f->buf + f->len, b->data, b->len);
    f->len += b->len;
    return true;
}

static size_t columns(const struct stdio *s) {
    struct winsize w;

    return ioctl(s->tty, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : USUAL_COLUMNS;
}

/* A line as wide as the terminal would wrap. */
static const char *fit(const char *line, size_t width) {
    size_t len = strlen(line);

    return len < width ? line : line + (len - width + 1);
}

int stdio_prompt_show(struct stdio *s, const char *screen, const char *line) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PROMPT_BYTES_MAX);
    struct stdio_prompt *p = &s->prompt;

    if (!stdio_prompt_possible(s) || s->suspended || !s->modes.raw_on || !s->screen.active || !s->keys.active ||
        s->screen.len > 0 || !tty_is_foreground(s->tty))
        return -EAGAIN;
    if (p->inside_alt)
        buf_addf(&b, "\0337\033[?6l\033[999;1H" PLAIN "\033[7m\033[2K%s\033[0m\0338", fit(line, columns(s)));
    else
        buf_addf(&b, "\033[?1049h" PLAIN "\033[?6l\033[2J\033[H%s", screen);
    if (!put_bytes(&s->screen, &b))
        return -EAGAIN;
    p->on = true;
    p->line = p->inside_alt;
    p->n_keys = 0;
    p->gone = false;
    s->screen.src_paused = true;
    return 0;
}

/* The size that the program inside sees differs for a moment, so that it draws its last line again. */
static void wiggle(struct stdio *s) {
    struct winsize w;

    if (s->master < 0 || ioctl(s->tty, TIOCGWINSZ, &w) < 0 || w.ws_row < 2)
        return;
    w.ws_row--;
    ioctl(s->master, TIOCSWINSZ, &w);
    s->prompt.wiggle_ms = clock_ms() + WIGGLE_MS;
}

void stdio_prompt_hide(struct stdio *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PROMPT_BYTES_MAX);
    struct stdio_prompt *p = &s->prompt;

    if (!p->on)
        return;
    p->on = false;
    s->screen.src_paused = false;
    buf_adds(&b, p->line ? "\0337\033[?6l\033[999;1H\033[0m\033[2K\0338" : "\033[?1049l");
    put_bytes(&s->screen, &b);
    if (p->line)
        wiggle(s);
}

size_t stdio_prompt_keys(struct stdio *s, uint8_t *out, size_t max, bool *ret_gone) {
    size_t n = MIN_OF(s->prompt.n_keys, max);

    memcpy(out, s->prompt.keys, n);
    s->prompt.n_keys = 0;
    *ret_gone = s->prompt.gone || !s->keys.active;
    return n;
}

void stdio_prompt_read(struct stdio *s) {
    struct stdio_prompt *p = &s->prompt;
    ssize_t n;

    if (!p->on || p->n_keys > 0 || !s->keys.active || !tty_is_foreground(s->tty))
        return;
    n = stdio_flow_read(s->keys.src, s->keys.src_io, p->keys, sizeof p->keys);
    if (n > 0)
        p->n_keys = (size_t)n;
    else if (n != -EAGAIN)
        p->gone = true;
}

/* "ESC [ ? 1049 h", "... l": the filter lets sequences out whole, so one is never cut here. */
static size_t private_mode(struct stdio_prompt *p, const uint8_t *at, size_t n) {
    unsigned number = 0;
    bool alt = false;
    size_t i;

    for (i = 3; i < n; i++) {
        if (at[i] >= '0' && at[i] <= '9') {
            number = number < 100000 ? number * 10 + (at[i] - '0') : number;
            continue;
        }
        alt |= number == 47 || number == 1047 || number == 1049;
        number = 0;
        if (at[i] != ';')
            break;
    }
    if (alt && i < n && (at[i] == 'h' || at[i] == 'l'))
        p->inside_alt = at[i] == 'h';
    return i;
}

void stdio_prompt_saw(struct stdio_prompt *p, const uint8_t *out, size_t n) {
    const uint8_t *end = out + n, *at = out;

    while ((at = memchr(at, '\033', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at);

        if (left >= 2 && at[1] == 'c')
            p->inside_alt = false;
        at += left > 3 && at[1] == '[' && at[2] == '?' ? private_mode(p, at, left) : 1;
        if (at >= end)
            break;
    }
}
