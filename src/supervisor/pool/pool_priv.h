/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "jail/apply/blank.h"
#include "jail/apply/template.h"
#include "supervisor/pool/pool.h"

enum { POOL_TEMPLATES_MAX = 4 };

/* What the host shows may change: then templates are out of date, and all of them are dropped. */
struct pool_templates {
    struct template v[POOL_TEMPLATES_MAX]; /* bytes NULL: none */
    size_t next;                           /* whose place the next one takes */
    char *wanted;                          /* what the next one is made of, when there is time; NULL: nothing */
    size_t wanted_len;
    int changes; /* inotify: the folders that hold what is shown; -1: none yet */
    int mounts;  /* /proc/self/mountinfo */
    uint64_t trees;
};

enum { POOL_CLIENTS_MAX = 64 };

struct pool {
    const struct pool_options *opt;
    int folder, listener;
    int clients[POOL_CLIENTS_MAX]; /* connected, and nothing said yet */
    size_t n_clients;
    struct plan_ids ids; /* of the next blank */
    uint32_t next_id;    /* root: counts up */
    struct blank *ready;
    struct pool_templates templates;
    size_t n_ready;
    uint64_t taken, missed, last_take_ms, retry_ms;
    char why[POOL_WHY_MAX];
    struct pool_view view;
    dev_t exe_dev;
    ino_t exe_ino;
    bool off;
};

/* pool_templates.c */
int pool_templates_init(struct pool_templates *t, struct err *err);
void pool_templates_done(struct pool_templates *t);
size_t pool_templates_count(const struct pool_templates *t);
/* Before each use, so that no client gets a template of what the host showed before. */
void pool_templates_look(struct pool_templates *t);
/* A tree of the template with these bytes; -1 if there is none, and then it is made when there is time. */
int pool_templates_tree(struct pool_templates *t, const char *bytes, size_t len);
/* It is made when there is time, unless it is there. */
void pool_templates_want(struct pool_templates *t, const char *bytes, size_t len);
void pool_templates_work(struct pool_templates *t); /* there is a wanted one */
