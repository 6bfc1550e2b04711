/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "policy/credential/credential.h"
#include "vault/sealed.h"

enum { ENTRY_HEAD = 2 + 4 };

struct sealed_entry {
    const char *name, *value;
    size_t name_len, value_len, size; /* size: of all of it */
};

static int entry_at(const struct secret *s, size_t at, struct sealed_entry *ret) {
    const uint8_t *p = (const uint8_t *)s->p + at;
    size_t left = s->len - at;
    struct sealed_entry e;

    if (left < ENTRY_HEAD)
        return -EBADMSG;
    e.name_len = (size_t)p[0] | (size_t)p[1] << 8;
    e.value_len = (size_t)p[2] | (size_t)p[3] << 8 | (size_t)p[4] << 16 | (size_t)p[5] << 24;
    left -= ENTRY_HEAD;
    if (e.name_len > CREDENTIAL_NAME_MAX || e.name_len > left || e.value_len > left - e.name_len)
        return -EBADMSG;
    e.name = (const char *)p + ENTRY_HEAD;
    e.value = e.name + e.name_len;
    e.size = ENTRY_HEAD + e.name_len + e.value_len;
    *ret = e;
    return 0;
}

static bool is_named(const struct sealed_entry *e, const char *name) {
    return strlen(name) == e->name_len && memcmp(name, e->name, e->name_len) == 0;
}

int sealed_find(const struct secret *entries, const char *name, const char **ret, size_t *ret_len) {
    struct sealed_entry e;

    for (size_t at = 0; at < entries->len; at += e.size) {
        int r = entry_at(entries, at, &e);

        if (r < 0)
            return r;
        if (!is_named(&e, name))
            continue;
        *ret = e.value;
        *ret_len = e.value_len;
        return 0;
    }
    return -ENOENT;
}

/* All but this name; how many of them, or -errno. */
static int copy_others(const struct secret *from, const char *name, struct secret *to) {
    struct sealed_entry e;
    int n = 0;

    for (size_t at = 0; at < from->len; at += e.size) {
        int r = entry_at(from, at, &e);

        if (r < 0)
            return r;
        if (is_named(&e, name))
            continue;
        memcpy(to->p + to->len, from->p + at, e.size);
        to->len += e.size;
        n++;
    }
    return n;
}

static void append(struct secret *to, const char *name, const struct secret *value) {
    size_t name_len = strlen(name);
    uint8_t head[ENTRY_HEAD] = {(uint8_t)name_len, (uint8_t)(name_len >> 8)};

    for (int i = 0; i < 4; i++)
        head[2 + i] = (uint8_t)(value->len >> 8 * i);
    memcpy(to->p + to->len, head, sizeof head);
    memcpy(to->p + to->len + sizeof head, name, name_len);
    memcpy(to->p + to->len + sizeof head + name_len, value->p, value->len);
    to->len += sizeof head + name_len + value->len;
}

int sealed_change(const struct secret *entries, const char *name, const struct secret *value, struct secret *ret) {
    CLEANUP(secret_done) struct secret s = {0};
    size_t more = value ? ENTRY_HEAD + strlen(name) + value->len : 0;
    int n;

    if (strlen(name) > CREDENTIAL_NAME_MAX || more > SEALED_PLAIN_MAX)
        return -EINVAL;
    if (secret_alloc(&s, entries->len + more) < 0)
        return -ENOMEM;
    n = copy_others(entries, name, &s);
    if (n < 0)
        return n;
    if (!value && s.len == entries->len)
        return -ENOENT;
    if (value && (n >= SEALED_ENTRIES_MAX || s.len + more > SEALED_PLAIN_MAX))
        return -ENOSPC;
    if (value)
        append(&s, name, value);
    *ret = s;
    s = (struct secret){0};
    return 0;
}
