/* SPDX-License-Identifier: Apache-2.0 */
/* The network log: lines as JSON, merged when there are too many, in a file that rotates. */
#include "supervisor/network/netlog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/fd.h"
#include "policy/rules/verdict.h"
#include "supervisor/network/netmerge.h"

enum { NETLOG_FIRSTS = 256, NETLOG_MINUTE_MS = 60 * 1000, NETLOG_SHARE_MINUTES = 7 * 24 * 60 };

static const char file_name[] = "network.jsonl", old_name[] = "network.jsonl.1";

/* Which credentials were seen so far, and how: the first time is written whatever was written before. */
struct firsts {
    uint32_t v[NETLOG_FIRSTS];
    size_t n;
};

struct netlog {
    char *folder;
    const char *sandbox;
    int dir, fd; /* -1 until the first line */
    bool failed; /* and reported */
    struct buf out;
    uint64_t used[NET_CLASSES]; /* bytes of this sandbox in the file, less what time gave back */
    uint64_t used_ms;           /* when that was counted */
    struct netmerge merged;     /* what is past its share */
    struct firsts firsts;

    struct audit *audit;          /* NULL: none */
    unsigned budget[NET_CLASSES]; /* events that it still takes */
    uint64_t budget_ms;           /* when that was counted */
    struct netmerge audit_merged;
    struct firsts audit_firsts;
};

/* Of the shared file, until it is rotated, and anew in a week. Together well below its size: one sandbox alone takes weeks to rotate it. */
static const uint64_t shares[NET_CLASSES] = {
    [NET_ALLOWED] = NETLOG_SIZE_MAX / 4, [NET_LOOKUP] = NETLOG_SIZE_MAX / 32, [NET_DENIED] = NETLOG_SIZE_MAX / 32,
    [NET_ANSWER] = NETLOG_SIZE_MAX / 32, [NET_SECRET] = NETLOG_SIZE_MAX / 32, [NET_BLOCKED] = NETLOG_SIZE_MAX / 32,
};

int netlog_new(const char *state, const char *sandbox, struct netlog **ret, struct err *err) {
    struct netlog *l = calloc(1, sizeof *l);

    if (!l)
        return err_oom(err);
    *l = (struct netlog){
        .folder = str_dupf("%s/log", state), .sandbox = sandbox, .dir = -1, .fd = -1, .out = BUF_INIT(2 * NETLOG_BATCH)};
    for (size_t i = 0; i < NET_CLASSES; i++)
        l->budget[i] = NETLOG_AUDIT_BURST;
    if (!l->folder) {
        netlog_free(l);
        return err_oom(err);
    }
    *ret = l;
    return 0;
}

void netlog_free(struct netlog *l) {
    if (!l)
        return;
    netlog_finish(l);
    closep(&l->fd);
    closep(&l->dir);
    buf_done(&l->out);
    netmerge_done(&l->merged);
    netmerge_done(&l->audit_merged);
    free(l->folder);
    free(l);
}

static void write_out(struct netlog *l);

static void add_event(struct netlog *l, const struct netmerge_event *e) {
    const struct gate_msg *m = &e->m;
    struct buf *b = &l->out;
    struct jsonout j = {.to = b, .compact = true};
    char time[CLOCK_TEXT_SIZE];
    size_t before;

    if (b->len >= NETLOG_BATCH)
        write_out(l);
    before = b->len;
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "time", clock_text(e->last_ns, CLOCK_ISO_MS, time));
    jsonout_text(&j, "sandbox", l->sandbox);
    jsonout_text(&j, "kind", e->kind);
    jsonout_text(&j, "action", rule_action_names[m->action]);
    jsonout_text(&j, "code", policy_codes[m->code].name);
    jsonout_text(&j, "host", m->host);
    jsonout_u64(&j, "port", m->port);
    jsonout_text(&j, "rule", m->rule);
    jsonout_text(&j, "layer", m->layer);
    jsonout_text(&j, "address", m->address);
    jsonout_text(&j, "method", m->method);
    jsonout_text(&j, "path", m->path);
    jsonout_text(&j, "secret", m->secret);
    buf_addf(b, ",\"status\":%" PRIu32 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"ms\":%" PRIu64 ".%03" PRIu64, m->status,
             m->sent, m->received, m->micros / 1000, m->micros % 1000);
    if (e->count > 1) {
        jsonout_u64(&j, "count", e->count);
        jsonout_text(&j, "first", clock_text(e->first_ns, CLOCK_ISO_MS, time));
    }
    buf_adds(b, "}\n");
    l->used[net_class_of(e->type, m)] += b->len - before;
}

