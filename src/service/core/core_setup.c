/* SPDX-License-Identifier: Apache-2.0 */
/* What bawnd opens before its loop: folders, the database, listeners; and bawn-front, each time it is started. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/sigfd.h"
#include "os/sock.h"
#include "service/core/core.h"

enum { BACKLOG = 512, KEY_MAX = 256 * 1024, LOCK_WAIT_MS = 2000, LOCK_NAP_MS = 10, FILES_MAX = 65536 };

/* -- folders ------------------------------------------------------------------------------------------------------------------ */

static int open_dir(const char *path, int at, const char *name, mode_t mode, struct err *err) {
    int r = name ? (mkdirat(at, name, mode) < 0 && errno != EEXIST ? -errno : 0) : dir_make(AT_FDCWD, path, mode, 0755), fd;

    if (r < 0)
        return err_sys(err, r, "make '%s'", name ? name : path);
    fd =
        name ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", name ? name : path);
    if (fchmod(fd, mode) < 0) {
        close(fd);
        return err_sys(err, -errno, "set the mode of '%s'", name ? name : path);
    }
    return fd;
}

/* A child of one that was killed has the lock, too, until it executes its program. */
static int lock_soon(int fd) {
    uint64_t until = clock_ms() + LOCK_WAIT_MS;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || clock_ms() >= until)
            return -errno;
        poll(NULL, 0, LOCK_NAP_MS);
    }
    return 0;
}

