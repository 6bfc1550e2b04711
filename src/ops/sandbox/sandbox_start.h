/* SPDX-License-Identifier: Apache-2.0 */
/* How a persistent sandbox comes to run: for `bawn start`, `shell`, `exec --start`, and `bawn run` with keep_alive. */
#pragma once

#include "base/sha256.h"
#include "registry/registry.h"

struct err;
struct notice;
struct run_prepared;
struct run_request;
struct settings;

struct sandbox_start {
    const char *name;                  /* NULL: the project's own */
    const char *dir;                   /* the workspace; NULL: the current folder, or for a known one its own */
    const struct run_request *request; /* what shapes it; NULL, or nothing said: a known one has what it had */
    char **argv;                       /* a command to run in the background; NULL: none */
    const struct notice *notice;
};

struct sandbox_started {
    char name[BOX_NAME_MAX + 1];
    bool made;    /* there was none */
    bool running; /* it was running already */
    int job;      /* of the command; 0: none */
};

/* One that runs as it is asked for is success. -EBUSY: it runs with other options, or another process is about to start it. A failure leaves nothing that was not there. If an agent is named
 * that has a preset, the command is its program, and argv are its arguments. */
int sandbox_start(const struct sandbox_start *s, struct sandbox_started *ret, struct err *err);

/* For keep_alive: the project's own sandbox of this name, as `p` says. Its folder gets the options of the request, also if there are none. */
int sandbox_start_project(const char *name, const struct run_prepared *p, const struct settings *s, struct err *err);

/* What makes two sandboxes different: all settings but variables, which each command brings itself, and the rules of what
 * is hidden. */
int sandbox_digest(const struct run_prepared *p, const struct settings *s, char ret[static SHA256_HEX_SIZE], struct err *err);
/* The digest that it was started with last; "": not known. */
void sandbox_started_digest(const struct box *b, char ret[static SHA256_HEX_SIZE]);
