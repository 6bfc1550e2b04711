/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the supervisor what is about to change, each path once, and what was refused. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "os/sock.h"

enum { SEEN_START = 1024, SALT_TOUCH = 0, /* reasons of a refusal are the other salts, and */ SALT_RENAMED = 1000, SALT_PLAIN };

struct touch_packet {
    struct guard_msg head;
    char path[GUARD_PATH_MAX];
};

int seen_init(struct guard_seen *s) {
    *s = (struct guard_seen){.cap = SEEN_START, .slots = calloc(SEEN_START, sizeof *s->slots)};
    if (!s->slots)
        return -ENOMEM;
    return getrandom(s->key, sizeof s->key, 0) == (ssize_t)sizeof s->key ? 0 : -EIO;
}

static uint64_t rotate(uint64_t x, unsigned n) {
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void sip_absorb(uint64_t v[4], uint64_t m) {
    v[3] ^= m;
    sip_round(v);
    sip_round(v);
    v[0] ^= m;
}

/* SipHash-2-4: no process inside can make two paths with one hash, of which one would not be reported. Never 0. */
static uint64_t hash_path(const struct guard_seen *s, unsigned salt, const char *path) {
    uint64_t k0 = s->key[0] ^ salt, k1 = s->key[1], m;
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    size_t len = strlen(path), left = len;

    for (; left >= sizeof m; path += sizeof m, left -= sizeof m) {
        memcpy(&m, path, sizeof m);
        sip_absorb(v, m);
    }
    m = (uint64_t)len << 56;
    memcpy(&m, path, left);
    sip_absorb(v, m);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    m = v[0] ^ v[1] ^ v[2] ^ v[3];
    return m ? m : 1;
}

static uint64_t *find_slot(uint64_t *slots, size_t cap, uint64_t hash) {
    size_t i = hash & (cap - 1);

    while (slots[i] && slots[i] != hash)
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static void grow_seen(struct guard_seen *s) {
    size_t cap = 2 * s->cap;
    uint64_t *slots = s->n < GUARD_SEEN_MAX ? calloc(cap, sizeof *slots) : NULL;

    if (!slots)
        return;
    for (size_t i = 0; i < s->cap; i++)
        if (s->slots[i])
            *find_slot(slots, cap, s->slots[i]) = s->slots[i];
    free(s->slots);
    s->slots = slots;
    s->cap = cap;
}

bool seen_has_hash(const struct guard_seen *s, uint64_t hash) {
    return *find_slot(s->slots, s->cap, hash) != 0;
}

bool seen_has(const struct guard_seen *s, unsigned salt, const char *path) {
    return seen_has_hash(s, hash_path(s, salt, path));
}

bool seen_add(struct guard_seen *s, unsigned salt, const char *path) {
    return seen_add_hash(s, hash_path(s, salt, path));
}

bool seen_add_hash(struct guard_seen *s, uint64_t hash) {
    uint64_t *slot;

    if (s->n >= s->cap / 2)
        grow_seen(s);
    slot = find_slot(s->slots, s->cap, hash);
    if (*slot)
        return false;
    if (s->n < s->cap / 2) { /* else there is no memory for it: reported again the next time */
        *slot = hash;
        s->n++;
    }
    return true;
}

static int send_packet(struct guard *g, struct touch_packet *p, const char *rel, const int *fd) {
    size_t len = strlen(rel);
    int r;

    if (g->sock < 0)
        return -EIO;
    p->head.path_len = (uint32_t)len;
    p->head.spooled = (uint32_t)g->spool.at;
    memcpy(p->path, rel, len);
    r = sock_send(g->sock, p, sizeof p->head + len, fd, fd ? 1 : 0);
    if (r == 0)
        return 0;
    guard_orphan(g);
    return -EIO;
}

/* A call that was not taken from the kernel is given up when a signal comes, so they are taken while we wait. */
static void wait_and_take(struct guard *g) {
    struct pollfd p[1 + GUARD_LISTENERS_MAX];
    size_t n = guard_poll(g, p + 1);

    p[0] = (struct pollfd){.fd = g->sock, .events = POLLIN};
    while (poll(p, 1 + n, -1) >= 0 && !p[0].revents)
        for (size_t i = 1; i <= n; i++) {
            if (p[i].revents & POLLIN)
                guard_take(g, p[i].fd);
            if (g->queue.n == GUARD_QUEUE_MAX || (p[i].revents & POLLHUP))
                p[i].fd = -1;
        }
}

/* *ret: the whole answer; may be NULL. *ret_fd: a descriptor that came with it, or -1; NULL: none may. */
static int hear_go(struct guard *g, struct guard_msg *ret, int *ret_fd) {
    size_t n_fds = ret_fd ? 1 : 0;
    struct guard_msg msg;
    long n;

    wait_and_take(g);
    if (ret_fd)
        *ret_fd = -1;
    n = sock_recv(g->sock, &msg, sizeof msg, ret_fd, &n_fds);
    if (n != (long)sizeof msg || msg.type != GUARD_MSG_GO) {
        guard_orphan(g);
        return -EIO;
    }
    if (ret)
        *ret = msg;
    return msg.value > 0 ? -EIO : msg.value;
}

static int wait_for_go(struct guard *g) {
    return hear_go(g, NULL, NULL);
}

static bool in_ignored(const struct guard *g, const char *rel) {
    for (size_t i = 0; i < g->n_ignored; i++) {
        size_t len = strlen(g->ignored[i]);

        if (strncmp(rel, g->ignored[i], len) == 0 && rel[len] == '/')
            return true;
    }
    return false;
}

static void add_ignored(struct guard *g, const char *rel, size_t len) {
    char *folder = len > 0 && len < strlen(rel) && g->n_ignored < GUARD_IGNORED_MAX ? strndup(rel, len) : NULL;

    if (folder)
        g->ignored[g->n_ignored++] = folder;
}

int guard_send_share(struct guard *g, int fd) {
    struct touch_packet p;
    int r;

    p.head = (struct guard_msg){.type = GUARD_MSG_SHARE, .wait = 1};
    r = send_packet(g, &p, "", &fd);
    return r < 0 ? r : wait_for_go(g);
}

/* The supervisor looks, from the host's side: whether file leases are available here is not ours to say. */
int guard_ask_open(struct guard *g, const char *rel, const struct stat *st) {
    struct touch_packet p;
    int r;

    p.head = (struct guard_msg){.type = GUARD_MSG_OPEN, .wait = 1, .mode = st->st_mode, .dev = st->st_dev, .ino = st->st_ino};
    r = send_packet(g, &p, rel, NULL);
    return r < 0 ? -EBUSY : wait_for_go(g);
}

void guard_note_renamed(struct guard *g, const char *rel) {
    seen_add(&g->seen, SALT_RENAMED, rel);
}

bool guard_has_renamed(const struct guard *g, const char *rel) {
    return seen_has(&g->seen, SALT_RENAMED, rel);
}

int guard_ask_spool(struct guard *g, int *ret_fd) {
    struct touch_packet p;
    int r;

    p.head = (struct guard_msg){.type = GUARD_MSG_SPOOL, .wait = 1};
    *ret_fd = -1;
    r = send_packet(g, &p, "", NULL);
    return r < 0 ? r : hear_go(g, NULL, ret_fd);
}

static const char *folder_of(const char *rel, char room[static PATH_MAX]) {
    const char *slash = strrchr(rel, '/');
    size_t len = slash ? MIN_OF((size_t)(slash - rel), (size_t)PATH_MAX - 1) : 0;

    memcpy(room, rel, len);
    room[len] = 0;
    return room;
}

void guard_note_plain(struct guard *g, const char *rel) {
    char room[PATH_MAX];

    seen_add(&g->seen, SALT_PLAIN, folder_of(rel, room));
}

bool guard_is_plain(const struct guard *g, const char *rel) {
    char room[PATH_MAX];

    return seen_has(&g->seen, SALT_PLAIN, folder_of(rel, room));
}

static int tell_new(struct guard *g, const char *rel) {
    struct touch_packet p;

    p.head = (struct guard_msg){.type = GUARD_MSG_TOUCH};
    return send_packet(g, &p, rel, NULL);
}

int guard_touch_new(struct guard *g, const char *rel) {
    int r;

    if (g->sock < 0)
        return -EIO;
    if (!*rel || seen_has(&g->seen, SALT_TOUCH, rel))
        return 0;
    r = spool_touch(g, rel, NULL, false);
    r = r == 0 ? tell_new(g, rel) : MIN_OF(r, 0);
    if (r == 0)
        seen_add(&g->seen, SALT_TOUCH, rel);
    return r;
}

/* The supervisor puts away what is there. */
static int tell_old(struct guard *g, const char *rel, const struct stat *st, bool unlinking, bool named) {
    struct guard_msg go = {0};
    struct touch_packet p;
    int r;

    p.head = (struct guard_msg){.type = GUARD_MSG_TOUCH,
                                .wait = !named,
                                .unlinking = unlinking,
                                .mode = st->st_mode,
                                .size = (uint64_t)st->st_size,
                                .mtime_ns = time_ns(&st->st_mtim),
                                .dev = st->st_dev,
                                .ino = st->st_ino};
    r = send_packet(g, &p, rel, NULL);
    if (r < 0 || named)
        return r;
    r = hear_go(g, &go, NULL);
    if (r == 0)
        add_ignored(g, rel, go.folder_len);
    if (r == 0 && go.folder_len == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
        guard_note_plain(g, rel);
    return r;
}

int guard_touch_at(struct guard *g, const char *rel, const struct stat *st, bool unlinking) {
    bool named = g->n_ignored > 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) && in_ignored(g, rel);
    int r;

    if (g->sock < 0)
        return -EIO;
    if (!*rel || seen_has(&g->seen, SALT_TOUCH, rel))
        return 0;
    r = spool_touch(g, rel, st, named);
    r = r == 0 ? tell_old(g, rel, st, unlinking, named) : MIN_OF(r, 0);
    if (r == 0)
        seen_add(&g->seen, SALT_TOUCH, rel);
    return r;
}

int guard_touch(struct guard *g, const struct place *p, bool unlinking) {
    if (!p->rel)
        return 0;
    return p->exists ? guard_touch_at(g, p->rel, &p->st, unlinking) : guard_touch_new(g, p->rel);
}

int guard_ask(struct guard *g, enum guard_msg_type type, const char *rel, int value) {
    struct touch_packet p;
    int r;

    p.head = (struct guard_msg){.type = type, .wait = 1, .value = value};
    r = send_packet(g, &p, rel, NULL);
    return r < 0 ? r : wait_for_go(g);
}

void guard_tell(struct guard *g, enum guard_msg_type type, const char *rel, int fd) {
    struct touch_packet p;

    p.head = (struct guard_msg){.type = type};
    send_packet(g, &p, rel, fd >= 0 ? &fd : NULL);
}

int guard_refuse(struct guard *g, const char *rel, enum guard_why why, int r) {
    return guard_refuse_for(g, rel, why, r, "");
}

int guard_refuse_for(struct guard *g, const char *rel, enum guard_why why, int r, const char *detail) {
    size_t len = strlen(rel), more = strlen(detail);
    char text[GUARD_PATH_MAX + 1];
    struct touch_packet p;

    snprintf(text, sizeof text, "%s%s%s", rel, more ? "\n" : "", detail);
    if (len == 0 || g->sock < 0 || !seen_add(&g->seen, why, text))
        return r;
    len = strlen(text);
    p.head = (struct guard_msg){
        .type = GUARD_MSG_REFUSED, .value = (int32_t)why, .path_len = (uint32_t)MIN_OF(len, GUARD_PATH_MAX - 1)};
    memcpy(p.path, text, p.head.path_len);
    if (more && strlen(rel) < p.head.path_len)
        p.path[strlen(rel)] = 0;
    if (sock_send(g->sock, &p, sizeof p.head + p.head.path_len, NULL, 0) != 0)
        guard_orphan(g);
    return r;
}
