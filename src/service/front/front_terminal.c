/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal in a WebSocket: between the client's frames and the pty that the keeper of a sandbox gave (spec/exec-socket.md). Each side is only read
 * while there is room for its bytes on the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"
#include "proto/execmsg.h"
#include "service/front/front.h"
#include "service/front/websocket.h"

enum { PENDING_MAX = 64 * 1024, TEXT_MAX = 256, CLOSE_MS = 5000, SIZE_MAX_CELLS = 1000 };

struct front_terminal {
    struct front_server *front;
    struct front_terminal *next;
    struct MHD_UpgradeResponseHandle *handle;
    int ws, exec, pty;
    struct front_watch ws_watch, exec_watch, pty_watch;
    struct websocket in;
    struct buf out, input;
    size_t out_at, input_at;
    bool had_pty, exited, closing; /* closing: our last frame is in out */
    bool heard_close;
    bool over; /* to be freed at the end of this turn */
    int status;
    uint64_t ping_ms, heard_ms, close_ms;
};

static size_t out_left(const struct front_terminal *t) {
    return t->out.len - t->out_at;
}

static void close_watched(struct front_terminal *t, struct front_watch *w, int *fd) {
    front_watch_stop(&t->front->loop, w);
    if (*fd >= 0)
        close(TAKE_FD(*fd));
}

static void terminal_end(struct front_terminal *t) {
    t->over = true;
    front_watch_stop(&t->front->loop, &t->ws_watch);
    close_watched(t, &t->exec_watch, &t->exec);
    close_watched(t, &t->pty_watch, &t->pty);
}

static void terminal_close(struct front_terminal *t, unsigned code, const char *reason) {
    if (t->closing)
        return;
    if (t->exited) {
        char text[32];

        snprintf(text, sizeof text, "{\"exit\":%d}", t->status);
        websocket_add(&t->out, WEBSOCKET_TEXT, text, strlen(text));
    }
    websocket_add_close(&t->out, code, reason);
    t->closing = true;
    t->close_ms = clock_ms() + CLOSE_MS;
    close_watched(t, &t->exec_watch, &t->exec);
    close_watched(t, &t->pty_watch, &t->pty);
}

static void on_ws(void *arg, uint32_t events);
static void on_exec(void *arg, uint32_t events);
static void on_pty(void *arg, uint32_t events);

static void watch_for(struct front_terminal *t, struct front_watch *w, int fd, uint32_t events, front_watch_fn *fn) {
    front_watch_stop(&t->front->loop, w);
    if (fd >= 0 && events && front_watch_start(&t->front->loop, w, fd, events, fn, t) < 0)
        terminal_end(t);
}

static void terminal_watch(struct front_terminal *t) {
    bool room_out = out_left(t) < PENDING_MAX, room_in = t->input.len - t->input_at < PENDING_MAX;

    if (t->over)
        return;
    if (!buf_ok(&t->out) || !buf_ok(&t->input)) {
        terminal_end(t);
        return;
    }
    watch_for(t, &t->ws_watch, t->ws, (room_in || t->closing ? EPOLLIN : 0u) | (out_left(t) ? EPOLLOUT : 0u), on_ws);
    watch_for(t, &t->exec_watch, t->exec, t->exited ? 0 : EPOLLIN, on_exec);
    watch_for(t, &t->pty_watch, t->pty, (room_out ? EPOLLIN : 0u) | (t->input.len > t->input_at ? EPOLLOUT : 0u), on_pty);
}

/* -- the pty --------------------------------------------------------------------------------------------------------------- */

static void pty_read(struct front_terminal *t) {
    char chunk[PENDING_MAX / 4];

    while (t->pty >= 0 && out_left(t) < PENDING_MAX) {
        ssize_t n = read(t->pty, chunk, sizeof chunk);

        if (n > 0) {
            websocket_add(&t->out, WEBSOCKET_BINARY, chunk, (size_t)n);
            continue;
        }
        /* EIO: every process has closed it. */
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_watched(t, &t->pty_watch, &t->pty);
        if (t->exited)
            terminal_close(t, WEBSOCKET_NORMAL, "");
        return;
    }
}

