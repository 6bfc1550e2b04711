/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for secrets. */
#include "base/secret.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t pages(size_t cap) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (cap + page - 1) / page * page;
}

int secret_alloc(struct secret *s, size_t cap) {
    size_t size = pages(MAX_OF(cap, (size_t)1));
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return -ENOMEM;
    /* Old kernels allow 64 KiB to a user: then it may reach the swap, which is the user's too. */
    (void)mlock(p, size);
    (void)madvise(p, size, MADV_DONTDUMP);
    (void)madvise(p, size, MADV_WIPEONFORK);
    *s = (struct secret){.p = p, .cap = size};
    return 0;
}

void secret_clear(struct secret *s) {
    if (s->p)
        explicit_bzero(s->p, s->cap);
    s->len = 0;
}

void secret_drop(struct secret *s) {
    if (s->len)
        explicit_bzero(s->p, s->len);
    s->len = 0;
}

void secret_done(struct secret *s) {
    secret_clear(s);
    if (s->p)
        munmap(s->p, s->cap);
    *s = (struct secret){0};
}

int secret_set(struct secret *s, const void *p, size_t len) {
    if (len > s->cap)
        return -ENOSPC;
    secret_clear(s);
    if (len)
        memcpy(s->p, p, len);
    s->len = len;
    return 0;
}

enum { GROW_FIRST = 1024 };

int secret_grow(char **p, size_t used, size_t *cap, size_t need) {
    size_t bigger = MAX_OF(*cap * 2, MAX_OF(need, (size_t)GROW_FIRST));
    char *grown;

    if (need <= *cap)
        return 0;
    grown = malloc(bigger);
    if (!grown)
        return -ENOMEM;
    if (*p) {
        memcpy(grown, *p, used);
        explicit_bzero(*p, *cap);
        free(*p);
    }
    *p = grown;
    *cap = bigger;
    return 0;
}

void secret_zero_free(void *p) {
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

void *secret_zero_realloc(void *p, size_t size) {
    void *to = malloc(size ? size : 1);

    if (to && p)
        memcpy(to, p, MIN_OF(size, malloc_usable_size(p)));
    if (to)
        secret_zero_free(p);
    return to;
}
