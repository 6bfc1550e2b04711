/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long output, through the user's pager when it goes to a terminal. What reaches a terminal is filtered (proto/termfilter.h):
 * it may come from a process that was taken over by what it read.
 */
#pragma once

#include <sys/types.h>

#include "proto/termfilter.h"

struct err;

struct pager {
    int fd;    /* its standard input, or our standard output */
    pid_t pid; /* -1: none */
    bool terminal;
    int failed; /* -errno of the first write that failed; nothing is written after it */
    struct termfilter filter;
};

/* Starts $PAGER (less -FRX) if `wanted` and the standard output is a terminal. Without one, output goes straight out. */
void pager_begin(struct pager *p, bool wanted);
void pager_write(const char *data, size_t len, void *pager); /* pager: struct pager */
/* Waits until the user has left it. Fails if something could not be written; a reader who had enough is no failure. */
int pager_end(struct pager *p, struct err *err);
