/* SPDX-License-Identifier: Apache-2.0 */
/* Stores what a search met, and compares it with what is there. */
#include "workspace/hide/walk_memo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { NEAR = 64, ITEM_RULES = 1, ITEM_TRUSTED = 2 };
static const char magic[8] = "bawnwlk1";

/* In front of the items. Another program may judge names in another way: each build begins anew. */
struct memo_head {
    char magic[sizeof magic];
    uint64_t check; /* of all that follows: a file that a power cut damaged is none */
    uint64_t dev, exe_ino, exe_time_ns, exe_size;
    uint64_t uid;
};

enum { CHECKED_FROM = offsetof(struct memo_head, check) + sizeof(uint64_t) };

struct memo_item_head {
    uint64_t ino, ctime_ns;
    uint16_t depth, name_len;
    uint8_t kind, flags, zero[2];
};

void walk_memo_done(struct walk_memo *m) {
    buf_done(&m->old_text);
    buf_done(&m->text);
    free(m->v);
}

int walk_memo_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "walks", ret, err);
}

/* FNV-1a over words; against damage, not against attackers, who do not reach the file. */
static uint64_t checksum(const char *p, size_t len) {
    uint64_t h = 0xcbf29ce484222325u, word;

    for (; len >= sizeof word; p += sizeof word, len -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 29;
    }
    for (; len > 0; p++, len--)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h;
}

static void make_head(const struct walk_memo *m, struct memo_head *ret) {
    struct stat exe = {0};

    if (stat("/proc/self/exe", &exe) < 0)
        exe.st_ino = 0;
    *ret = (struct memo_head){.dev = m->dev,
                              .exe_ino = exe.st_ino,
                              .exe_time_ns = (uint64_t)exe.st_ctim.tv_sec * 1000000000u + (uint64_t)exe.st_ctim.tv_nsec,
                              .exe_size = (uint64_t)exe.st_size,
                              .uid = geteuid()};
    memcpy(ret->magic, magic, sizeof magic);
}

/* -- reading ------------------------------------------------------------------------------------------------------------ */

