/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's duplicates of the sockets inside: finding, keeping and forgetting them. */
#include "init/guard/guard_sock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"

enum { BACKLOG = 1024, LOOPBACK = 127u << 24 };

uint64_t socks_random(struct guard_socks *k) { /* xorshift: only spreads, nothing rests on it */
    k->random ^= k->random << 13;
    k->random ^= k->random >> 7;
    k->random ^= k->random << 17;
    return k->random;
}

static int open_door(struct guard_socks *k) {
    socklen_t len = sizeof k->door_addr;
    int on = 1;

    k->door_addr = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_addr = {htonl(LOOPBACK | (uint32_t)(0x100000 + socks_random(k) % 0xe00000))}};
    k->door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (k->door < 0 || bind(k->door, (struct sockaddr *)&k->door_addr, sizeof k->door_addr) < 0)
        return -errno;
    setsockopt(k->door, IPPROTO_TCP, 1 /* TCP_NODELAY: what is accepted inherits it */, &on, sizeof on);
    if (listen(k->door, BACKLOG) < 0 || getsockname(k->door, (struct sockaddr *)&k->door_addr, &len) < 0)
        return -errno;
    return 0;
}

int socks_new(const int gate[static GUARD_GATE_FDS], struct guard_socks **ret, struct err *err) {
    struct guard_socks *k = calloc(1, sizeof *k);
    uint32_t own;
    int r;

    if (!k)
        return err_oom(err);
    k->gate = gate[0];
    memcpy(k->named, gate + 1, sizeof k->named);
    k->door = k->names = -1;
    if (getrandom(&k->random, sizeof k->random, 0) != sizeof k->random || getrandom(k->key, sizeof k->key, 0) != sizeof k->key) {
        free(k);
        return err_sys(err, -EIO, "random numbers for the sandbox's network");
    }
    k->random |= 1; /* 0 would stay 0 */
    own = LOOPBACK | (uint32_t)(0x100000 + socks_random(k) % 0xe00000);
    k->own.s_addr = htonl(own & ~1u);
    k->own6.s_addr = htonl(own | 1u);
    r = open_door(k);
    if (r < 0) {
        closep(&k->door);
        free(k);
        return err_sys(err, r, "no loopback interface for the sandbox's connections; use --network none");
    }
    *ret = k;
    return 0;
}

struct sock_dup *socks_add(struct guard_socks *k, int fd, int family, uint64_t now_ms) {
    struct sock_dup *s = &k->v[k->n];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return NULL;
    if (k->n == SOCKS_MAX) {
        socks_sweep(k, 0);
        s = &k->v[k->n];
    }
    if (k->n == SOCKS_MAX)
        return NULL;
    *s = (struct sock_dup){.fd = fd, .ino = st.st_ino, .family = family};
    k->n++;
    if (!k->sweep_ms)
        k->sweep_ms = now_ms + SOCKS_SWEEP_MS;
    return s;
}

void socks_drop(struct guard_socks *k, struct sock_dup *s) {
    close(s->fd);
    *s = k->v[--k->n];
    if (!k->n)
        k->sweep_ms = 0;
}

/* -errno, 0 for what is no socket; *ret_ino */
static int socket_behind(const char *link, uint64_t *ret_ino) {
    char text[64];
    ssize_t n = readlink(link, text, sizeof text - 1);
    unsigned long long ino;

    if (n < 0)
        return -errno;
    text[n] = 0;
    if (sscanf(text, "socket:[%llu]", &ino) != 1)
        return 0;
    *ret_ino = ino;
    return 1;
}

static int number_behind(pid_t pid, int fd, uint64_t *ret_ino) {
    char link[GUARD_PROC_PATH];

    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    return socket_behind(link, ret_ino);
}

int socks_find(const struct call *c, int fd, struct sock_dup **ret) {
    struct guard_socks *k = c->g->socks;
    uint64_t ino = 0;
    int r = number_behind(c->tid, fd, &ino);

    if (!caller_waits(c))
        return -ESRCH;
    if (r <= 0)
        return r == -ENOENT ? -EBADF : r < 0 ? r : -ENOTSOCK;
    for (size_t i = 0; i < k->n; i++)
        if (k->v[i].ino == ino) {
            k->v[i].holder = c->tid;
            k->v[i].at = fd;
            *ret = &k->v[i];
            return 0;
        }
    return -EISCONN;
}

/* Looks through all processes whose descriptors we may see: those inside. */
static void look_in_process(struct guard_socks *k, pid_t pid) {
    char path[GUARD_PROC_PATH + 256];
    const struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        uint64_t ino;

        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, e->d_name);
        if (socket_behind(path, &ino) != 1)
            continue;
        for (size_t i = 0; i < k->n; i++)
            if (k->v[i].ino == ino) {
                k->v[i].missed = 0;
                k->v[i].holder = pid;
                k->v[i].at = (int)strtol(e->d_name, NULL, 10);
            }
    }
    if (d)
        closedir(d);
}

static void look_everywhere(struct guard_socks *k) {
    DIR *d = opendir("/proc");
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (isdigit((unsigned char)e->d_name[0])) {
            pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

            if (pid != getpid())
                look_in_process(k, pid);
        }
    if (d)
        closedir(d);
}

static bool is_where_it_was(const struct sock_dup *s) {
    uint64_t ino;

    return s->holder > 0 && number_behind(s->holder, s->at, &ino) == 1 && ino == s->ino;
}

/* patience: how often it may not be found, because it is on its way in a message. */
void socks_sweep(struct guard_socks *k, unsigned patience) {
    bool any = false;

    for (size_t i = 0; i < k->n; i++) {
        bool here = is_where_it_was(&k->v[i]);

        k->v[i].missed = here ? 0 : k->v[i].missed + 1;
        any |= !here;
    }
    if (any)
        look_everywhere(k);
    for (size_t i = k->n; i-- > 0;)
        if (k->v[i].missed > patience)
            socks_drop(k, &k->v[i]);
}

int sock_address_read(const struct call *c, struct sock_address *ret) {
    int len = (int)c->arg[2], r;

    memset(ret, 0, sizeof *ret);
    if (len < (int)sizeof ret->u.any.sa_family || (size_t)len > sizeof ret->u.room)
        return -EINVAL;
    ret->len = (socklen_t)len;
    r = caller_bytes(c, c->arg[1], &ret->u, (size_t)len);
    return r < 0 ? r : caller_waits(c) ? 0 : -ESRCH;
}

void socks_tick(struct guard_socks *k, uint64_t now_ms) {
    if (!k->sweep_ms || k->sweep_ms > now_ms)
        return;
    k->sweep_ms = now_ms + SOCKS_SWEEP_MS;
    socks_sweep(k, 2);
}

int socks_timeout(const struct guard_socks *k, uint64_t now_ms) {
    if (!k->sweep_ms)
        return -1;
    return k->sweep_ms <= now_ms ? 0 : (int)(k->sweep_ms - now_ms);
}
