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
#include "proto/gatemsg.h"

/* -- merging -------------------------------------------------------------------------------------------------------------- */

/*
 * Events that are too many to be written one by one: those of one kind about one host become one, with a count and the time of the first
 * and of the last. Nothing is lost but detail. Bounded: past NETMERGE_MAX what comes anew is counted together, by class.
 */
enum { NETMERGE_MAX = 64, NETMERGE_FIRST_MS = 10 * 1000, NETMERGE_MOST_MS = 60 * 60 * 1000 };

/* Each has a budget of its own: a flood of one does not push out another. */
enum net_class {
    NET_ALLOWED, /* connections and requests, their ends, and troubles */
    NET_LOOKUP,  /* names that were refused */
    NET_DENIED,  /* connections and requests that were refused */
    NET_ANSWER,  /* of a human */
    NET_SECRET,  /* a credential was used */
    NET_BLOCKED, /* a placeholder where it must not be, a credential that is not available */
    NET_CLASSES
};

struct netmerge_event {
    enum audit_type type;
    const char *kind;  /* static; the answer, if type is AUDIT_ASK */
    struct gate_msg m; /* method, path and address are "" if they were not all the same; bytes and times are sums */
    uint64_t count;
    uint64_t first_ns, last_ns; /* clock_mark() */
};

struct netmerge {
    struct netmerge_event *v; /* NULL until there is one */
    size_t n;
    struct netmerge_event others[NET_CLASSES];
    uint64_t due_ms;   /* when they are to be written; 0: there are none */
    uint64_t pause_ms; /* until then, the next time: longer each time */
};

static enum net_class net_class_of(enum audit_type type, const struct gate_msg *m) {
    if (m->code == POLICY_SECRET_MISPLACED || m->code == POLICY_SECRET_UNAVAILABLE)
        return NET_BLOCKED;
    if (type == AUDIT_SECRET)
        return m->action == RULE_DENY ? NET_BLOCKED : NET_SECRET;
    if (type == AUDIT_ASK)
        return NET_ANSWER;
    if (m->action != RULE_DENY || m->kind == GATE_EVENT_END || m->kind == GATE_EVENT_TROUBLE)
        return NET_ALLOWED;
    return m->kind == GATE_EVENT_LOOKUP ? NET_LOOKUP : NET_DENIED;
}

static bool is_same(const struct netmerge_event *a, const struct netmerge_event *b) {
    const struct gate_msg *m = &b->m;

    return a->type == b->type && str_eq(a->kind, b->kind) && a->m.action == m->action && a->m.code == m->code &&
           a->m.port == m->port && str_eq(a->m.host, m->host) && str_eq(a->m.secret, m->secret) && str_eq(a->m.rule, m->rule);
}

static struct netmerge_event *find_event(struct netmerge *g, const struct netmerge_event *like) {
    for (size_t i = 0; i < g->n; i++)
        if (is_same(&g->v[i], like))
            return &g->v[i];
    if (!g->v)
        g->v = calloc(NETMERGE_MAX, sizeof *g->v);
    return g->v && g->n < NETMERGE_MAX ? &g->v[g->n++] : &g->others[net_class_of(like->type, &like->m)];
}

static void clear_if_other(char *text, const char *now) {
    if (!str_eq(text, now))
        text[0] = 0;
}

/* What does not hold for all of them is left out. Those that are together only because there is no more room may differ in all. */
static void join_events(struct netmerge_event *e, const struct gate_msg *m) {
    e->m.sent += m->sent;
    e->m.received += m->received;
    e->m.micros += m->micros;
    clear_if_other(e->m.host, m->host);
    clear_if_other(e->m.address, m->address);
    clear_if_other(e->m.rule, m->rule);
    clear_if_other(e->m.layer, m->layer);
    clear_if_other(e->m.method, m->method);
    clear_if_other(e->m.path, m->path);
    clear_if_other(e->m.secret, m->secret);
    e->m.port = e->m.port == m->port ? m->port : 0;
    e->m.status = e->m.status == m->status ? m->status : 0;
}