static void pty_write(struct front_terminal *t) {
    if (t->pty < 0 && t->exec >= 0 && !t->had_pty)
        return; /* it comes */
    while (t->pty >= 0 && t->input_at < t->input.len) {
        ssize_t n = write(t->pty, t->input.data + t->input_at, t->input.len - t->input_at);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        t->input_at += (size_t)n;
    }
    buf_clear(&t->input);
    t->input_at = 0;
}

static void on_pty(void *arg, uint32_t events) {
    struct front_terminal *t = arg;

    (void)events;
    pty_write(t);
    pty_read(t);
    terminal_watch(t);
}

/* -- the keeper ------------------------------------------------------------------------------------------------------------ */

static int exit_status(const struct exec_msg *m) {
    if (m->extra & EXEC_END_NOEXEC)
        return err_exec_status(m->value);
    return WIFSIGNALED(m->value) ? 128 + WTERMSIG(m->value) : WEXITSTATUS(m->value);
}

static void take_keeper(struct front_terminal *t, const struct exec_msg *m, const char *text, int *fd) {
    switch (m->type) {
    case EXEC_MSG_STARTED:
        if (*fd < 0 || t->had_pty || fcntl(*fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
            terminal_close(t, WEBSOCKET_INTERNAL, "it has no terminal");
        else
            t->pty = TAKE_FD(*fd), t->had_pty = true;
        break;
    case EXEC_MSG_EXITED:
        t->exited = true;
        t->status = exit_status(m);
        front_watch_stop(&t->front->loop, &t->exec_watch);
        if (t->pty < 0)
            terminal_close(t, WEBSOCKET_NORMAL, "");
        else
            pty_read(t);
        break;
    case EXEC_MSG_FAILED:
        terminal_close(t, WEBSOCKET_INTERNAL, text);
        break;
    default:
        break;
    }
}

static void on_exec(void *arg, uint32_t events) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_INLINE_MAX);
    struct front_terminal *t = arg;
    struct exec_msg m;
    size_t n_fds = 1;
    int fd = -1, r;

    (void)events;
    r = execmsg_recv(t->exec, &m, &body, &fd, &n_fds);
    if (r == -EAGAIN)
        return;
    if (r <= 0)
        terminal_close(t, WEBSOCKET_INTERNAL, "the sandbox is gone");
    else
        take_keeper(t, &m, buf_str(&body), &fd);
    if (n_fds && fd >= 0)
        close(fd);
    terminal_watch(t);
}

/* -- the client ------------------------------------------------------------------------------------------------------------ */

/* {"resize": [columns, rows]} */
static bool take_text(struct front_terminal *t, const struct websocket_message *m) {
    json_t *json = m->len <= TEXT_MAX ? json_loadb(m->data, m->len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    json_t *size = json_object_get(json, "resize");
    json_int_t columns = json_integer_value(json_array_get(size, 0)), rows = json_integer_value(json_array_get(size, 1));
    bool ok = json_object_size(json) == 1 && json_array_size(size) == 2 && columns > 0 && columns <= SIZE_MAX_CELLS && rows > 0 &&
              rows <= SIZE_MAX_CELLS;
    struct winsize ws = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};

    if (ok && t->pty >= 0)
        ioctl(t->pty, TIOCSWINSZ, &ws);
    json_decref(json);
    return ok;
}

static void take_frame(struct front_terminal *t, const struct websocket_message *m) {
    switch (m->kind) {
    case WEBSOCKET_BINARY:
        buf_add(&t->input, m->data, m->len);
        pty_write(t);
        break;
    case WEBSOCKET_TEXT:
        if (!take_text(t, m))
            terminal_close(t, WEBSOCKET_PROTOCOL, "a text must be {\"resize\": [columns, rows]}");
        break;
    case WEBSOCKET_PING:
        websocket_add(&t->out, WEBSOCKET_PONG, m->data, m->len);
        break;
    case WEBSOCKET_CLOSE:
        if (t->closing)
            terminal_end(t); /* it has answered ours */
        else
            terminal_close(t, m->code ? m->code : WEBSOCKET_NORMAL, "");
        t->heard_close = true;
        break;
    case WEBSOCKET_PONG:
    case WEBSOCKET_CONTINUED:
        break;
    }
}

