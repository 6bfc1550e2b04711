/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool of direct mode: a file in the run's folder into which the guard (bawn-init) itself puts what is about to change, so that most changes
 * wait for no process. The supervisor takes it over into the journal (workspace/run/journal.h) when the guard asks for something, when the spool is full
 * and at the end. It is there before the change is, also after a `kill -9` of both: then readers of the journal find it.
 *
 * Entries follow each other from the beginning: struct spool_head, the path with its NUL, the content, and the head's seq once more, which is written last. A
 * spool that was taken over is written from its beginning again; the numbers tell what is new, and what is old is in the journal. They begin at random: what
 * is old has contents of files, which the sandbox may have written. In the order of the machine: it never outlives the run but after a crash.
 */
#pragma once

#include "base/macros.h"

#define SPOOL_NAME "spool"

enum {
    SPOOL_SIZE = 1024 * 1024,
    SPOOL_CONTENT_MAX = 64 * 1024 /* larger files are the supervisor's */
};

struct spool_head {
    uint64_t seq;      /* counts up, from a random one on; not 0 */
    uint32_t mode;     /* st_mode of what is there: a file or a folder; 0: nothing */
    uint32_t named;    /* 1: by name only */
    uint32_t path_len; /* relative to the workspace, without its NUL */
    uint32_t content_len;
    uint64_t size, mtime_ns, dev, ino;
};

struct spool_entry {
    struct spool_head head;
    const char *path, *content; /* in the bytes that were read */
};

/* Bytes of an entry in all. */
static inline size_t spool_len(size_t path_len, size_t content_len) {
    return sizeof(struct spool_head) + path_len + 1 + content_len + sizeof(uint64_t);
}
/* The entry at data, of which len bytes are there: its length; 0: there is none, or not all of it. seq: the number that it must have; 0: any. Says nothing
 * about the path but that it is a string. */
size_t spool_decode(const char *data, size_t len, uint64_t seq, struct spool_entry *ret);
