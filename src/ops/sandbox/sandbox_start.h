/* SPDX-License-Identifier: Apache-2.0 */
/* How a kept sandbox comes to run: for `bawn start`, `shell`, `exec --start`, and `bawn run` with keep_alive. */
#pragma once

#include "base/sha256.h"
#include "cli/run/run_options.h"
#include "registry/registry.h"

struct err;

struct sandbox_start {
    const char *name;    /* NULL: the project's own */
    const char *dir;     /* -C: the workspace; NULL: the current folder, or for a known one its own */
    bool project;        /* made by keep_alive, if it is made */
    struct strv options; /* what shapes it, one "--name=value" each; none: a known one has what it had */
};
void sandbox_start_done(struct sandbox_start *s);

/* Adds an option of RUN_SHAPE_OPTS, or --idle, as it was typed. */
int sandbox_start_add(struct sandbox_start *s, const struct opt *o, const char *value, struct err *err);

/* Those of a command line of `bawn run`, which was parsed before with this table; but not --env, which is for its command
 * alone. */
int sandbox_start_collect(struct sandbox_start *s, const struct opt *opts, size_t n, int argc, char **argv, struct err *err);

struct sandbox_started {
    char name[BOX_NAME_MAX + 1];
    bool made;        /* there was none */
    bool replaced;    /* its options are others now */
    struct strv argv; /* the command, where an agent's preset was named: its program and `argv` behind it; else `argv` */
};
void sandbox_started_done(struct sandbox_started *s);

/* -EBUSY: it runs already, or another process is about to start it. A failure leaves nothing that was not there. argv:
 * NULL or a command. */
int sandbox_start(const struct sandbox_start *s, char **argv, struct sandbox_started *ret, struct err *err);

/* For keep_alive: the same with settings that are loaded. The folder gets these options, also if there are none. */
int sandbox_start_loaded(const struct sandbox_start *s, const struct run_args *a, const struct host_facts *facts,
                         const struct settings *settings, struct err *err);

/* What makes two sandboxes different: all settings but variables, which each command brings itself, and the rules of what
 * is hidden. */
int sandbox_digest(const struct run_args *a, const struct settings *s, char ret[static SHA256_HEX_SIZE], struct err *err);
/* The digest that it was started with last; "": not known. */
void sandbox_started_digest(const struct box *b, char ret[static SHA256_HEX_SIZE]);