/* A credential that was used or misplaced for the first time. What the ssh-agent refuses need not be a key that there is. */
static bool is_first(struct firsts *f, enum net_class class, const struct gate_msg *m) {
    const char *name = class == NET_BLOCKED && str_starts(m->secret, "ssh ") ? "ssh" : m->secret;
    uint32_t h = m->code + 31u * m->action;

    if (class != NET_SECRET && class != NET_BLOCKED)
        return false;
    for (const char *at = name; *at; at++)
        h = (h ^ (uint8_t)*at) * 16777619u;
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i] == h)
            return false;
    if (f->n == NETLOG_FIRSTS)
        return false;
    f->v[f->n++] = h;
    return true;
}

/* One that runs for weeks is not to be merged for ever because of its first days. */
static void give_back(struct netlog *l) {
    uint64_t minutes = (clock_ms() - l->used_ms) / NETLOG_MINUTE_MS;

    for (size_t i = 0; minutes && i < NET_CLASSES; i++)
        l->used[i] -= MIN_OF(l->used[i], shares[i] * minutes / NETLOG_SHARE_MINUTES);
    l->used_ms += minutes * NETLOG_MINUTE_MS;
}

static struct netmerge_event make_event(enum audit_type type, const char *kind, const struct gate_msg *m, uint64_t count) {
    uint64_t now = clock_mark();

    return (struct netmerge_event){.type = type, .kind = kind, .m = *m, .count = count, .first_ns = now, .last_ns = now};
}

void netlog_add(struct netlog *l, enum audit_type type, const char *kind, const struct gate_msg *m, uint64_t count) {
    const struct netmerge_event e = make_event(type, kind, m, count);
    enum net_class class = net_class_of(type, m);

    give_back(l);
    if (is_first(&l->firsts, class, m) || l->used[class] < shares[class])
        add_event(l, &e);
    else
        netmerge_add(&l->merged, &e, clock_ms());
}

static void add_merged(void *arg, const struct netmerge_event *e) {
    add_event(arg, e);
}

/* -- the audit log ------------------------------------------------------------------------------------------------------- */

void netlog_also(struct netlog *l, struct audit *audit) {
    l->audit = audit;
    l->budget_ms = clock_ms();
}

static bool has_budget(struct netlog *l, enum net_class class) {
    uint64_t now = clock_ms(), more = (now - l->budget_ms) / NETLOG_AUDIT_EVERY_MS;

    for (size_t i = 0; more && i < NET_CLASSES; i++)
        l->budget[i] = (unsigned)MIN_OF(l->budget[i] + more, (uint64_t)NETLOG_AUDIT_BURST);
    l->budget_ms += more * NETLOG_AUDIT_EVERY_MS;
    if (l->budget[class] == 0)
        return false;
    l->budget[class]--;
    return true;
}

/* What is empty says nothing. */
static void add_if(struct buf *b, const char *key, const char *value) {
    audit_add(b, key, value[0] ? value : NULL);
}

