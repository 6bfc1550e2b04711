/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's own process: answers first, and makes a blank only when there is no request. Also starting, asking and stopping it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "supervisor/control/control.h"
#include "supervisor/pool/pool.h"
#include "supervisor/pool/pool_priv.h"

enum {
    BACKLOG = 1024,
    SEND_US = 5000,  /* for a client that does not read */
    LOOK_MS = 1000,  /* how often to see whether the program was replaced */
    RETRY_MS = 1000, /* after a blank could not be made */
    QUIET_MS = 25,   /* without a start, before the next blank is made */
    INSIDE_ID_FOR_ROOT = 1000,
    /* Root's other sandboxes, brokers and gates have 0x70000000, 0x74000000 and 0x78000000 + pid, and pids stay below 2^22. */
    ID_BASE = 0x7c000000,
    ID_COUNT = 0x03ffff00
};

static const char socket_name[] = "pool.sock";

/* A stale socket was left by a pool that was killed. Of two pools that begin at once, the second finds the first. */
static int listen_at(struct pool *p) {
    int r;

    if (flock(p->folder, LOCK_EX) < 0)
        return -errno;
    r = control_is_free(p->folder, socket_name, SOCK_SEQPACKET)
            ? control_listen(p->folder, socket_name, SOCK_SEQPACKET, BACKLOG, &p->listener)
            : -EADDRINUSE;
    flock(p->folder, LOCK_UN);
    return r;
}

static struct plan_ids first_ids(struct pool *p) {
    if (geteuid() != 0)
        return (struct plan_ids){.inside_uid = geteuid(), .host_uid = geteuid(), .inside_gid = getegid(), .host_gid = getegid()};
    if (getrandom(&p->next_id, sizeof p->next_id, 0) < 0)
        p->next_id = (uint32_t)getpid() * 64; /* of other pools of root's: far enough apart for their blanks */
    return (struct plan_ids){.inside_uid = INSIDE_ID_FOR_ROOT, .inside_gid = INSIDE_ID_FOR_ROOT, .by_root = true};
}

static int pool_init(struct pool *p, const struct pool_options *opt, struct err *err) {
    struct rlimit files;
    struct stat st;
    int r;

    *p = (struct pool){.opt = opt, .folder = -1, .listener = -1, .last_take_ms = clock_ms()};
    p->ids = first_ids(p);
    r = pool_templates_init(&p->templates, err);
    if (r < 0)
        return r;
    r = pool_view(&p->view);
    if (r < 0)
        return err_sys(err, r, "the pool's mounts");
    if (stat("/proc/self/exe", &st) < 0)
        return err_sys(err, -errno, "the program of the pool");
    p->exe_dev = st.st_dev;
    p->exe_ino = st.st_ino;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files); /* else fewer blanks are ready: see pool_fill() */
    }
    p->ready = calloc(opt->size, sizeof *p->ready);
    if (!p->ready)
        return err_oom(err);
    r = control_open_folder(opt->environ_, &p->folder, err);
    if (r < 0)
        return r;
    r = listen_at(p);
    return r < 0 ? err_sys(err, r, "make the pool's socket") : 0;
}

static void drop_client(struct pool *p, size_t i) {
    closep(&p->clients[i]);
    p->clients[i] = p->clients[--p->n_clients];
}

static void stop_listening(struct pool *p) {
    if (p->listener >= 0)
        unlinkat(p->folder, socket_name, 0);
    closep(&p->listener);
}

static void drop_blanks(struct pool *p) {
    while (p->n_ready > 0)
        blank_done(&p->ready[--p->n_ready]);
}

static void pool_done(struct pool *p) {
    stop_listening(p);
    while (p->n_clients > 0)
        drop_client(p, p->n_clients - 1);
    drop_blanks(p);
    free(TAKE_PTR(p->ready));
    pool_templates_done(&p->templates);
    closep(&p->folder);
}

static int pool_fill(struct pool *p, struct err *err) {
    int r;

    if (p->ids.by_root)
        p->ids.host_uid = p->ids.host_gid = ID_BASE + p->next_id++ % ID_COUNT;
    r = blank_make(&p->ids, &p->ready[p->n_ready], err);
    p->n_ready += r == 0;
    return r;
}

static void try_fill(struct pool *p) {
    struct err err = {0};

    p->why[0] = 0;
    if (pool_fill(p, &err) == 0)
        return;
    snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, err.msg);
    p->retry_ms = clock_ms() + RETRY_MS;
}

