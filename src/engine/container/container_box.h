/* SPDX-License-Identifier: Apache-2.0 */
/* A container that runs, as container*.c share it. */
#pragma once

#include "engine/container/container.h"
#include "engine/private_dir.h"

/* What there is on the host besides the descriptors of the sandbox. */
struct container_box {
    const struct container_kind *kind;
    bool by_bytes, selinux;
    bool remote;                 /* on another machine, to which nothing can be mounted: by_bytes, too */
    char where[CONTAINER_WHERE]; /* that machine, for messages and for what is left there */
    char cid[80];                /* the container there, "": none */
    bool filled;                 /* it has our folders */
    bool other_limits;           /* SANDBOX_FLAGS have some */
    bool own_kernel;             /* not this machine's Linux: by_bytes, too */
    const struct cgroup *cgroup; /* of ours, that the engine's program is put into; NULL: none */
    struct container_cli cli;
    char enter[PATH_MAX], init[PATH_MAX];
    struct container_folder folder;
    struct container_plan plan;
    const struct plan *run_plan; /* once what is ours was given to the sandbox; lives longer than it */
    struct strv argv;
    char *image;
    struct private_dir image_root; /* runsc: the layers of an image as one tree */
    uint64_t started_ms, limit_ms; /* limit 0: none */
    bool patient;                  /* the user knows that it takes long */
    bool doubtful;                 /* the engine's program failed or was killed: there may be a container */
    pid_t pid;                     /* of the engine's program */
    int pidfd, messages;
    int first; /* pidfd of the first process inside; -1: not known */
    struct buf said;
};

/* The engine's program. stream: its standard input and output; -1: none, and what it prints is a message. */
int container_launch(struct container_box *b, int stream, struct err *err);
int container_wait(struct container_box *b);           /* its wait status */
bool container_ended(struct container_box *b, int ms); /* waits so long for it */
void container_kill(struct container_box *b);
/* Until fd can be read; fails once the engine gives up, time is over, or a signal asks us to end. */
int container_await(struct container_box *b, int fd, struct err *err);
void container_read_messages(struct container_box *b);
/* The listeners, from the control socket. */
int container_listeners(struct container_box *b, struct sandbox *sb, struct err *err);

bool container_image_missing(const struct container_box *b); /* says the engine */

/* container_stale.c: removes the containers with this label, or (NULL) of all that are dead. 0 once none is left; else the engine's status or
 * -errno. */
int container_remove(const struct container_box *b, const char *label);