static void audit_event(void *arg, const struct netmerge_event *e) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    const struct gate_msg *m = &e->m;
    struct netlog *l = arg;
    char first[CLOCK_TEXT_SIZE];

    audit_add(&b, "answer", e->type == AUDIT_ASK ? e->kind : NULL);
    audit_add(&b, "action", rule_action_names[m->action]);
    audit_add(&b, "code", policy_codes[m->code].name);
    audit_add(&b, "host", m->host);
    audit_add_number(&b, "port", m->port);
    add_if(&b, "rule", m->rule);
    add_if(&b, "layer", m->layer);
    add_if(&b, "address", m->address);
    add_if(&b, "method", m->method);
    add_if(&b, "path", m->path);
    add_if(&b, "secret", m->secret);
    if (e->count > 1) {
        audit_add_number(&b, "count", (int64_t)e->count);
        audit_add(&b, "first", clock_text(e->first_ns, CLOCK_ISO_MS, first));
    }
    audit_later(l->audit, e->type, buf_str(&b));
}

void netlog_audit(struct netlog *l, enum audit_type type, const char *kind, const struct gate_msg *m, uint64_t count) {
    const struct netmerge_event e = make_event(type, kind, m, count);
    enum net_class class = net_class_of(type, m);

    if (!l->audit)
        return;
    if (is_first(&l->audit_firsts, class, m) || has_budget(l, class))
        audit_event(l, &e);
    else
        netmerge_add(&l->audit_merged, &e, clock_ms());
}

/* -- the file ------------------------------------------------------------------------------------------------------------ */

static int open_file(struct netlog *l) {
    l->fd = openat(l->dir, file_name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return l->fd < 0 ? -errno : 0;
}

static int open_network_log(struct netlog *l) {
    struct err why = {0};
    int r;

    if (l->dir < 0) {
        r = paths_make_dirs(l->folder, &why);
        if (r < 0)
            return r;
        l->dir = open(l->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return l->dir < 0 ? -errno : open_file(l);
}

/* A process that still writes to the renamed file finds it too large, too, and only has to open the new one. */
static int rotate(struct netlog *l) {
    struct stat ours, there;

    if (fstat(l->fd, &ours) < 0 || ours.st_size < NETLOG_SIZE_MAX)
        return 0;
    if (flock(l->dir, LOCK_EX) < 0)
        return -errno;
    if (fstatat(l->dir, file_name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == ours.st_ino &&
        there.st_dev == ours.st_dev && renameat(l->dir, file_name, l->dir, old_name) < 0)
        log_line("the network log cannot be rotated: %s", strerror(errno));
    flock(l->dir, LOCK_UN);
    closep(&l->fd);
    memset(l->used, 0, sizeof l->used);
    return open_file(l);
}

static void write_out(struct netlog *l) {
    int r;

    if (l->out.len == 0)
        return;
    r = l->fd < 0 ? open_network_log(l) : rotate(l);
    r = r < 0 ? r : fd_write_all(l->fd, l->out.data, l->out.len);
    if (r < 0 && !l->failed) {
        l->failed = true;
        log_line("the network log in '%s' cannot be written: %s", l->folder, strerror(-r));
    }
    buf_clear(&l->out);
}

static uint64_t due_ms(const struct netlog *l) {
    uint64_t a = l->merged.due_ms, b = l->audit_merged.due_ms;

    return !a ? b : !b ? a : MIN_OF(a, b);
}

int netlog_timeout(const struct netlog *l) {
    uint64_t due = l ? due_ms(l) : 0, now = clock_ms();

    return !due ? -1 : due <= now ? 0 : (int)(due - now);
}

void netlog_flush(struct netlog *l) {
    if (!l)
        return;
    if (l->merged.due_ms && l->merged.due_ms <= clock_ms())
        netmerge_take(&l->merged, add_merged, l);
    if (l->audit_merged.due_ms && l->audit_merged.due_ms <= clock_ms())
        netmerge_take(&l->audit_merged, audit_event, l);
    audit_flush(l->audit);
    write_out(l);
}

void netlog_finish(struct netlog *l) {
    if (!l)
        return;
    netmerge_take(&l->merged, add_merged, l);
    if (l->audit)
        netmerge_take(&l->audit_merged, audit_event, l);
    netlog_flush(l);
}
