/* SPDX-License-Identifier: Apache-2.0 */
/* What is removed: old runs, by age and by what all need on disk; and how much each tenant has there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "service/core/core_boxes.h"

enum {
    CLEAN_EVERY_MS = 60 * 1000,
    OLD_AT_ONCE = 16,
    CLEAN_AGAIN_MS = 2000,
    MEASURE_SOON_MS = 500,
    MEASURE_SHARE = 20 /* of the time it may take at most: one part in so many */,
    MEASURED_MAX = 1 << 20,
    DISK_RETRY = 60
};
#define HOUR_NS (3600 * UINT64_C(1000000000))

static int remove_old_run(struct run_row *row, void *arg) {
    struct core *c = arg;
    struct tenant *t = core_tenant(c, row->tenant);
    struct err err = {0};

    c->clean_at_ms = clock_ms() + CLEAN_AGAIN_MS; /* there may be more */
    core_measure_soon(c);
    if (t && core_remove_run(c, t, row->id, &err) < 0)
        core_log(c, "error", "clean", row->id, "%s", err.msg);
    return 0;
}

/* What has ended long ago goes, a few at a time; if all together is more than it may be, also what has ended lately, the oldest first. */
static void remove_old(struct core *c) {
    uint64_t now = clock_mark(), age = c->conf.keep_hours * HOUR_NS;
    struct err err = {0};
    bool over = c->conf.disk_budget && c->disk > c->conf.disk_budget;
    int64_t before = over ? INT64_MAX : now < age ? 0 : (int64_t)(now - age);
    int r = ledger_ask(&c->db, LEDGER_RUN_OLD, &err, "ii", before, (int64_t)OLD_AT_ONCE);

    if (r >= 0 && ledger_runs(&c->db, LEDGER_RUN_OLD, remove_old_run, c, &err) < 0)
        core_log(c, "error", "clean", "", "%s", err.msg);
}

/* A process of our own user removes what is in the trash, meanwhile. */
static void start_cleaner(struct core *c) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    char *argv[] = {"bawn-task", "--remove", NULL};
    const struct spawn s = {.path = program, .argv = argv, .cwd = c->trash};

    if (!program || c->cleaner_pid || spawn_start(&s, &c->cleaner_pid, NULL) < 0)
        c->clean_at_ms = clock_ms() + 1000;
}

/* -- how much there is -------------------------------------------------------------------------------------------------------- */

bool call_disk_full(struct api_call *call) {
    const struct tenant *t = call->tenant;

    if (t->row.quotas[QUOTA_DISK] == QUOTA_NONE || t->disk < t->row.quotas[QUOTA_DISK])
        return false;
    core_measure_soon(call->core); /* something may have been removed */
    call_retry(call, API_PROBLEM_QUOTA, DISK_RETRY, "this tenant has as many bytes on disk as it may have; remove runs or files");
    return true;
}

void core_measure_soon(struct core *c) {
    uint64_t soon = clock_ms() + MAX_OF((uint64_t)MEASURE_SOON_MS, MEASURE_SHARE * c->measure_ms);

    c->measure_at_ms = c->measure_at_ms ? MIN_OF(c->measure_at_ms, soon) : soon;
}

static bool is_measured(const struct core *c) {
    if (c->conf.disk_budget)
        return true;
    for (size_t i = 0; i < c->n_tenants; i++)
        if (c->tenants[i]->row.quotas[QUOTA_DISK] != QUOTA_NONE)
            return true;
    return false;
}

/* A process of our own user looks at the folders of all tenants; no link is followed, and nothing is opened but folders. */
static void start_measure(struct core *c) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    char *argv[] = {"bawn-task", "--usage", NULL};
    int fds[] = {-1, memfd_create("usage", MFD_CLOEXEC)};
    const struct spawn s = {.path = program, .argv = argv, .cwd = c->tenants_dir, .fds = fds, .n_fds = ARRAY_LEN(fds)};

    if (!program || fds[1] < 0 || spawn_start(&s, &c->measure_pid, NULL) < 0)
        closep(&fds[1]);
    else
        c->measured = fds[1];
    c->measure_began_ms = clock_ms();
}

/* Lines: bytes, a space, the name of a tenant. */
static void take_measured(struct core *c) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(MEASURED_MAX);
    char *line, *next;

    for (ssize_t n = 1; n > 0;) {
        char part[4096];

        n = pread(c->measured, part, sizeof part, (off_t)text.len);
        if (n > 0)
            buf_add(&text, part, (size_t)n);
    }
    c->disk = 0;
    for (line = text.data; buf_ok(&text) && line && (next = strchr(line, '\n')); line = next + 1) {
        char *space = memchr(line, ' ', (size_t)(next - line));
        struct tenant *t;
        uint64_t bytes;

        *next = 0;
        if (!space)
            continue;
        *space = 0;
        if (parse_u64(line, 0, UINT64_MAX / 2, &bytes, NULL) < 0)
            continue;
        c->disk += bytes;
        t = core_tenant(c, space + 1);
        if (t)
            t->disk = bytes;
    }
}

void core_clean_reaped(struct core *c, pid_t pid, int status) {
    if (pid == c->cleaner_pid)
        c->cleaner_pid = 0;
    if (pid != c->measure_pid)
        return;
    c->measure_pid = 0;
    c->measure_ms = clock_ms() - c->measure_began_ms;
    if (process_exit_status(status) == 0)
        take_measured(c);
    closep(&c->measured);
    if (c->conf.disk_budget && c->disk > c->conf.disk_budget)
        c->clean_at_ms = MIN_OF(c->clean_at_ms, clock_ms());
}

void core_clean_times(struct core *c, uint64_t now_ms) {
    if (c->clean_at_ms <= now_ms) {
        c->clean_at_ms = now_ms + CLEAN_EVERY_MS;
        remove_old(c);
        start_cleaner(c);
        core_measure_soon(c);
        usage_forget(c);
        for (size_t i = 0; i < c->n_tenants; i++)
            if (c->tenants[i]->boxes)
                boxes_look(c, c->tenants[i]);
    }
    if (!c->measure_at_ms || c->measure_at_ms > now_ms)
        return;
    if (c->measure_pid)
        c->measure_at_ms = now_ms + MEASURE_SOON_MS;
    else {
        c->measure_at_ms = 0;
        if (is_measured(c))
            start_measure(c);
    }
}
