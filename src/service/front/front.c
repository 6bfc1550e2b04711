/* SPDX-License-Identifier: Apache-2.0 */
/* Starts libmicrohttpd and goes round. */
#include "service/front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"

static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text) {
    (void)cls;
    (void)mhd;
    return strlen(text); /* front_uri.c decodes, after it has split */
}

static void on_daemon(void *arg, uint32_t events) {
    (void)arg;
    (void)events; /* only wakes: every turn runs both */
}

static int daemon_start(struct front_server *f, bool tls, struct front_watch *w, struct MHD_Daemon **ret, struct err *err) {
    const struct MHD_OptionItem keys[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? f->conf.certificate : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? f->conf.key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags =
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | (tls ? MHD_USE_TLS : 0u);
    struct MHD_Daemon *d =
        MHD_start_daemon(flags, 0, NULL, NULL, front_http_request, f, MHD_OPTION_NOTIFY_CONNECTION, front_conn_notify, f,
                         MHD_OPTION_NOTIFY_COMPLETED, front_http_completed, f, MHD_OPTION_URI_LOG_CALLBACK, front_http_uri, f,
                         MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, f, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)f->conf.connections_max + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)FRONT_HEAD_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)MAX_OF(f->conf.idle_seconds, f->conf.header_seconds),
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, tls ? MHD_OPTION_ARRAY : MHD_OPTION_END, keys, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = d ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD) : NULL;

    if (!info)
        return err_set(err, -EIO,
                       tls ? "libmicrohttpd cannot start: are certificate and key valid?" : "libmicrohttpd cannot start");
    *ret = d;
    return front_watch_start(&f->loop, w, info->epoll_fd, EPOLLIN, on_daemon, f);
}

static int take_start(struct front_server *f, struct err *err) {
    CLEANUP(api_msg_done) struct api_msg m = {0};
    /* bawnd's end does not wait, and neither does ours, as it comes; START may be on its way still. */
    int r = fcntl(f->core, F_SETFL, O_RDWR) < 0 ? -errno : api_msg_recv(f->core, true, &m, err);

    if (r == 0)
        return err_set(err, -ESHUTDOWN, "bawnd said nothing");
    return r < 0 ? r : front_conf_read(&f->conf, &m, err);
}

static int front_start(struct front_server *f, struct err *err) {
    int r = take_start(f, err);

    r = r < 0 ? r : front_conns_init(f, err);
    if (r < 0)
        return r;
    r = front_loop_init(&f->loop);
    if (r < 0)
        return err_sys(err, r, "make an epoll set");
    r = daemon_start(f, false, &f->daemon_watch[0], &f->plain, err);
    if (r == 0 && f->conf.tls)
        r = daemon_start(f, true, &f->daemon_watch[1], &f->tls, err);
    if (f->conf.key)
        explicit_bzero(f->conf.key, strlen(f->conf.key));
    r = r < 0 ? r : front_core_start(f);
    if (r < 0)
        return err->msg[0] ? r : err_sys(err, r, "start");
    front_listen_update(f);
    return 0;
}

static int daemon_timeout(struct MHD_Daemon *d, int left) {
    MHD_UNSIGNED_LONG_LONG ms;

    return d && MHD_get_timeout(d, &ms) == MHD_YES ? clock_sooner(left, (int)MIN_OF(ms, 1000ull)) : left;
}

static void front_tick(struct front_server *f) {
    uint64_t now = clock_ms();

    front_exchange_tick(f, now);
    front_terminals_tick(f, now);
    if (now < f->tick_ms)
        return;
    f->tick_ms = now + FRONT_TICK_MS;
    front_conns_tick(f, now);
}

int front_serve(int core, struct err *err) {
    static struct front_server f; /* large */
    int r;

    f.core = core;
    r = front_start(&f, err);
    while (r == 0 && !f.failed && !(f.draining && f.n_conns == 0)) {
        int left = front_exchange_timeout(&f);

        left = daemon_timeout(f.plain, left);
        left = daemon_timeout(f.tls, left);
        r = front_loop_turn(&f.loop, left);
        f.resumed = false;
        MHD_run(f.plain);
        if (f.tls)
            MHD_run(f.tls);
        front_tick(&f);
    }
    if (r < 0)
        return err->msg[0] ? r : err_sys(err, r, "wait for events");
    return !f.failed || f.failed == -ESHUTDOWN || f.failed == -EPIPE || f.failed == -ECONNRESET
               ? 0
               : err_sys(err, f.failed, "speak with bawnd");
}
