/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks what bawn-enter makes. */
#include "proto/entermsg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/cursor.h"

struct entermsg_head {
    uint32_t kind, mode, len;
};

void enter_item_encode(const struct enter_item *i, struct buf *out) {
    const struct entermsg_head h = {.kind = i->kind, .mode = i->mode, .len = i->len};

    buf_add(out, &h, sizeof h);
    buf_add(out, i->path, strlen(i->path) + 1);
    buf_add(out, i->content, i->len);
    buf_addc(out, 0); /* so that a link's target is a string */
}

int enter_item_decode(struct cursor *c, struct enter_item *ret) {
    struct entermsg_head h;
    struct enter_item i;

    if (c->left == 0)
        return 0;
    if (cursor_take(c, &h, sizeof h) < 0 || h.kind >= ENTER_KINDS)
        return -EBADMSG;
    i = (struct enter_item){.kind = h.kind, .mode = h.mode & 07777, .len = h.len, .path = cursor_string(c)};
    if (!i.path || i.path[0] != '/')
        return -EBADMSG;
    i.content = cursor_skip(c, (size_t)h.len + 1);
    if (!i.content || i.content[h.len] != 0 || (h.kind == ENTER_SYMLINK && strlen(i.content) != h.len))
        return -EBADMSG;
    *ret = i;
    return 1;
}

bool enter_id_parse(const char *text, unsigned *ret) {
    char *end;
    unsigned long n;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno || *end || end == text || n >= UINT32_MAX)
        return false;
    *ret = (unsigned)n;
    return true;
}
