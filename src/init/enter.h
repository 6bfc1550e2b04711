/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-enter: the first program of a container that another engine made, before it becomes bawn-init.
 *
 * Theory of operation. The engine starts it as root of the container with three capabilities: to make the listeners (NET_ADMIN), and to become the
 * user of the sandbox for good (SETUID, SETGID; SETPCAP empties the bounding set). Nothing of the workload runs yet. It then connects to the
 * supervisor's socket, which is mounted into the container, takes the descriptors that bawn-init is born with, fills the private folders,
 * sends the listeners, and executes bawn-init.
 *
 *   Should: have no capability, no other id and no descriptor of its own when bawn-init begins.
 *   Mustn't: read any file of the image, or follow a link of it: what it makes is in folders that were empty when it began.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "jail/network/network.h"

#define ENTER_LIST_NAME "/list" /* beside bawn-init, where it does not come over the socket */
enum { ENTER_FD_CONTROL = 3, ENTER_FD_START = 4, ENTER_FD_GUARD = 5, ENTER_FDS = 6 };

struct enter {
    uid_t uid;
    gid_t gid;
    bool mapped;               /* root is the user who started the engine: it gets its own name back, which is UID */
    bool network;              /* make listeners */
    const char *socket, *init; /* socket "-": none is shared with the supervisor, the link is a byte stream on 0 and 1 */
    char **folders;            /* "MODE:PATH", for the user of the sandbox; NULL-terminated */
    struct listeners listeners;
    int fds[ENTER_FDS]; /* in the places that bawn-init has them; -1: none */
    int list;           /* what is to be made */
};

/* [--map] UID GID (network|loopback) SOCKET INIT [MODE:FOLDER]... */
int enter_parse(int argc, char **argv, struct enter *ret, struct err *err);
int enter_map(const struct enter *e, struct err *err); /* a user namespace in which root is called UID */
int enter_give(const struct enter *e, struct err *err);
int enter_become(const struct enter *e, struct err *err);
int enter_receive(struct enter *e, struct err *err);
int enter_make(const char *bytes, size_t len, struct err *err); /* the list of entermsg.h */
int enter_exec(struct enter *e, struct err *err);               /* returns only if it fails */
bool enter_by_bytes(const struct enter *e);
int enter_exec_linked(const struct enter *e, struct err *err); /* the same, for a byte stream */