/* Held as long as we live: two bawnd on one database would both start what waits. */
static int lock_state(int state, const char *path, struct err *err) {
    int fd = openat(state, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(err, -errno, "open '%s/lock'", path);
    if (lock_soon(fd) < 0) {
        close(fd);
        return err_set(err, -EBUSY, "another bawnd uses '%s'", path);
    }
    return 0; /* never closed */
}

static int open_places(struct core *c, struct err *err) {
    mode_t through = c->root ? 0711 : 0700;
    CLEANUP(closep) int state = open_dir(c->conf.state, -1, NULL, through, err);
    CLEANUP(freep) char *db = str_dupf("%s/bawnd.db", c->conf.state);
    int r = state < 0 ? state : lock_state(state, c->conf.state, err);

    if (r < 0)
        return r;
    c->tenants_dir = open_dir(NULL, state, "tenants", through, err);
    dir_spread(c->tenants_dir);
    c->trash = c->tenants_dir < 0 ? c->tenants_dir : open_dir(NULL, state, "trash", 0700, err);
    c->runtime = c->trash < 0 ? c->trash : open_dir(c->conf.runtime, -1, NULL, c->root ? 0755 : 0700, err);
    if (c->runtime < 0)
        return c->runtime;
    umask(066);
    return db ? ledger_open(db, c->conf.full_sync, &c->db, err) : err_oom(err);
}

/* -- listeners ---------------------------------------------------------------------------------------------------------------- */

/*
 * Sockets that were there before us (sd_listen_fds(3)): that of the API, and addresses of TCP in place of those of the configuration. Anything else
 * among them is a mistake of the unit, which would go unseen if it were left alone.
 */
enum { INHERITED_FIRST = 3, INHERITED_ABOVE = 10 };

static int take_inherited(struct core *c, int at, struct err *err) {
    int domain = 0, listens = 0, type = 0;
    socklen_t len = sizeof domain, len2 = sizeof listens, len3 = sizeof type;
    bool good = getsockopt(at, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
                getsockopt(at, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len2) == 0 &&
                getsockopt(at, SOL_SOCKET, SO_TYPE, &type, &len3) == 0 && listens && type == SOCK_STREAM;
    bool tcp = domain == AF_INET || domain == AF_INET6;
    int *to = tcp && c->n_tcp < API_LISTEN_MAX               ? &c->tcp[c->n_tcp]
              : domain == AF_UNIX && c->listener < 0 && !tcp ? &c->listener
                                                             : NULL;

    if (!good || !to)
        return err_usage(err, "descriptor %d of the service manager is no socket that listens, or one too many of its kind", at);
    *to = fd_move_above(at, INHERITED_ABOVE);
    if (*to < 0 || fcntl(*to, F_SETFD, FD_CLOEXEC) < 0 || fcntl(*to, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, -errno, "take descriptor %d of the service manager", at);
    c->n_tcp += tcp;
    return 0;
}

static int take_all_inherited(struct core *c, struct err *err) {
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    uint64_t who = 0, count = 0;
    int r = 0;

    if (!pid || !n || parse_u64(pid, 1, INT32_MAX, &who, NULL) < 0 || who != (uint64_t)getpid())
        return 0;
    if (parse_u64(n, 0, 1 + API_LISTEN_MAX, &count, NULL) < 0)
        return err_usage(err, "the service manager gives more than %d sockets", 1 + API_LISTEN_MAX);
    for (uint64_t i = 0; i < count && r == 0; i++)
        r = take_inherited(c, INHERITED_FIRST + (int)i, err);
    return r;
}

static int listen_unix(struct core *c, struct err *err) {
    CLEANUP(closep) int fd = -1;
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (c->listener >= 0)
        return 0;
    if (strlen(c->conf.socket) >= sizeof a.sun_path)
        return err_set(err, -ENAMETOOLONG, "'%s' is too long for a socket", c->conf.socket);
    memcpy(a.sun_path, c->conf.socket, strlen(c->conf.socket) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(c->conf.socket); /* no other bawnd has it: we have the lock */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(c->conf.socket, c->root ? 0666 : 0600) < 0 ||
        listen(fd, BACKLOG) < 0)
        return err_sys(err, -errno, "listen at '%s'", c->conf.socket);
    c->listener = TAKE_FD(fd);
    return 0;
}

static int listen_tcp(const char *text, int *ret, struct err *err) {
    struct addrinfo *a = NULL;
    CLEANUP(closep) int fd = -1;
    int r = core_conf_address(text, &a, err);

    if (r < 0)
        return r;
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    r = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
                bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0
            ? err_sys(err, -errno, "listen at '%s'", text)
            : 0;
    freeaddrinfo(a);
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

static int load_pem(const char *path, int *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(KEY_MAX);
    int r = file_read(path, FILE_FOLLOW, &text);

    if (r < 0)
        return file_err(err, r, path, KEY_MAX);
    *ret = fd_memory("pem", text.data, text.len);
    explicit_bzero(text.data, text.len);
    return *ret < 0 ? err_sys(err, *ret, "memory for '%s'", path) : 0;
}

static int open_listeners(struct core *c, struct err *err) {
    int r = take_all_inherited(c, err);
    bool given = c->n_tcp > 0;

    r = r < 0 ? r : listen_unix(c, err);
    if (r >= 0 && c->conf.listen.len > API_LISTEN_MAX)
        return err_usage(err, "\"listen\": at most %d addresses", API_LISTEN_MAX);
    for (size_t i = 0; r >= 0 && !given && i < c->conf.listen.len; i++) {
        r = listen_tcp(c->conf.listen.v[i], &c->tcp[i], err);
        c->n_tcp += r >= 0;
    }
    if (r >= 0 && c->conf.certificate) {
        r = load_pem(c->conf.certificate, &c->tls[0], err);
        r = r < 0 ? r : load_pem(c->conf.key, &c->tls[1], err);
    }
    return r;
}

/* Each command in a sandbox is a descriptor here. The usual limit is for programs that use select(). */
static void raise_files(void) {
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MAX)
        return;
    files.rlim_cur = MIN_OF(files.rlim_max, (rlim_t)FILES_MAX);
    setrlimit(RLIMIT_NOFILE, &files);
}

int core_open(struct core *c, struct err *err) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE};
    int r;

    c->root = geteuid() == 0;
    c->uid = geteuid();
    c->tenants_dir = c->trash = c->runtime = c->listener = c->measured = c->front = c->tls[0] = c->tls[1] = -1;
    signal(SIGCHLD, SIG_DFL);
    raise_files();
    c->signals = sigfd_open(signals, ARRAY_LEN(signals), NULL);
    if (c->signals < 0)
        return err_sys(err, c->signals, "read signals");
    r = open_places(c, err);
    r = r < 0 ? r : open_listeners(c, err);
    r = r < 0 ? r : core_tenants_load(c, err);
    r = r < 0 ? r : core_events_restore(c, err);
    r = r < 0 ? r : core_load_runs(c, err);
    return r < 0 ? r : core_commit(c, err);
}

/* -- bawn-front --------------------------------------------------------------------------------------------------------------- */

/* With none configured, those of the loopback addresses: no name that another site can have leads there with them. */
static int add_hosts(const struct core *c, struct api_fields *f) {
    static const char *const usual[] = {"127.0.0.1", "[::1]", "localhost"};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < c->conf.hosts.len; i++)
        r = api_fields_adds(f, API_CONF_HOST, c->conf.hosts.v[i]);
    for (size_t i = 0; r >= 0 && c->conf.hosts.len == 0 && i < ARRAY_LEN(usual); i++)
        r = api_fields_adds(f, API_CONF_HOST, usual[i]);
    return r;
}

