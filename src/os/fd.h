/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: owners, whole reads and writes. Everything opened here is close-on-exec. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;

void closep(int *fd); /* CLEANUP(closep) int fd = -1; */

ssize_t fd_pread_full(int fd, void *buf, size_t len, off_t at); /* less only at the file's end; -errno */
ssize_t fd_read_full(int fd, void *buf, size_t len);            /* the same from where the descriptor is */
ssize_t fd_read_some(int fd, void *buf, size_t len);            /* retries EINTR; -errno */
int fd_write_all(int fd, const void *buf, size_t len);          /* 0 or -errno; fd must be blocking */

/* The whole of a small file as a NUL-terminated string in buf; returns its length, -EFBIG if it does not fit. */
ssize_t fd_read_file_at(int dirfd, const char *path, char *buf, size_t size);
/* Opens, writes everything in one write(2) (as /proc and cgroup files want it) and closes. */
int fd_write_file_at(int dirfd, const char *path, const char *text);

/* A pipe, close-on-exec. 0 or -errno; nothing is written on failure. */
int fd_pipe(int *ret_read, int *ret_write);
/* A memfd with this content, to be read from its beginning. The name is for /proc only. -errno */
int fd_memory(const char *name, const void *data, size_t len);

void fd_close_all(const int *fds, size_t n);
/* Closes every descriptor >= first. */
int fd_close_from(unsigned first);
/* Moves fd to a number >= min (so that 0..2 can be filled in freely). Takes fd; returns the new one or -errno. */
int fd_move_above(int fd, int min);
