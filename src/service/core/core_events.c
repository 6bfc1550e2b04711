/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a tenant: lines of JSON in $STATE/tenants/NAME/events, which only grows. The id of an event is the offset of its end, as in the
 * events of a run.
 *
 * Neither lost nor written twice by kill -9: the lines of a turn and the offset that they belong to are committed with what they tell of, and
 * written after the commit. A bawnd that begins writes those of the last turn again, to the same place.
 *
 * What is older than EVENTS_STORED bytes is given back to the file system as a hole; offsets stay what they were.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "service/core/core.h"

#define EVENTS_STORED (UINT64_C(64) << 20)
#define EVENTS_STEP (UINT64_C(16) << 20)

static int open_events(struct core *c, struct tenant *t, struct err *err) {
    struct stat st;
    int r = t->events >= 0 ? 0 : core_tenant_place(c, t, err);

    if (r < 0 || t->events >= 0)
        return r;
    t->events = openat(t->dir, "events", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->events < 0 || fstat(t->events, &st) < 0)
        return err_sys(err, -errno, "open the events of tenant '%s'", t->row.name);
    t->events_at = (uint64_t)st.st_size;
    return 0;
}

void core_event(struct core *c, struct tenant *t, const char *kind, const char *id, const char *state, const char *reason) {
    struct jsonout j = {.to = &t->events_out, .compact = true};
    char now[CLOCK_TEXT_SIZE];
    struct err err = {0};

    if (open_events(c, t, &err) < 0) {
        core_log(c, "error", "events", id, "%s", err.msg);
        return;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "type", "state");
    jsonout_text(&j, "time", clock_text(clock_mark(), CLOCK_ISO_MS, now));
    jsonout_open(&j, "data", '{');
    jsonout_text(&j, kind, id);
    jsonout_text(&j, "state", state);
    if (reason && reason[0])
        jsonout_text(&j, "reason", reason);
    jsonout_close(&j, '}');
    jsonout_close(&j, '}');
    buf_addc(&t->events_out, '\n');
}

static int store_events(struct core *c, struct tenant *t, struct err *err) {
    int r = ledger_begin(&c->db, err);

    if (!buf_ok(&t->events_out))
        return err_set(err, -EMSGSIZE, "too many events in one turn");
    r = r < 0 ? r
              : ledger_do(&c->db, LEDGER_OUTBOX_SET, err, "tib", t->row.name, (int64_t)t->events_at, t->events_out.data,
                          t->events_out.len);
    return r < 0 ? r : 0;
}

static void forget_old_events(const struct tenant *t) {
    uint64_t before = t->events_at - t->events_out.len;

    if (t->events_at > EVENTS_STORED && t->events_at / EVENTS_STEP != before / EVENTS_STEP)
        fallocate(t->events, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(t->events_at - EVENTS_STORED));
}

static void write_events(struct core *c, struct tenant *t) {
    ssize_t n = pwrite(t->events, t->events_out.data, t->events_out.len, (off_t)t->events_at);

    if (n != (ssize_t)t->events_out.len)
        core_log(c, "error", "events", t->row.name, "the events cannot be written: %s",
                 n < 0 ? strerror(errno) : "the disk is full");
    t->events_at += t->events_out.len;
    forget_old_events(t);
    buf_clear(&t->events_out);
}

int core_commit(struct core *c, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < c->n_tenants; i++)
        if (c->tenants[i]->events_out.len)
            r = store_events(c, c->tenants[i], err);
    r = r < 0 ? r : ledger_commit(&c->db, err);
    for (size_t i = 0; r >= 0 && i < c->n_tenants; i++)
        if (c->tenants[i]->events_out.len)
            write_events(c, c->tenants[i]);
    return r;
}

static int restore_tenant(struct core *c, struct tenant *t, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(EVENTS_TURN_MAX + 1);
    int64_t at = 0;
    int found = ledger_ask(&c->db, LEDGER_OUTBOX_GET, err, "t", t->row.name), r;

    found = found < 0 ? found : ledger_next(&c->db, LEDGER_OUTBOX_GET, err);
    if (found > 0) {
        at = ledger_int(&c->db, LEDGER_OUTBOX_GET, 0);
        ledger_bytes(&c->db, LEDGER_OUTBOX_GET, 1, &data);
    }
    ledger_end(&c->db, LEDGER_OUTBOX_GET);
    r = found <= 0 ? found : open_events(c, t, err);
    if (found <= 0 || r < 0)
        return r;
    if (pwrite(t->events, buf_str(&data), data.len, (off_t)at) != (ssize_t)data.len ||
        ftruncate(t->events, (off_t)at + (off_t)data.len) < 0)
        return err_sys(err, errno ? -errno : -ENOSPC, "write the events of tenant '%s'", t->row.name);
    t->events_at = (uint64_t)at + data.len;
    return 0;
}

int core_events_restore(struct core *c, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < c->n_tenants; i++)
        r = restore_tenant(c, c->tenants[i], err);
    return r;
}

/* Within a hole there is no event: the front begins with the first whole line behind it. */
void op_tenant_events(struct core *c, struct api_call *call) {
    CLEANUP(closep) int fd = -1;
    uint64_t after =
        api_field_number(&call->fields, API_FIELD_AFTER, api_field_number(&call->fields, API_FIELD_LAST_EVENT_ID, 0));
    struct err err = {0};
    off_t first;

    if (open_events(c, call->tenant, &err) < 0) {
        call_broken(call, &err);
        return;
    }
    fd = openat(call->tenant->dir, "events", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        call_fail(call, API_PROBLEM_INTERNAL, "the events cannot be opened");
        return;
    }
    first = lseek(fd, 0, SEEK_DATA);
    after = first > 0 ? MAX_OF(after, (uint64_t)first) : after;
    after = MIN_OF(after, call->tenant->events_at); /* of another service, or made up */
    call->wait = WAIT_EVENTS;
    call_fd(call, API_FLAG_EVENTS, &after, sizeof after, dup(fd));
    if (api_field_bool(&call->fields, API_FIELD_FOLLOW, true))
        return;
    call_send_last(c, call, fd);
    call_free(call);
}
