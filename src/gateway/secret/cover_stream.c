/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     | held: starts that were not all searched yet | data                          |
 *     0                                            old                 ready      total
 *                                                                        |-- tail --|
 *
 * Every match that begins before `ready` is whole by now. Those between ready and `release` are searched, too, when bytes of the
 * tail have to go out; they stay in `held`, and are searched again when there is more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/secret.h"
#include "gateway/secret/cover_priv.h"

/* Of bytes that lie one behind the other: what was passed on so far, and what is known to be covered. */
struct cover_sweep {
    const uint8_t *p;
    size_t len, pos, covered;
};

/* Adds the bytes from pos to end: those before covered as stars. */
static void put_bytes(struct cover_sweep *w, size_t end, struct buf *out) {
    static const char stars[] = "****************************************************************";

    while (w->pos < MIN_OF(end, w->covered)) {
        size_t n = MIN_OF(MIN_OF(end, w->covered) - w->pos, sizeof stars - 1);

        buf_add(out, stars, n);
        w->pos += n;
    }
    if (w->pos < end)
        buf_add(out, w->p + w->pos, end - w->pos);
    w->pos = MAX_OF(w->pos, end);
}

/* Searches for matches that begin before `to`, and passes on all before it. */
static void sweep_to(struct cover *c, struct cover_sweep *w, size_t to, struct buf *out) {
    size_t at = 0, n = 0;

    for (size_t from = 0; cover_find(c, w->p, w->len, from, to, &at, &n); from = at + 1) {
        put_bytes(w, at, out);
        w->covered = MAX_OF(w->covered, at + n);
    }
    put_bytes(w, to, out);
}

/* `held` becomes the bytes from ready on. joined: so many bytes of data follow held already. */
static int keep_tail(struct cover_stream *s, const uint8_t *data, size_t len, size_t joined, size_t ready) {
    size_t old = s->len, from = ready > old ? ready - old : 0, left = ready < old ? old - ready : 0;

    if (secret_grow(&s->held, s->len, &s->cap, left + len - from) < 0)
        return -ENOMEM;
    if (left && ready)
        memmove(s->held, s->held + ready, left);
    if (len - from)
        memcpy(s->held + left, data + from, len - from);
    s->len = left + len - from;
    if (old + joined > s->len)
        explicit_bzero(s->held + s->len, old + joined - s->len);
    return 0;
}

int cover_pass(struct cover *c, struct cover_stream *s, const void *data, size_t len, size_t upto, struct buf *out) {
    size_t old = s->len, total = old + len, tail = cover_tail(c), joined = old ? MIN_OF(len, tail) : 0;
    size_t ready = total > tail ? total - tail : 0;
    size_t release = MAX_OF(MAX_OF(ready, s->sent), upto == COVER_HOLD ? 0 : old + MIN_OF(upto, len));
    struct cover_sweep w = {.pos = s->sent, .covered = s->covered};

    if (joined && secret_grow(&s->held, old, &s->cap, old + joined) < 0) {
        out->failed = true;
        return -ENOMEM;
    }
    if (joined)
        memcpy(s->held + old, data, joined);
    w.p = (const uint8_t *)s->held;
    w.len = old + joined;
    if (old)
        sweep_to(c, &w, MIN_OF(old, release), out);
    if (release > old) {
        w = (struct cover_sweep){
            .p = data, .len = len, .pos = w.pos > old ? w.pos - old : 0, .covered = w.covered > old ? w.covered - old : 0};
        sweep_to(c, &w, release - old, out);
        w.covered += old;
    }
    if (keep_tail(s, data, len, joined, ready) < 0)
        out->failed = true;
    s->covered = w.covered > ready ? w.covered - ready : 0;
    s->sent = release - ready;
    return buf_ok(out) ? 0 : -ENOMEM;
}
