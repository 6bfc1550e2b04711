/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of bawnd: /etc/bawn/bawnd.json, of a user's own $XDG_CONFIG_HOME/bawn/bawnd.json (spec/bawnd.schema.json, docs/service.md). */
#pragma once

#include "base/macros.h"
#include "base/strv.h"
#include "service/core/ledger.h"

struct err;

/* Runs of a class have these secrets of their tenant, and no others. */
struct core_class {
    char *name;
    struct strv secrets;
};

struct core_conf {
    char *state, *runtime, *socket; /* absolute paths */
    struct strv listen;             /* "127.0.0.1:8443" */
    struct strv hosts;              /* names that Host may have */
    char *certificate, *key;        /* PEM; both or none */
    bool any_user;                  /* every local user is a tenant, through the socket */
    bool full_sync;
    uint64_t running;     /* the most runs at once */
    uint64_t queued;      /* the most runs that wait */
    uint64_t uid_base;    /* of tenants: this + its number */
    uint64_t output_max;  /* bytes of each stream of a run */
    uint64_t keep_hours;  /* what is left of a run is removed after this time */
    uint64_t disk_budget; /* bytes of all tenants; past it the oldest runs are removed. 0: none */
    uint64_t upload_max, json_max;
    uint64_t quotas[QUOTAS]; /* of a tenant that has none of its own */
    struct core_class *classes;
    size_t n_classes;
    char *log;            /* its file; NULL: stderr */
    char *trace;          /* the file of traces; NULL: none */
    uint64_t log_size;    /* bytes; then it, or that of traces, is rotated */
    uint64_t log_files;   /* older ones */
    char *bawn, *helpers; /* the program, and the folder of the others */
};
void core_conf_done(struct core_conf *c);

struct addrinfo;
/* "127.0.0.1:8443", "[::1]:8443"; the caller frees it (freeaddrinfo(3)). */
int core_conf_address(const char *text, struct addrinfo **ret, struct err *err);

/* path: NULL for the usual place, which may be missing. */
int core_conf_load(const char *path, struct core_conf *ret, struct err *err);