static bool name_ok(const char *name, size_t len, unsigned depth) {
    if (depth == 0)
        return len == 0;
    if (len == 0 || len > NAME_MAX || memchr(name, '/', len) || memchr(name, 0, len))
        return false;
    return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* Only the first item has no folder above it, and each is in the one before it or beside one of those that are open. */
static bool place_ok(const struct walk_memo *m, const struct memo_item_head *h) {
    const struct memo_item *last = m->n ? &m->v[m->n - 1] : NULL;

    if (h->kind >= MEMO_KINDS || h->flags & ~(ITEM_RULES | ITEM_TRUSTED))
        return false;
    if (!last)
        return h->depth == 0 && h->kind == MEMO_FOLDER && h->flags & ITEM_RULES;
    return h->depth > 0 && h->depth <= last->depth + (last->kind == MEMO_FOLDER);
}

/* Returns the bytes of the item, 0 if it is wrong. */
static size_t parse_item(struct walk_memo *m, const char *p, size_t left, size_t *cap) {
    struct memo_item_head h;
    size_t len;

    if (left < sizeof h)
        return 0;
    memcpy(&h, p, sizeof h);
    len = sizeof h + (h.flags & ITEM_RULES ? MEMO_RULES_LEN : 0) + h.name_len;
    if (left < len || !place_ok(m, &h) || !name_ok(p + len - h.name_len, h.name_len, h.depth))
        return 0;
    if (m->n == *cap) {
        struct memo_item *more = reallocarray(m->v, *cap ? 2 * *cap : 1024, sizeof *more);

        if (!more)
            return 0;
        m->v = more;
        *cap = *cap ? 2 * *cap : 1024;
    }
    m->v[m->n++] = (struct memo_item){.name = p + len - h.name_len,
                                      .name_len = h.name_len,
                                      .depth = h.depth,
                                      .kind = (enum memo_kind)h.kind,
                                      .stamp = {h.ino, h.ctime_ns, h.flags & ITEM_TRUSTED},
                                      .rules = h.flags & ITEM_RULES ? (const unsigned char *)p + sizeof h : NULL};
    return len;
}

/* From behind: an item ends where the next one begins that is not deeper. */
static void find_ends(struct walk_memo *m) {
    for (uint32_t i = m->n; i-- > 0;) {
        uint32_t next = i + 1;

        while (next < m->n && m->v[next].depth > m->v[i].depth)
            next = m->v[next].next;
        m->v[i].next = next;
    }
}

static bool parse_memo(struct walk_memo *m) {
    const char *p = m->old_text.data + sizeof(struct memo_head), *end = m->old_text.data + m->old_text.len;
    size_t cap = 0, used;

    while (p < end) {
        used = parse_item(m, p, (size_t)(end - p), &cap);
        if (used == 0)
            return false;
        p += used;
    }
    find_ends(m);
    return m->n > 0;
}

void walk_memo_parse(struct walk_memo *m) {
    struct memo_head h;

    if (m->old_text.len < sizeof h)
        return;
    memcpy(&h, m->old_text.data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 ||
        h.check != checksum(m->old_text.data + CHECKED_FROM, m->old_text.len - CHECKED_FROM) || !parse_memo(m))
        m->n = 0;
}

void walk_memo_load(struct walk_memo *m, const char *path) {
    if (file_read(path, 0, &m->old_text) >= 0)
        walk_memo_parse(m);
}

/* -- the search --------------------------------------------------------------------------------------------------------- */

static bool has_kernels_ctime(int root) {
    struct statfs fs;

    if (fstatfs(root, &fs) < 0)
        return false;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC ||
           fs.f_type == TMPFS_MAGIC;
}

void memo_begin(struct walk_memo *m, int root) {
    struct memo_head now, then;
    struct timespec t;
    struct stat st;

    m->usable = has_kernels_ctime(root) && fstat(root, &st) == 0;
    if (!m->usable || clock_gettime(CLOCK_REALTIME, &t) < 0) {
        m->usable = false;
        m->n = 0;
        return;
    }
    m->began_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + m->ahead_ns;
    m->dev = st.st_dev;
    make_head(m, &now);
    m->uid = now.uid;
    if (m->n) {
        memcpy(&then, m->old_text.data, sizeof then);
        now.check = then.check;
        if (!now.exe_ino || memcmp(&now, &then, sizeof now) != 0)
            m->n = 0;
    }
    now.check = 0;
    buf_add(&m->text, &now, sizeof now);
}

static bool owner_decides(const struct walk_memo *m, const struct statx *st) {
    return m->uid == 0 || st->stx_uid == m->uid;
}

int memo_look(const struct walk_memo *m, int fd, const char *path, struct memo_stamp *ret) {
    enum { WANTED = STATX_INO | STATX_CTIME | STATX_UID | STATX_TYPE };
    struct statx st;

    if (statx(fd, path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT, WANTED, &st) < 0)
        return -errno;
    *ret = (struct memo_stamp){.ino = st.stx_ino, .ctime_ns = (uint64_t)st.stx_ctime.tv_sec * 1000000000u + st.stx_ctime.tv_nsec};
    ret->trusted = S_ISDIR(st.stx_mode) && (st.stx_mask & WANTED) == WANTED && st.stx_ctime.tv_sec > 0 &&
                   ret->ctime_ns + MEMO_SLACK_NS < m->began_ns && makedev(st.stx_dev_major, st.stx_dev_minor) == m->dev &&
                   !(st.stx_attributes & (STATX_ATTR_ENCRYPTED | STATX_ATTR_AUTOMOUNT)) && owner_decides(m, &st);
    return 0;
}

bool memo_same(const struct walk_memo *m, uint32_t at, const struct memo_stamp *now) {
    const struct memo_stamp *then = at < m->n ? &m->v[at].stamp : NULL;

    return then && then->trusted && now->trusted && then->ino == now->ino && then->ctime_ns == now->ctime_ns;
}

void memo_add(struct walk_memo *m, enum memo_kind kind, unsigned depth, const char *name, const struct memo_stamp *stamp,
              const unsigned char *rules) {
    struct memo_item_head h = {.depth = (uint16_t)depth, .name_len = (uint16_t)strlen(name), .kind = (uint8_t)kind};

    if (!m->usable)
        return;
    if (stamp) {
        h.ino = stamp->ino;
        h.ctime_ns = stamp->ctime_ns;
        h.flags = stamp->trusted ? ITEM_TRUSTED : 0;
    }
    h.flags |= rules ? ITEM_RULES : 0;
    buf_add(&m->text, &h, sizeof h);
    if (rules)
        buf_add(&m->text, rules, MEMO_RULES_LEN);
    buf_add(&m->text, name, h.name_len);
}

static bool is_named(const struct memo_item *i, const char *name, size_t len) {
    return i->kind == MEMO_FOLDER && i->name_len == len && memcmp(i->name, name, len) == 0;
}

/* Names come in the same order as before, but for those that are new or gone. */
uint32_t memo_child(const struct walk_memo *m, uint32_t in, const char *name, uint32_t *hint) {
    size_t len = strlen(name);
    uint32_t end, at;

    if (in >= m->n)
        return MEMO_NONE;
    end = m->v[in].next;
    at = *hint ? *hint : in + 1;
    for (int tries = 0; tries < NEAR && in + 1 < end; tries++) {
        if (at >= end)
            at = in + 1;
        if (is_named(&m->v[at], name, len)) {
            *hint = m->v[at].next;
            return at;
        }
        at = m->v[at].next;
    }
    return MEMO_NONE;
}

void walk_memo_seal(struct walk_memo *m) {
    uint64_t check;

    if (!buf_ok(&m->text) || m->text.len < sizeof(struct memo_head))
        return;
    check = checksum(m->text.data + CHECKED_FROM, m->text.len - CHECKED_FROM);
    memcpy(m->text.data + offsetof(struct memo_head, check), &check, sizeof check);
}

void walk_memo_store(struct walk_memo *m, const char *dir, const char *name) {
    CLEANUP(closep) int fd = -1;

    if (!m->usable || m->read < MEMO_WORTH || !buf_ok(&m->text) || m->text.len <= sizeof(struct memo_head))
        return;
    walk_memo_seal(m);
    if (paths_make_dirs(dir, NULL) < 0)
        return;
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        file_replace_at(fd, name, 0600, 0, m->text.data, m->text.len);
}
