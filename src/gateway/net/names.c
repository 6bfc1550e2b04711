/* SPDX-License-Identifier: Apache-2.0 */
/* The table of synthetic addresses. */
#include "gateway/net/names.h"

#include <errno.h>

enum {
    NUMBER_GATE = 1,
    NUMBERS = NAMES_DENIED - NAMES_FIRST,
    NUMBERS_DENIED = NAMES_LAST - NAMES_DENIED + 1,
    NO_NUMBER = 0,
    BUCKETS = 8192
};
static_assert(NUMBERS / NAMES_STARTS > NAMES_MAX, "a full table does not reach the next start");
static_assert(NUMBERS_DENIED / NAMES_STARTS > NAMES_DENIED_MAX, "nor does one of denied names");

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

/* Pages of the big tables exist only once they are used. */
struct number {
    struct names_entry *owner; /* NULL: rests, or was never given */
    uint32_t next;             /* that rests, a later one */
    uint64_t last_use;
};

/* Names and their range of numbers. */
struct names_pool {
    struct number *numbers; /* of all pools, by number */
    struct names_entry *entries;
    size_t len, max;
    struct names_entry *buckets[BUCKETS];
    struct names_entry *oldest, *newest;
    uint32_t first, count;                /* its numbers */
    uint32_t start, given;                /* the first number that this gate gave, less `first`; how many it gave */
    uint32_t resting_first, resting_last; /* longest at rest first */
};

struct names {
    struct names_pool allowed, denied;
    struct number *numbers;
};

static bool pool_init(struct names_pool *p, struct number *numbers, uint32_t first, uint32_t count, size_t max) {
    p->numbers = numbers;
    p->first = first;
    p->count = count;
    p->max = max;
    p->entries = calloc(max, sizeof *p->entries);
    return p->entries != NULL;
}

int names_new(struct names **ret) {
    struct names *n = calloc(1, sizeof *n);

    if (n)
        n->numbers = calloc(NAMES_LAST + 1, sizeof *n->numbers);
    if (!n || !n->numbers || !pool_init(&n->allowed, n->numbers, NAMES_FIRST, NUMBERS, NAMES_MAX) ||
        !pool_init(&n->denied, n->numbers, NAMES_DENIED, NUMBERS_DENIED, NAMES_DENIED_MAX)) {
        names_free(n);
        return -ENOMEM;
    }
    *ret = n;
    return 0;
}

void names_start(struct names *n, uint32_t gate) {
    n->allowed.start = gate % NAMES_STARTS * (NUMBERS / NAMES_STARTS);
    n->denied.start = gate % NAMES_STARTS * (NUMBERS_DENIED / NAMES_STARTS);
}

void names_free(struct names *n) {
    if (!n)
        return;
    free(n->allowed.entries);
    free(n->denied.entries);
    free(n->numbers);
    free(n);
}

size_t names_len(const struct names *n) {
    return n->allowed.len;
}

uint32_t names_hash(const char *text, size_t len) {
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h;
}

static struct names_entry **bucket_of(struct names_pool *p, const char *text, size_t len) {
    return &p->buckets[names_hash(text, len) % BUCKETS];
}

static void unlink_entry(struct names_pool *p, struct names_entry *e) {
    *(e->older ? &e->older->newer : &p->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &p->newest) = e->older;
    e->older = e->newer = NULL;
}

static void append_entry(struct names_pool *p, struct names_entry *e) {
    e->older = p->newest;
    e->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = e;
    p->newest = e;
}

static void write_time(struct names_pool *p, uint64_t now_s) {
    for (struct names_entry *e = p->newest; e && e->last_use == USED_JUST_NOW; e = e->older)
        e->last_use = now_s;
}

static void touch(struct names_pool *p, struct names_entry *e, uint64_t now_s) {
    e->last_use = now_s;
    if (e->holds)
        return;
    unlink_entry(p, e);
    append_entry(p, e);
}

static struct names_entry *find_name(struct names_pool *p, const struct host *name) {
    for (struct names_entry *e = *bucket_of(p, name->text, name->len); e; e = e->chain)
        if (e->len == name->len && memcmp(e->text, name->text, e->len) == 0)
            return e;
    return NULL;
}

