/* SPDX-License-Identifier: Apache-2.0 */
/* The table of synthetic addresses. */
#include "gateway/net/names.h"

#include <errno.h>

enum {
    NUMBER_GATE = 1,
    NUMBER_FIRST = 2,
    NUMBER_LAST = 0x1fffe, /* 198.19.255.254 */
    NUMBERS = NUMBER_LAST - NUMBER_FIRST + 1,
    NO_NUMBER = 0,
    BUCKETS = 8192
};
static_assert(NUMBERS / NAMES_STARTS > NAMES_MAX, "a full table does not reach the next start");

/* last_use of a name whose connection ended: the next call that knows the time writes it in. */
#define USED_JUST_NOW UINT64_MAX

static const uint8_t ipv6_prefix[12] = {0xfd, 0x62, 0x61, 0x77, 0x6e};

struct names_entry {
    struct names_entry *chain;         /* of the same bucket */
    struct names_entry *older, *newer; /* by last use; a name with open connections is not in this list */
    uint32_t number, holds;
    uint64_t last_use;
    size_t len;
    char text[HOST_TEXT_MAX + 1];
};

/* Pages of the two big tables exist only once they are used. */
struct number {
    struct names_entry *owner; /* NULL: rests, or was never given */
    uint32_t next;             /* that rests, a later one */
    uint64_t last_use;
};

struct names {
    struct names_entry *entries;
    size_t len;
    struct names_entry *buckets[BUCKETS];
    struct names_entry *oldest, *newest;
    struct number *numbers;               /* by number */
    uint32_t start, given;                /* the first number that this gate gave, less NUMBER_FIRST; how many it gave */
    uint32_t resting_first, resting_last; /* longest at rest first */
};

int names_new(struct names **ret) {
    struct names *n = calloc(1, sizeof *n);

    if (n) {
        n->entries = calloc(NAMES_MAX, sizeof *n->entries);
        n->numbers = calloc(NUMBER_LAST + 1, sizeof *n->numbers);
    }
    if (!n || !n->entries || !n->numbers) {
        names_free(n);
        return -ENOMEM;
    }
    *ret = n;
    return 0;
}

void names_start(struct names *n, uint32_t gate) {
    n->start = gate % NAMES_STARTS * (NUMBERS / NAMES_STARTS);
}

void names_free(struct names *n) {
    if (!n)
        return;
    free(n->entries);
    free(n->numbers);
    free(n);
}

size_t names_len(const struct names *n) {
    return n->len;
}

uint32_t names_hash(const char *text, size_t len) {
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h;
}

static struct names_entry **bucket_of(struct names *n, const char *text, size_t len) {
    return &n->buckets[names_hash(text, len) % BUCKETS];
}

static void unlink_entry(struct names *n, struct names_entry *e) {
    *(e->older ? &e->older->newer : &n->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &n->newest) = e->older;
    e->older = e->newer = NULL;
}

static void append_entry(struct names *n, struct names_entry *e) {
    e->older = n->newest;
    e->newer = NULL;
    *(n->newest ? &n->newest->newer : &n->oldest) = e;
    n->newest = e;
}

static void write_time(struct names *n, uint64_t now_s) {
    for (struct names_entry *e = n->newest; e && e->last_use == USED_JUST_NOW; e = e->older)
        e->last_use = now_s;
}

static void touch(struct names *n, struct names_entry *e, uint64_t now_s) {
    e->last_use = now_s;
    if (e->holds)
        return;
    unlink_entry(n, e);
    append_entry(n, e);
}

static struct names_entry *find_name(struct names *n, const struct host *name) {
    for (struct names_entry *e = *bucket_of(n, name->text, name->len); e; e = e->chain)
        if (e->len == name->len && memcmp(e->text, name->text, e->len) == 0)
            return e;
    return NULL;
}

/* The number that rests longest; names lose theirs in the order of their last use, so its rest ends first. */
static uint32_t free_number(const struct names *n, uint64_t now_s) {
    uint32_t first = n->resting_first;

    if (n->given < NUMBERS)
        return NUMBER_FIRST + (n->start + n->given) % NUMBERS;
    return first && now_s - n->numbers[first].last_use >= NAMES_REST_S ? first : NO_NUMBER;
}