static bool fits_ids(const struct pool *p, const struct pool_request *ask) {
    return p->ids.inside_uid == ask->inside_uid && p->ids.inside_gid == ask->inside_gid;
}

/* Who sees other mounts than we do gets none of ours. */
static bool may_have_tree(const struct pool *p, const struct pool_request *ask, size_t len) {
    return len > 0 && !p->ids.by_root && memcmp(&ask->view, &p->view, sizeof p->view) == 0;
}

/* Taken out before it is sent, so that no failure can leave it for a second taker. */
static void give_blank(struct pool *p, int sock, bool may_tree, const char *template, size_t len) {
    struct blank b = p->ready[--p->n_ready];

    if (may_tree)
        b.tree = pool_templates_tree(&p->templates, template, len);
    if (blank_give(sock, &b) == 0)
        p->taken++;
    p->last_take_ms = clock_ms();
}

static uint64_t left_ms(const struct pool *p) {
    uint64_t idle = clock_ms() - p->last_take_ms;

    return idle < p->opt->idle_ms ? p->opt->idle_ms - idle : 0;
}

static void answer_request(struct pool *p, int sock, const struct pool_request *ask, const char *template, size_t len) {
    struct pool_reply reply = {.protocol = POOL_PROTOCOL,
                               .pid = (uint32_t)getpid(),
                               .size = (uint32_t)p->opt->size,
                               .ready = (uint32_t)p->n_ready,
                               .templates = (uint32_t)pool_templates_count(&p->templates),
                               .trees = p->templates.trees,
                               .taken = p->taken,
                               .missed = p->missed,
                               .idle_ms = p->opt->idle_ms,
                               .left_ms = left_ms(p)};

    if (ask->op == POOL_TAKE && fits_ids(p, ask) && p->n_ready > 0) {
        give_blank(p, sock, may_have_tree(p, ask, len), template, len);
        return;
    }
    if (ask->op == POOL_TAKE) {
        if (may_have_tree(p, ask, len)) /* for the next */
            pool_templates_want(&p->templates, template, len);
        p->missed++;
        p->last_take_ms = clock_ms();
        if (!fits_ids(p, ask) && p->ids.by_root) { /* what was asked for last is what is made: the id of a workspace's owner */
            p->ids.inside_uid = ask->inside_uid;
            p->ids.inside_gid = ask->inside_gid;
            drop_blanks(p);
        }
        reply.result = -EAGAIN;
    } else if (ask->op == POOL_OFF) {
        p->off = true;
        stop_listening(p);
    } else if (ask->op != POOL_STATUS) {
        reply.result = -EINVAL;
    }
    memcpy(reply.why, p->why, sizeof reply.why);
    sock_send(sock, &reply, sizeof reply, NULL, 0);
}

/* With all places taken, a client that has sent nothing gives way. */
static void accept_one(struct pool *p) {
    CLEANUP(closep) int sock = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    const struct timeval patience = {.tv_usec = SEND_US};
    uid_t uid;

    if (sock < 0 || sock_peer(sock, &uid) < 0 || uid != geteuid() ||
        setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return;
    if (p->n_clients == POOL_CLIENTS_MAX)
        drop_client(p, 0);
    p->clients[p->n_clients++] = TAKE_FD(sock);
}

static void serve_one(struct pool *p, int sock) {
    struct {
        struct pool_request ask;
        char template[TEMPLATE_MAX];
    } m;
    long n = sock_recv(sock, &m, sizeof m, NULL, NULL);

    if (n < (long)sizeof m.ask || m.ask.protocol != POOL_PROTOCOL)
        return;
    pool_templates_look(&p->templates);
    answer_request(p, sock, &m.ask, m.template, (size_t)n - sizeof m.ask);
}

/* The path of our program leads to another file, or to none: a new version shall not find blanks of an old one. */
static bool is_replaced(const struct pool *p) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    struct stat st;

    if (n < 0)
        return true;
    path[n] = 0;
    return stat(path, &st) < 0 || st.st_dev != p->exe_dev || st.st_ino != p->exe_ino;
}

/* When the next blank is to be made, in ms from now; LOOK_MS at most. Not during a burst of starts: they need the processors, and would pay
 * for their own blanks after all. */