/* The number that rests longest; names lose theirs in the order of their last use, so its rest ends first. */
static uint32_t free_number(const struct names_pool *p, uint64_t now_s) {
    uint32_t first = p->resting_first;

    if (p->given < p->count)
        return p->first + (p->start + p->given) % p->count;
    return first && now_s - p->numbers[first].last_use >= NAMES_REST_S ? first : NO_NUMBER;
}

static void take_number(struct names_pool *p, uint32_t number) {
    if (p->given < p->count) { /* it was never given to anyone */
        p->given++;
        return;
    }
    p->resting_first = p->numbers[number].next;
    if (!p->resting_first)
        p->resting_last = 0;
    p->numbers[number].next = 0;
}

static void forget_entry(struct names_pool *p, struct names_entry *e) {
    struct number *number = &p->numbers[e->number];
    struct names_entry **at = bucket_of(p, e->text, e->len);

    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    unlink_entry(p, e);
    *number = (struct number){.last_use = e->last_use};
    *(p->resting_last ? &p->numbers[p->resting_last].next : &p->resting_first) = e->number;
    p->resting_last = e->number;
}

static int pool_number(struct names_pool *p, const struct host *name, uint64_t now_s, uint32_t *ret) {
    struct names_entry *e = find_name(p, name), **bucket;
    uint32_t number;

    write_time(p, now_s);
    if (e) {
        touch(p, e, now_s);
        *ret = e->number;
        return 0;
    }
    number = free_number(p, now_s);
    e = p->len < p->max ? &p->entries[p->len] : p->oldest;
    if (!number || !e)
        return -ENOSPC;
    if (p->len < p->max)
        p->len++;
    else
        forget_entry(p, e);
    take_number(p, number);
    bucket = bucket_of(p, name->text, name->len);
    *e = (struct names_entry){.chain = *bucket, .number = number, .last_use = now_s, .len = name->len};
    memcpy(e->text, name->text, name->len + 1);
    *bucket = e;
    append_entry(p, e);
    p->numbers[number].owner = e;
    *ret = number;
    return 0;
}

int names_number(struct names *n, const struct host *name, uint64_t now_s, uint32_t *ret) {
    return pool_number(&n->allowed, name, now_s, ret);
}

int names_number_denied(struct names *n, const struct host *name, uint64_t now_s, uint32_t *ret) {
    bool has = find_name(&n->allowed, name), is_new = !has && !find_name(&n->denied, name);
    int r = pool_number(has ? &n->allowed : &n->denied, name, now_s, ret);

    return r < 0 ? r : is_new;
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
    return number <= NAMES_LAST ? number : NO_NUMBER;
}

bool names_is_gate(const struct addr *a) {
    return number_of(a) == NUMBER_GATE;
}

static struct names_entry *owner_of(struct names *n, const struct addr *a, struct names_pool **ret_pool) {
    uint32_t number = number_of(a);

    *ret_pool = number < NAMES_DENIED ? &n->allowed : &n->denied;
    return number <= NAMES_LAST ? n->numbers[number].owner : NULL;
}

bool names_find(struct names *n, const struct addr *a, uint64_t now_s, struct host *ret) {
    struct names_pool *p;
    struct names_entry *e = owner_of(n, a, &p);

    write_time(p, now_s);
    if (!e)
        return false;
    touch(p, e, now_s);
    *ret = (struct host){.kind = HOST_NAME, .len = e->len};
    memcpy(ret->text, e->text, e->len + 1);
    return true;
}

void names_hold(struct names *n, const struct addr *a) {
    struct names_pool *p;
    struct names_entry *e = owner_of(n, a, &p);

    if (e && e->holds++ == 0)
        unlink_entry(p, e);
}

void names_release(struct names *n, const struct addr *a) {
    struct names_pool *p;
    struct names_entry *e = owner_of(n, a, &p);

    if (!e || e->holds == 0 || --e->holds)
        return;
    e->last_use = USED_JUST_NOW;
    append_entry(p, e);
}