static void netmerge_add(struct netmerge *g, const struct netmerge_event *more) {
    struct netmerge_event *e = find_event(g, more);
    uint64_t count = e->count;

    if (count == 0)
        *e = *more;
    else
        join_events(e, &more->m);
    e->count = count + more->count;
    e->last_ns = more->last_ns;
    if (g->due_ms)
        return;
    g->pause_ms = g->pause_ms ? MIN_OF(2 * g->pause_ms, (uint64_t)NETMERGE_MOST_MS) : NETMERGE_FIRST_MS;
    g->due_ms = clock_ms() + g->pause_ms;
}

/* Hands out all of them, and is empty then. */
static void netmerge_take(struct netmerge *g, void (*fn)(struct netlog *l, const struct netmerge_event *e), struct netlog *l) {
    for (size_t i = 0; i < g->n; i++) {
        fn(l, &g->v[i]);
        g->v[i].count = 0;
    }
    for (size_t i = 0; i < NET_CLASSES; i++)
        if (g->others[i].count)
            fn(l, &g->others[i]);
    memset(g->others, 0, sizeof g->others);
    g->n = 0;
    g->due_ms = 0;
}

/* -- the log -------------------------------------------------------------------------------------------------------------- */

enum { NETLOG_SEEN = 512, NETLOG_FIRSTS = 256, NETLOG_MINUTE_MS = 60 * 1000, NETLOG_SHARE_MINUTES = 7 * 24 * 60 };

static const char file_name[] = "network.jsonl", old_name[] = "network.jsonl.1";

/* Which credentials were seen so far, and how: the first time is written whatever was written before. */
struct firsts {
    uint32_t v[NETLOG_FIRSTS];
    size_t n;
};

/* How often the same was refused. */
struct netlog_seen {
    uint32_t hash, times;
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
    struct netlog_seen seen[NETLOG_SEEN];
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
    l->folder = str_dupf("%s/log", state); /* the rest is zero, and mostly never touched */
    l->sandbox = sandbox;
    l->dir = l->fd = -1;
    l->out = (struct buf)BUF_INIT(2 * NETLOG_BATCH);
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
    free(l->merged.v);
    free(l->audit_merged.v);
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
        netmerge_add(&l->merged, &e);
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

static void audit_event(struct netlog *l, const struct netmerge_event *e) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    const struct gate_msg *m = &e->m;
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
        netmerge_add(&l->audit_merged, &e);
}

static uint32_t hash_text(uint32_t h, const char *text) {
    do
        h = (h ^ (uint8_t)*text) * 16777619u;
    while (*text++);
    return h;
}

/* Two that share a place push each other out: they are written then. */
bool netlog_is_new(struct netlog *l, const char *kind, const struct gate_msg *m) {
    uint32_t h = hash_text(hash_text(hash_text(hash_text(m->port ^ m->code << 16, kind), m->host), m->method), m->path);
    struct netlog_seen *seen = &l->seen[h % ARRAY_LEN(l->seen)];
    struct netmerge_event e;

    if (seen->hash != h)
        *seen = (struct netlog_seen){.hash = h};
    if (seen->times < NETLOG_REPEATS) {
        seen->times++;
        return true;
    }
    e = make_event(AUDIT_NETWORK, kind, m, 1);
    netmerge_add(&l->merged, &e);
    if (l->audit)
        netmerge_add(&l->audit_merged, &e);
    return false;
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

int netlog_timeout(const struct netlog *l) {
    return l ? clock_sooner(clock_left_ms(l->merged.due_ms), clock_left_ms(l->audit_merged.due_ms)) : -1;
}

void netlog_flush(struct netlog *l) {
    if (!l)
        return;
    if (l->merged.due_ms && l->merged.due_ms <= clock_ms())
        netmerge_take(&l->merged, add_event, l);
    if (l->audit_merged.due_ms && l->audit_merged.due_ms <= clock_ms())
        netmerge_take(&l->audit_merged, audit_event, l);
    audit_flush(l->audit);
    write_out(l);
}

void netlog_finish(struct netlog *l) {
    if (!l)
        return;
    netmerge_take(&l->merged, add_event, l);
    if (l->audit)
        netmerge_take(&l->audit_merged, audit_event, l);
    netlog_flush(l);
}