static void take_frames(struct front_terminal *t) {
    struct websocket_message m;
    int r = 0;

    while (!t->over && (r = websocket_next(&t->in, &m)) == 1)
        if (!t->closing || m.kind == WEBSOCKET_CLOSE)
            take_frame(t, &m);
    if (r < 0 && !t->over) {
        if (t->closing)
            terminal_end(t);
        terminal_close(t, (unsigned)-r, "");
    }
}

static void ws_read(struct front_terminal *t) {
    char chunk[FRONT_CHUNK];
    ssize_t n = recv(t->ws, chunk, MIN_OF(sizeof chunk, websocket_room(&t->in)), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        terminal_end(t);
        return;
    }
    t->heard_ms = clock_ms();
    websocket_feed(&t->in, chunk, (size_t)n);
    take_frames(t);
}

static void ws_write(struct front_terminal *t) {
    while (!t->over && out_left(t)) {
        ssize_t n = send(t->ws, t->out.data + t->out_at, out_left(t), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            terminal_end(t);
            return;
        }
        t->out_at += (size_t)n;
    }
    buf_clear(&t->out);
    t->out_at = 0;
    if (t->closing && t->heard_close && !t->over)
        terminal_end(t);
}

static void on_ws(void *arg, uint32_t events) {
    struct front_terminal *t = arg;

    if (events & EPOLLOUT)
        ws_write(t);
    if (!t->over && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        ws_read(t);
    if (!t->over)
        pty_read(t);
    terminal_watch(t);
}

void front_terminal_upgrade(void *cls, struct MHD_Connection *mhd, void *context, const char *extra, size_t n_extra,
                            MHD_socket sock, struct MHD_UpgradeResponseHandle *handle) {
    struct front_server *f = cls;
    struct front_exchange *x = context;
    struct front_terminal *t = calloc(1, sizeof *t);
    uint64_t now = clock_ms();

    (void)mhd;
    if (!t || !x || x->terminal < 0 || fcntl(sock, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
        free(t);
        MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
        return;
    }
    *t = (struct front_terminal){.front = f,
                                 .next = f->terminals,
                                 .handle = handle,
                                 .ws = sock,
                                 .exec = TAKE_FD(x->terminal),
                                 .pty = -1,
                                 .in = WEBSOCKET_INIT,
                                 .out = BUF_INIT(8 * PENDING_MAX),
                                 .input = BUF_INIT(8 * PENDING_MAX),
                                 .ping_ms = now + f->conf.comment_seconds * 1000,
                                 .heard_ms = now};
    f->terminals = t;
    if (fcntl(t->exec, F_SETFL, O_RDWR | O_NONBLOCK) < 0 || n_extra > websocket_room(&t->in)) {
        terminal_end(t);
        return;
    }
    if (n_extra)
        websocket_feed(&t->in, extra, n_extra);
    take_frames(t);
    terminal_watch(t);
}

static void terminal_free(struct front_terminal *t) {
    terminal_end(t);
    MHD_upgrade_action(t->handle, MHD_UPGRADE_ACTION_CLOSE);
    websocket_done(&t->in);
    buf_done(&t->out);
    buf_done(&t->input);
    free(t);
}

static void terminal_tick(struct front_terminal *t, uint64_t now_ms) {
    uint64_t every = t->front->conf.comment_seconds * 1000;

    if (t->over)
        return;
    if (t->closing && (t->close_ms <= now_ms)) {
        terminal_end(t);
        return;
    }
    if (t->closing || t->ping_ms > now_ms)
        return;
    if (now_ms - t->heard_ms > 3 * every) {
        terminal_close(t, WEBSOCKET_AWAY, "no answer to pings");
    } else {
        websocket_add(&t->out, WEBSOCKET_PING, "", 0);
        t->ping_ms = now_ms + every;
    }
    terminal_watch(t);
}

void front_terminals_tick(struct front_server *f, uint64_t now_ms) {
    struct front_terminal **at = &f->terminals;

    while (*at) {
        struct front_terminal *t = *at;

        terminal_tick(t, now_ms);
        if (t->over) {
            *at = t->next;
            terminal_free(t);
        } else {
            at = &t->next;
        }
    }
}

void front_terminals_drain(struct front_server *f) {
    for (struct front_terminal *t = f->terminals; t; t = t->next)
        if (!t->over) {
            terminal_close(t, WEBSOCKET_AWAY, "the service is ending");
            terminal_watch(t);
        }
}
