/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks every log of a folder (spec/audit-events.md, "Verification"): each line against its own hash and the line before, the
 * files of a log against each other, the end against the head, and all of them against the index. Writers are held up only
 * while a log's files are opened. The files may have been edited: nothing in them is believed.
 */
#pragma once

#include "base/buf.h"

struct err;

enum { VERIFY_FAULTS_MAX = 1000 }; /* that are listed; all are counted */

struct verify_file {
    char *name;
    uint64_t lines, first_seq, last_seq;
    char first_time[32], last_time[32]; /* escaped; "": none */
};

struct verify_fault {
    char *file;
    uint64_t line; /* 0: the file as a whole */
    char *what;    /* for people: "changed", "2 lines before it were removed", ... */
    bool note;     /* nothing is wrong: what a killed process left */
};

struct verify {
    struct verify_file *files;
    struct verify_fault *found;
    size_t n_files, n_found;
    uint64_t lines, faults; /* all together */
};
void verify_done(struct verify *v);

/* dir: the open folder. Fails only if it cannot read; faults are no failure. */
int verify_folder(int dir, struct verify *ret, struct err *err);

/* -- between verify*.c --------------------------------------------------------------------------------------------------- */

struct chain_head;

/* One file of a log, as it was found. */
struct verify_part {
    size_t log;      /* which of the names */
    uint64_t number; /* 0: the current one */
    bool empty;
    char first_prev[65], last_hash[65];
    uint64_t first_seq, last_seq;
    uint64_t mark; /* where the head says that it ends */
    uint64_t mark_seq;
    char mark_hash[65]; /* and which line that is; "": none ends there */
};
struct verify_log {
    char *name;
    uint64_t number; /* the head's; 0: there is none */
    bool begun;      /* a line was written once */
    bool indexed;
};
/* A file that got its number, as the index knows it. */
struct verify_entry {
    size_t log;
    uint64_t number, last_seq;
    char last_hash[65];
    bool dropped;
};
struct verify_all {
    struct verify *v;
    int dir;
    struct verify_log *logs;
    struct verify_part *parts;
    struct verify_entry *entries;
    size_t n_logs, n_parts, n_entries;
};
int verify_say(struct verify *v, bool note, const char *file, uint64_t line, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* verify_file.c: the lines of one file, up to size. expect: what the first has to continue; NULL: any. */
int verify_lines(struct verify *v, int fd, const char *name, uint64_t size, const struct chain_head *expect,
                 struct verify_part *part);
int verify_index(struct verify_all *a, struct err *err);
