/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of files on a byte stream, for a folder of a sandbox that shares no kernel with us (spec/link-protocol.md, "Folders"). Pure: bytes in,
 * structs out. What is below a folder follows it, and each name is one part of a path, so there is nothing that could lead elsewhere.
 */
#pragma once

#include "base/macros.h"

enum tree_kind {
    TREE_SEND = 1, /* asks for what is in the folder */
    TREE_TAKE,     /* what follows goes into the folder; value: umask, and TREE_ONE */
    TREE_FOLDER,   /* name; what is in it follows, up to LEAVE */
    TREE_LEAVE,    /* mode: of the folder; value: when it was changed, in seconds */
    TREE_FILE,     /* name, mode; value: when it was changed; its content follows, up to DONE */
    TREE_DATA,     /* value: so many bytes follow */
    TREE_HOLE,     /* value: so many zeros */
    TREE_DONE,     /* value: 0, or the errno for which the file is left out */
    TREE_LINK,     /* name, NUL, target */
    TREE_LEFT,     /* name, "" for the folder that this is in; value: enum tree_left: why it is left out */
    TREE_NOTE,     /* to who sent a TAKE: a line of text */
    TREE_COUNTS,   /* TREE_COUNT numbers: what was made */
    TREE_END       /* value: 0, or errno, with a text */
};
enum tree_left { TREE_SPECIAL, TREE_DENIED, TREE_KERNEL, TREE_REPLACED };
enum {
    TREE_KINDS = TREE_END,
    TREE_REASONS = TREE_REPLACED + 1,
    TREE_HEADER = 16,
    TREE_NAME_MAX = 255,
    TREE_TEXT_MAX = TREE_NAME_MAX + 1 + 4096,
    TREE_DATA_MAX = 256 * 1024,
    TREE_COUNT = 5,    /* files, folders, links, bytes, what was left out */
    TREE_ONE = 1 << 16 /* one file or folder: that it cannot be made is a failure, not a note */
};

struct tree_record {
    enum tree_kind kind;
    uint16_t len;  /* of the text that follows */
    uint32_t mode; /* permission bits */
    uint64_t value;
};
void tree_record_encode(const struct tree_record *r, uint8_t out[static TREE_HEADER]);
/* -EBADMSG: no kind of ours, or out of bounds. */
int tree_record_decode(const uint8_t in[static TREE_HEADER], struct tree_record *ret);
/* One part of a path, that is neither "." nor "..". */
bool tree_name_ok(const char *name, size_t len);

void tree_counts_encode(const uint64_t n[static TREE_COUNT], uint8_t out[static 8 * TREE_COUNT]);
void tree_counts_decode(const uint8_t in[static 8 * TREE_COUNT], uint64_t ret[static TREE_COUNT]);
