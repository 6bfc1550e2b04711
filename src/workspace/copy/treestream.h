/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder that is not on this kernel: what stands for it is a stream socket to a process that has it open (proto/link/treemsg.h). It is asked once,
 * for what is in the folder, or takes something into it; transfer.h says how things are looked at and put in their place, at both ends.
 *
 * Who asks believes nothing: a name is one part of a path, in a folder that was made or opened here without following a link.
 */
#pragma once

#include "proto/link/treemsg.h"
#include "workspace/copy/transfer.h"

bool tree_is_remote(int fd); /* such a socket */

/* What is in the remote folder comes into the folder `to`, as transfer_tree() does it. */
int tree_ask(int sock, struct transfer *t, int to, struct err *err);

/* A file, what is in a folder, or (name is set) the folder itself, into the remote folder; t->umask_ holds there. The counts and notes are what the
 * other end says. */
struct tree_gift {
    int from;
    mode_t mode;      /* of a file, or S_IFDIR */
    const char *name; /* NULL: what is in the folder */
};
int tree_give(int sock, struct transfer *t, const struct tree_gift *g, struct err *err);

/* The other end: does what is asked, once. */
int tree_serve(int sock, int folder);

/* -- between tree_*.c ----------------------------------------------------------------------------------------------------- */

enum { TREE_IN = 64 * 1024, TREE_OUT = 128 * 1024 };
struct tree_io {
    int fd, error; /* error: of writing; it stays */
    size_t in_at, in_len, out_len;
    char text[TREE_TEXT_MAX + 1]; /* of the last record, with a NUL behind it */
    uint8_t in[TREE_IN], out[TREE_OUT];
};

/* tree_io.c. Writing: errors are seen by tree_flush(). */
void tree_put(struct tree_io *io, const struct tree_record *r, const void *text);
/* The next bytes of a file as one DATA, at most max; at: where in it, -1 if it is a stream. How many, 0 at its end, -errno. */
long tree_put_data(struct tree_io *io, int file, off_t at, uint64_t max);
int tree_flush(struct tree_io *io);
/* The next record, its text in io->text; -EPROTO: none of ours, or the stream has ended. */
int tree_get(struct tree_io *io, struct tree_record *ret);
/* Some bytes of a DATA, at most len: where they are. */
long tree_get_data(struct tree_io *io, size_t len, const uint8_t **ret);

/* tree_send.c: up to END. one_mount: nothing of what is mounted in it. */
int tree_send(struct tree_io *io, int folder, bool one_mount, struct err *err);
/* How a tree was taken: notes, counts, result. Who reads it believes nothing either. */
int tree_answer(struct tree_io *io, const struct transfer *t, int result, const struct err *err);
int tree_read_answer(struct tree_io *io, struct transfer *t, struct err *err);
/* tree_receive.c: the same. one: see TREE_ONE. */
int tree_receive(struct tree_io *io, struct transfer *t, int to, bool one, struct err *err);
