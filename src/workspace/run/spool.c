/* SPDX-License-Identifier: Apache-2.0 */
/* Reads entries of the spool; the guard writes them (init/guard/guard_spool.c). */
#include "workspace/run/spool.h"

#include <string.h>
#include <sys/stat.h>

#include "proto/guardmsg.h"

static bool is_sound_head(const struct spool_head *h) {
    bool file = S_ISREG(h->mode), folder = S_ISDIR(h->mode);

    if (h->seq == 0 || h->named > 1 || h->path_len == 0 || h->path_len > GUARD_PATH_MAX || h->content_len > SPOOL_CONTENT_MAX)
        return false;
    if (h->mode && !file && !folder)
        return false;
    if (h->named)
        return (file || folder) && h->content_len == 0;
    return h->content_len == (file ? h->size : 0);
}

size_t spool_decode(const char *data, size_t len, uint64_t seq, struct spool_entry *ret) {
    struct spool_entry e;
    uint64_t last;
    size_t all;

    if (len < sizeof e.head)
        return 0;
    memcpy(&e.head, data, sizeof e.head);
    if ((seq && e.head.seq != seq) || !is_sound_head(&e.head))
        return 0;
    all = spool_len(e.head.path_len, e.head.content_len);
    if (all > len)
        return 0;
    memcpy(&last, data + all - sizeof last, sizeof last);
    e.path = data + sizeof e.head;
    e.content = e.path + e.head.path_len + 1;
    if (last != e.head.seq || strnlen(e.path, e.head.path_len + 1) != e.head.path_len)
        return 0;
    *ret = e;
    return all;
}
