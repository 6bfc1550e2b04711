/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network was asked for, and the verdicts: one JSON object on each line of $XDG_STATE_HOME/bawn/log/network.jsonl
 * (0600), for `bawn policy log` (spec/network-log.md). All sandboxes of a user append to the same file; one write() holds whole
 * lines only, so lines of two supervisors never mix. At NETLOG_SIZE_MAX it becomes network.jsonl.1, and the older one of that
 * name is gone.
 */
#pragma once

#include "audit/audit.h"

struct err;
struct gate_msg;
struct netlog;

enum { NETLOG_SIZE_MAX = 16 * 1024 * 1024, NETLOG_BATCH = 64 * 1024 };
/*
 * Budgets, so that a sandbox cannot push out what it did before, or what others did. In the network log a sandbox has a share of the file
 * for each class of event; in the audit log so many lines of a class at once, then one a minute. What comes past that
 * is merged: repeats become one line with a count, written after a pause that grows, and at the end. The first use and the first
 * block of each credential are always written at once. A refusal that is the same for the NETLOG_REPEATS-th time is merged in any case.
 */
enum { NETLOG_AUDIT_BURST = 1000, NETLOG_AUDIT_EVERY_MS = 60 * 1000, NETLOG_REPEATS = 20 };

/* state: $XDG_STATE_HOME/bawn; sandbox: borrowed; a persistent one may be renamed. Folder and file are made when the first line is written. */
int netlog_new(const char *state, const char *sandbox, struct netlog **ret, struct err *err);
void netlog_free(struct netlog *l); /* finishes */
/* type: AUDIT_NETWORK, AUDIT_ASK or AUDIT_SECRET; kind: the name of the event or answer, static; m has passed gatemsg_sane(). count: how many
 * of them, 1 or more. */
void netlog_add(struct netlog *l, enum audit_type type, const char *kind, const struct gate_msg *m, uint64_t count);
/* Events of the audit log, too, from now on; audit is borrowed, may be NULL, and is flushed with this one. */
void netlog_also(struct netlog *l, struct audit *audit);
void netlog_audit(struct netlog *l, enum audit_type type, const char *kind, const struct gate_msg *m, uint64_t count);
/* A refusal. Returns false if it comes again and again: then it was merged, in both logs. Else it is yours to add. */
bool netlog_is_new(struct netlog *l, const char *kind, const struct gate_msg *m);
/* Writes what was added. A log that cannot be written is reported once and does not end the run. */
void netlog_flush(struct netlog *l);
/* Milliseconds until netlog_flush() has merged lines to write; -1: there are none. */
int netlog_timeout(const struct netlog *l);
void netlog_finish(struct netlog *l); /* the same, and all that was merged */
