/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that a gate gets: the files (policy_files.h), which are read again when they change while a gate runs, and what the user
 * decided for this run alone. A file that cannot be read is reported, and the old rules stay.
 */
#pragma once

#include "supervisor/network/policy_files.h"

struct published;
struct run_credentials;

enum { GATE_SESSION_MAX = 1000, GATE_FLOWS_MAX = 4096 };

struct gate_rules {
    const struct policy_where *where;
    struct policy_files files;
    struct rules session;
    const struct run_credentials *credentials; /* NULL: none */
    uint32_t generation;                       /* of the last configuration that the gate got */
    bool can_ask;
    uint64_t watch_ms;    /* when to begin to watch; 0: not */
    int inotify;          /* -1: not watched */
    uint64_t reported_ms; /* a mistake in a file */
    uint64_t last_ms;     /* when the files were read */
    uint64_t reload_ms;   /* when to look at the files again; 0: not */
};
#define GATE_RULES_INIT \
    { .inotify = -1 }

void gate_rules_done(struct gate_rules *r);

/* Reads the files again; true if what counts is not as before. */
bool gate_rules_reload(struct gate_rules *r);
/* Watches the files' folders soon: closing an inotify instance waits for an RCU grace period, often 10 ms, which no short run should
 * pay (as in latecomers.h). Files that change are read a little later, when their writer is done. */
void gate_rules_watch(struct gate_rules *r);
void gate_rules_unwatch(struct gate_rules *r);
int gate_rules_timeout(const struct gate_rules *r);
/* Call when the inotify descriptor is readable, and at the timeout. True: a new configuration has to be sent. */
bool gate_rules_handle(struct gate_rules *r);

/* A configuration of this generation, encoded, as a memfd. */
int gate_rules_config(const struct gate_rules *r, const struct published *pub, int *ret_fd, struct err *err);

/* One rule in front of the others of this run, or of the user's file for good. text: a JSON object as in a file with rules. */
int gate_rules_add_session(struct gate_rules *r, const char *text, char ret_id[static RULE_ID_MAX + 1], struct err *err);
int gate_rules_add_always(struct gate_rules *r, const char *text, struct err *err);
/* The rule that allows what this question asks for, as such an object. -ENOTSUP: no rule can say exactly this. */
int gate_rules_for(const struct gate_msg *question, struct buf *out);
