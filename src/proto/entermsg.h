/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor hands to bawn-enter, the first program of a container, over a unix socket that is bound into it (spec/enter-protocol.md):
 * the descriptors that bawn-init is born with, and what the private folders begin with. bawn-enter has them only if both share a kernel.
 *
 * Two messages: struct enter_hello with the control socket, the start message and the list of what is to be made; then one byte with the standard
 * streams that ENTER_STDIN to ENTER_STDERR name, and the guard's socket if ENTER_GUARD says so.
 */
#pragma once

#include "base/macros.h"

struct buf;
struct cursor;

enum { ENTER_LIST_MAX = 8 * 1024 * 1024 };
#define ENTER_MAGIC "bawnent1"

enum enter_flag {
    ENTER_STDIN = 1, /* the others are /dev/null */
    ENTER_STDOUT = 2,
    ENTER_STDERR = 4,
    ENTER_GUARD = 8
};

struct enter_hello {
    char magic[8];
    uint32_t flags; /* set of enum enter_flag */
    uint32_t reserved;
};

/*
 * A container on another machine gets all that it is made of through its standard input, read by `bawn-init --far`: this, then a list, then the
 * trees that the list names, in its order (treemsg.h, up to END). After the list and after each tree there is one byte back, ENTER_FAR_ACK, so that
 * nothing is read ahead of the byte link. Once the container has ended, the same program sends trees back.
 */
#define ENTER_FAR_MAGIC "bawnfar1"
enum { ENTER_FAR_ACK = '+' };
enum enter_far_what {
    ENTER_FAR_FILL = 1,   /* then bawn-enter begins */
    ENTER_FAR_COLLECT = 2 /* the trees of the list come back */
};
struct enter_far {
    char magic[8];
    uint32_t what, len; /* of the list */
};

/* Something that is made in a private folder. */
enum enter_kind {
    ENTER_DIR,
    ENTER_SYMLINK,
    ENTER_FILE,
    ENTER_TREE,     /* on another machine: a folder of root's whose content follows the list */
    ENTER_OWN_TREE, /* the same, of the user of the sandbox */
    ENTER_KINDS
};

struct enter_item {
    uint32_t kind, mode; /* mode 0: 0755 for a folder, 0644 for a file */
    uint32_t len;        /* of content: a link's target, or a file's bytes */
    const char *path;    /* absolute */
    const char *content;
};

void enter_item_encode(const struct enter_item *i, struct buf *out);
/* The next one of a list; 0 at its end, 1, or -EBADMSG. */
int enter_item_decode(struct cursor *c, struct enter_item *ret);

/* A user or a group among the arguments: a plain number. */
bool enter_id_parse(const char *text, unsigned *ret);