static void take_number(struct names *n, uint32_t number) {
    if (n->given < NUMBERS) { /* it was never given to anyone */
        n->given++;
        return;
    }
    n->resting_first = n->numbers[number].next;
    if (!n->resting_first)
        n->resting_last = 0;
    n->numbers[number].next = 0;
}

static void forget_entry(struct names *n, struct names_entry *e) {
    struct number *number = &n->numbers[e->number];
    struct names_entry **at = bucket_of(n, e->text, e->len);

    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    unlink_entry(n, e);
    *number = (struct number){.last_use = e->last_use};
    *(n->resting_last ? &n->numbers[n->resting_last].next : &n->resting_first) = e->number;
    n->resting_last = e->number;
}

int names_number(struct names *n, const struct host *name, uint64_t now_s, uint32_t *ret) {
    struct names_entry *e = find_name(n, name), **bucket;
    uint32_t number;

    write_time(n, now_s);
    if (e) {
        touch(n, e, now_s);
        *ret = e->number;
        return 0;
    }
    number = free_number(n, now_s);
    e = n->len < NAMES_MAX ? &n->entries[n->len] : n->oldest;
    if (!number || !e)
        return -ENOSPC;
    if (n->len < NAMES_MAX)
        n->len++;
    else
        forget_entry(n, e);
    take_number(n, number);
    bucket = bucket_of(n, name->text, name->len);
    *e = (struct names_entry){.chain = *bucket, .number = number, .last_use = now_s, .len = name->len};
    memcpy(e->text, name->text, name->len + 1);
    *bucket = e;
    append_entry(n, e);
    n->numbers[number].owner = e;
    *ret = number;
    return 0;
}

void names_address(uint32_t number, uint8_t len, struct addr *ret) {
    uint8_t low[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    struct addr a = {.len = len};

    if (len == 4) {
        a.b[0] = 198;
        a.b[1] = (uint8_t)(18 + low[1]);
        memcpy(a.b + 2, low + 2, 2);
    } else {
        memcpy(a.b, ipv6_prefix, sizeof ipv6_prefix);
        memcpy(a.b + 12, low, sizeof low);
    }
    *ret = a;
}

bool names_is_synthetic(const struct addr *a) {
    struct addr u = addr_unmapped(a);

    return u.len == 4 ? u.b[0] == 198 && (u.b[1] & 0xfe) == 18 : memcmp(u.b, ipv6_prefix, 8) == 0;
}

static uint32_t number_of(const struct addr *a) {
    struct addr u = addr_unmapped(a);
    uint32_t number;

    if (!names_is_synthetic(&u))
        return NO_NUMBER;
    if (u.len == 4)
        return (uint32_t)(u.b[1] & 1) << 16 | (uint32_t)u.b[2] << 8 | u.b[3];
    if (memcmp(u.b, ipv6_prefix, sizeof ipv6_prefix) != 0)
        return NO_NUMBER;
    number = (uint32_t)u.b[12] << 24 | (uint32_t)u.b[13] << 16 | (uint32_t)u.b[14] << 8 | u.b[15];
    return number <= NUMBER_LAST ? number : NO_NUMBER;
}

bool names_is_gate(const struct addr *a) {
    return number_of(a) == NUMBER_GATE;
}

static struct names_entry *owner_of(const struct names *n, const struct addr *a) {
    uint32_t number = number_of(a);

    return number <= NUMBER_LAST ? n->numbers[number].owner : NULL;
}

bool names_find(struct names *n, const struct addr *a, uint64_t now_s, struct host *ret) {
    struct names_entry *e = owner_of(n, a);

    write_time(n, now_s);
    if (!e)
        return false;
    touch(n, e, now_s);
    *ret = (struct host){.kind = HOST_NAME, .len = e->len};
    memcpy(ret->text, e->text, e->len + 1);
    return true;
}

void names_hold(struct names *n, const struct addr *a) {
    struct names_entry *e = owner_of(n, a);

    if (e && e->holds++ == 0)
        unlink_entry(n, e);
}

void names_release(struct names *n, const struct addr *a) {
    struct names_entry *e = owner_of(n, a);

    if (!e || e->holds == 0 || --e->holds)
        return;
    e->last_use = USED_JUST_NOW;
    append_entry(n, e);
}
