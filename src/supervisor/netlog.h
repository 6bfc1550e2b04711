/*
 * What the network was asked for, and the verdicts: one JSON object on each line of $XDG_STATE_HOME/bawn/log/network.jsonl (0600), for
 * `bawn policy log` (spec/network-log.md). All sandboxes of a user append to the same file; one write() holds whole lines only, so
 * lines of two supervisors never mix. At NETLOG_SIZE_MAX it becomes network.jsonl.1, and the older one of that name is gone.
 */
#pragma once

#include "base/macros.h"

struct err;
struct gate_msg;
struct netlog;

enum { NETLOG_SIZE_MAX = 16 * 1024 * 1024, NETLOG_BATCH = 64 * 1024 };

/* state: $XDG_STATE_HOME/bawn. Folder and file are made when the first line is written. */
int netlog_new(const char *state, const char *sandbox, struct netlog **ret, struct err *err);
void netlog_free(struct netlog *l); /* flushes */
/* kind: the name of the event; m has passed gatemsg_sane(). */
void netlog_add(struct netlog *l, const char *kind, const struct gate_msg *m);
/* Writes what was added. A log that cannot be written is told once and does not hurt the run. */
void netlog_flush(struct netlog *l);