static int fill_in(const struct pool *p) {
    uint64_t now = clock_ms(), at = p->why[0] ? p->retry_ms : p->last_take_ms + QUIET_MS;

    if (p->n_ready == p->opt->size)
        return LOOK_MS;
    return at <= now ? 0 : (int)MIN_OF(at - now, (uint64_t)LOOK_MS);
}

/* Returns false if there was no request. */
static bool serve_clients(struct pool *p, int timeout_ms) {
    struct pollfd at[POOL_CLIENTS_MAX + 1];
    size_t n = p->n_clients;

    for (size_t i = 0; i < n; i++)
        at[i] = (struct pollfd){.fd = p->clients[i], .events = POLLIN};
    at[n] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    if (poll(at, n + 1, timeout_ms) <= 0)
        return false;
    for (size_t i = n; i-- > 0;)
        if (at[i].revents) {
            serve_one(p, p->clients[i]);
            drop_client(p, i);
        }
    if (at[n].revents && p->listener >= 0)
        accept_one(p);
    return true;
}

static void pool_serve(struct pool *p) {
    uint64_t looked = clock_ms();

    while (!p->off && left_ms(p) > 0) {
        bool template = p->templates.wanted;
        bool busy = serve_clients(p, template ? 0 : fill_in(p));

        if (!busy && template)
            pool_templates_work(&p->templates);
        else if (!busy && fill_in(p) == 0)
            try_fill(p);
        if (clock_ms() - looked < LOOK_MS)
            continue;
        looked = clock_ms();
        if (is_replaced(p))
            return;
    }
}

/* Starting, asking and stopping it -------------------------------------------------------------------------------- */

/* A session of its own, none of our descriptors, and no folder in use. */
static int leave_starter(int report) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    if (null < 0 || setsid() < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") < 0)
        return -errno;
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (report != 3 && dup3(report, 3, O_CLOEXEC) < 0)
        return -errno;
    return fd_close_from(4);
}

/* Full before `bawn pool on` returns, so that a measurement after it measures the pool. */
static int begin_pool(struct pool *p, const struct pool_options *opt, struct err *err) {
    int r = pool_init(p, opt, err);

    while (r == 0 && p->n_ready < opt->size)
        r = pool_fill(p, err);
    if ((r == -EMFILE || r == -ENFILE || r == -ENOSPC || r == -EUSERS) && p->n_ready > 0)
        r = 0; /* as many as this user may have */
    return r;
}

static void NORETURN pool_main(const struct pool_options *opt, int report) {
    struct err err = {0};
    struct pool p;
    int r = leave_starter(report);

    prctl(PR_SET_NAME, "bawn-pool");
    if (r < 0) {
        err_sys(&err, r, "go to the background");
        fd_write_all(report, &err, sizeof err);
        _exit(EXIT_SANDBOX);
    }
    r = begin_pool(&p, opt, &err);
    if (fd_write_all(3, &err, sizeof err) == 0 && r == 0) {
        close(3);
        pool_serve(&p);
    }
    pool_done(&p);
    _exit(r < 0 ? EXIT_SANDBOX : 0);
}

int pool_start(const struct pool_options *opt, struct err *err) {
    CLEANUP(closep) int there = pool_connect(opt->environ_);
    struct err said = {0};
    int pair[2];
    ssize_t n;
    pid_t pid;

    if (there >= 0)
        return 1;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "start the pool");
    pid = fork();
    if (pid == 0)
        pool_main(opt, pair[1]);
    close(pair[1]);
    n = pid < 0 ? -errno : fd_read_some(pair[0], &said, sizeof said);
    close(pair[0]);
    if (n != (ssize_t)sizeof said) {
        if (pid > 0)
            process_end(pid);
        return err_set(err, n < 0 ? (int)n : -EIO, "the pool did not start");
    }
    if (said.code)
        process_end(pid);
    if (said.code == -EADDRINUSE) /* another process began one at the same moment */
        return 1;
    if (said.code)
        *err = said;
    return said.code;
}

static int ask_once(char *const *environ_, enum pool_op op, struct pool_reply *ret) {
    CLEANUP(closep) int sock = pool_connect(environ_);

    return sock < 0 ? sock : pool_ask(sock, op, ret);
}

int pool_query(char *const *environ_, struct pool_reply *ret) {
    return ask_once(environ_, POOL_STATUS, ret);
}

int pool_stop(char *const *environ_) {
    return ask_once(environ_, POOL_OFF, &(struct pool_reply){0});
}