static int add_conf(const struct core *c, struct api_fields *f) {
    const struct {
        unsigned field;
        uint64_t value;
    } numbers[] = {
        {API_CONF_JSON_MAX, c->conf.json_max},
        {API_CONF_UPLOAD_MAX, c->conf.upload_max},
        {API_CONF_HEADER_SECONDS, 15},
        {API_CONF_BODY_SECONDS, 30},
        {API_CONF_STALL_SECONDS, 60},
        {API_CONF_IDLE_SECONDS, 120},
        {API_CONF_COMMENT_SECONDS, 15},
        {API_CONF_CONNECTIONS_MAX, 2048},
        {API_CONF_PEER_MAX, 1024},
        {API_CONF_REQUESTS_MAX, 2048},
        {API_CONF_ANSWER_MAX, 16 << 20},
        {API_CONF_TLS, c->tls[0] >= 0},
    };
    int r = api_fields_adds(f, API_CONF_TABLES, API_TABLES);

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(numbers); i++)
        r = api_fields_add_number(f, numbers[i].field, numbers[i].value);
    r = r < 0 ? r : add_hosts(c, f);
    return r < 0 ? r : api_fields_adds(f, API_CONF_VERSION, BAWN_VERSION);
}

static int send_start(struct core *c, struct err *err) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf body = BUF_INIT(API_INLINE_MAX);
    struct api_msg m = {.kind = API_START, .value = (uint32_t)c->n_tcp};
    int r = add_conf(c, &f);

    r = r < 0 ? r : api_fields_write(&f, &body);
    if (r < 0)
        return err_sys(err, r, "the configuration of bawn-front");
    m.body = body.data;
    m.len = body.len;
    for (size_t i = 0; i < c->n_tcp; i++)
        m.fds[m.n_fds++] = c->tcp[i];
    for (size_t i = 0; c->tls[0] >= 0 && i < 2; i++)
        m.fds[m.n_fds++] = c->tls[i];
    return api_msg_send(c->front, &m, err);
}

int core_spawn_front(struct core *c, struct err *err) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-front", c->conf.helpers);
    char *argv[] = {"bawn-front", NULL};
    int pair[2], size = 4 << 20, r;
    int fds[API_FD + 1] = {-1, -1, STDERR_FILENO, -1};
    const struct core_spawn s = {.path = program, .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds)};

    r = program ? sock_pair(pair) : -ENOMEM;
    if (r < 0)
        return err_sys(err, r, "socket of bawn-front");
    for (int i = 0; i < 2; i++) {
        setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* as far as the system lets us */
        fcntl(pair[i], F_SETFL, O_NONBLOCK);
    }
    fds[API_FD] = pair[1];
    c->front = pair[0];
    r = send_start(c, err); /* first: its socket does not block, and it must find this there */
    if (r >= 0) {
        r = core_spawn(c, NULL, &s, &c->front_pid);
        r = r < 0 ? err_sys(err, r, "start '%s'", program) : 0;
    }
    close(pair[1]);
    c->counts.fronts++;
    if (r < 0)
        core_lost_front(c);
    return r;
}
