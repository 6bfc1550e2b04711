/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One log as a chain of lines, and the files that it is in (spec/audit-events.md). Every append holds flock() on the head:
 *
 *     NAME.head       128 bytes: sequence number of the last line, size of NAME.jsonl, the number that file gets when it is
 *                     full, and the last line's hash
 *     NAME.jsonl      only ever appended to
 *     NAME.jsonl.N    full ones
 *
 * Order of writing, so that a kill -9 at any point leaves what the next writer understands: a new log: head, index, line. A
 * line: line, head. A rotation: index, rename, head. A file that is dropped: index, unlink.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/sha256.h"

enum { CHAIN_NAME_MAX = 80, CHAIN_HEAD_SIZE = 128, CHAIN_AROUND_MAX = 256 /* what a line has besides its record */ };
#define CHAIN_INDEX "index"

struct chain {
    int dir;         /* of all logs; borrowed */
    const char *log; /* name; borrowed */
    const char *ids; /* members of every line: "\"sandbox\":\"x\",..."; borrowed */
    uint64_t full;   /* bytes at which a file is; 0: near AUDIT_SIZE_MAX, but in tests */
    int head, data;  /* -1 until they are needed */
    uint64_t number; /* of the file that `data` is */
    pid_t pid;       /* who opened them: a lock is shared with the children of a fork, so they open their own */
};
#define CHAIN_INIT \
    { .dir = -1, .head = -1, .data = -1 }
void chain_done(struct chain *c);

/* Letters, digits, '-', '_', '.', the first a letter or digit. */
bool chain_name_ok(const char *log, size_t len);

/* A record is a line without number and hashes: time, type, ids, pid, members ("" or NULL: none). */
void chain_record(struct buf *b, const char *type, const char *ids, const char *members);
/* Appends records, each ended by '\n', as lines. Nothing of them is in the log if it fails. 0 or -errno. */
int chain_append(struct chain *c, const char *records, size_t len);

/* -- parts, for repair and verification ---------------------------------------------------------------------------------- */

struct chain_head {
    uint64_t seq, size, number;
    char hash[SHA256_HEX_SIZE];
};
/* What the first line has as "prev": two logs cannot be exchanged. */
void chain_start(const char *log, struct chain_head *ret);
/* 0; -ENODATA: it is empty; -EBADMSG: it is none. */
int chain_head_read(int fd, struct chain_head *ret);
int chain_head_write(int fd, const struct chain_head *h);

struct chain_line {
    uint64_t seq;
    char prev[SHA256_HEX_SIZE], hash[SHA256_HEX_SIZE];
    bool intact; /* the hash is that of the line */
};
/* line: without its '\n'. -EBADMSG: no line of a log. */
int chain_line_read(const char *line, size_t len, struct chain_line *ret);

/* Lines of a file one after the other. A line that is longer than any of ours comes with len 0. */
struct chain_reader {
    int fd;
    uint64_t at, end; /* offset of the next line; where to stop */
    char *data;
    size_t len, used;
    uint64_t offset; /* of the bytes in data */
};
void chain_reader_done(struct chain_reader *r);
int chain_reader_init(struct chain_reader *r, int fd, uint64_t from, uint64_t end);
/* 1: a line, without its '\n'. 0: the end; r->at < r->end: what is left is no whole line. -errno. */
int chain_reader_next(struct chain_reader *r, const char **ret_line, size_t *ret_len);

/* Names of the files. */
#define CHAIN_FILE_MAX (CHAIN_NAME_MAX + 32)
void chain_file(const char *log, uint64_t number, char ret[static CHAIN_FILE_MAX]); /* number 0: the current one */
/* The other way: length of the log's name, 0 if the file is no log's. */
size_t chain_file_parse(const char *file, uint64_t *ret_number);

/* repair.c: *h is not what the file is. Sets it right; what the log has to say about it is added as a record. h->number == 0:
 * there is no head that can be read. */
int chain_repair(struct chain *c, struct chain_head *h, struct buf *record);
/* repair.c, too: the file is full. */
int chain_rotate(struct chain *c, struct chain_head *h);
/* Once for each log: a second time tells that it was removed and begun anew. !fresh: a writer was killed on the way, perhaps behind this. */
int chain_note_new(struct chain *c, bool fresh);
/* The largest N of NAME.jsonl.N; 0: none. */
int chain_last_number(const struct chain *c, uint64_t *ret);
/* What root makes in the folder of another user belongs to that user, who could not open it otherwise. */
int chain_open_file(const struct chain *c, const char *file, int flags);
