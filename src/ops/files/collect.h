/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox leaves behind, in one piece (`bawn collect`): output of a job, changes, events, chosen files. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/strv.h"
#include "ops/sandbox/sandbox_pick.h"

struct err;
struct tarball;

enum {
    COLLECT_FILES_MAX = 64 * 1024 * 1024, /* bytes of chosen files in JSON, together */
    COLLECT_JSON_MAX = 512 * 1024 * 1024,
    COLLECT_OUTPUT_MAX = 32 * 1024 * 1024, /* bytes of each stream of a job */
    COLLECT_EVENTS_MAX = 64 * 1024 * 1024,
    COLLECT_DIFF_MAX = 64 * 1024 * 1024,
    COLLECT_DEPTH_MAX = 256
};

struct collected {
    int job;    /* 0: none ran in the background */
    bool ended; /* status and signal are known */
    int status, signal;
    struct buf streams[2]; /* stdout, stderr */
    struct buf diff;       /* a patch, as `bawn diff` prints it */
    struct buf changed;    /* JSON: [{"kind": "added", "path": "a"}, ...] */
    struct buf events;     /* lines of the audit log */
    struct strv notes;     /* what is missing, and why */
};
#define COLLECTED_INIT                                                                                               \
    {                                                                                                                \
        .streams = {BUF_INIT(COLLECT_OUTPUT_MAX), BUF_INIT(COLLECT_OUTPUT_MAX)}, .diff = BUF_INIT(COLLECT_DIFF_MAX), \
        .changed = BUF_INIT(COLLECT_DIFF_MAX), .events = BUF_INIT(COLLECT_EVENTS_MAX)                                \
    }
void collected_done(struct collected *c);

struct collect_request {
    const char *sandbox; /* NULL: the project's own */
    struct strv files;   /* also these files and folders of the sandbox, which must run then */
    uint64_t job;        /* whose output; 0: the latest */
    bool no_diff;        /* without the patch and the list of changes */
    bool tar;            /* else JSON */
    const char *output;  /* a file that appears when all of it is there; NULL: fd */
    int fd;
};

/* Gathers and writes. ret->notes are for the user, also after a failure. */
int collect(const struct collect_request *q, struct collected *ret, struct err *err);

/* {"path": ..., "mode": "0644", "size": n, "base64": "..."} */
int collect_json_file(struct buf *b, const char *path, int fd, const struct stat *st, struct err *err);

/* -- parts of it --------------------------------------------------------------------------------------------------------- */

/* collect_parts.c. job 0: the latest. -ENOENT: no such job. */
int collect_job(const struct sandbox_pick *p, int job, struct collected *ret, struct err *err);
int collect_events(const struct sandbox_pick *p, struct collected *ret, struct err *err); /* also how the job ended */
int collect_changes(const struct sandbox_pick *p, struct collected *ret, struct err *err);

/* collect_files.c: a file, or all in a folder, of a sandbox that runs; path from inside_path(). */
int collect_tar(const struct sandbox_pick *p, const char *path, struct tarball *t, struct strv *notes, struct err *err);
/* Adds objects, with the comma between. *left: bytes of content that may still come. */
int collect_json(const struct sandbox_pick *p, const char *path, struct buf *b, uint64_t *left, struct strv *notes,
                 struct err *err);
