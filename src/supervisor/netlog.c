#include "supervisor/netlog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "policy/verdict.h"
#include "proto/gatemsg.h"
#include "supervisor/watch.h"

static const char file_name[] = "network.jsonl", old_name[] = "network.jsonl.1";

struct netlog {
    char *folder;
    const char *sandbox;
    int dir, fd; /* -1 until the first line */
    bool failed; /* was told */
    struct buf out;
    struct audit *audit; /* NULL: none */
    unsigned budget;     /* events that it still takes */
    uint64_t budget_ms;  /* when that was counted */
    uint64_t left_out;
};

int netlog_new(const char *state, const char *sandbox, struct netlog **ret, struct err *err) {
    struct netlog *l = calloc(1, sizeof *l);

    if (!l)
        return err_oom(err);
    *l = (struct netlog){.folder = str_dupf("%s/log", state),
                         .sandbox = sandbox,
                         .dir = -1,
                         .fd = -1,
                         .out = BUF_INIT(2 * NETLOG_BATCH),
                         .budget = NETLOG_AUDIT_BURST};
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
    netlog_flush(l);
    closep(&l->fd);
    closep(&l->dir);
    buf_done(&l->out);
    free(l->folder);
    free(l);
}

static void add_time(struct buf *b) {
    struct timespec now;
    struct tm tm;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(b, "{\"time\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

static void add_text(struct buf *b, const char *key, const char *value) {
    buf_adds(b, ",\"");
    buf_adds(b, key);
    buf_adds(b, "\":");
    buf_add_json(b, value);
}

void netlog_add(struct netlog *l, const char *kind, const struct gate_msg *m) {
    struct buf *b = &l->out;

    if (b->len >= NETLOG_BATCH)
        netlog_flush(l);
    add_time(b);
    add_text(b, "sandbox", l->sandbox);
    add_text(b, "kind", kind);
    add_text(b, "action", rule_action_names[m->action]);
    add_text(b, "code", policy_codes[m->code].name);
    add_text(b, "host", m->host);
    buf_addf(b, ",\"port\":%" PRIu32, m->port);
    add_text(b, "rule", m->rule);
    add_text(b, "layer", m->layer);
    add_text(b, "address", m->address);
    add_text(b, "method", m->method);
    add_text(b, "path", m->path);
    add_text(b, "secret", m->secret);
    buf_addf(b, ",\"status\":%" PRIu32 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"ms\":%" PRIu64 ".%03" PRIu64 "}\n",
             m->status, m->sent, m->received, m->micros / 1000, m->micros % 1000);
}

/* -- the audit log ------------------------------------------------------------------------------------------------------- */

void netlog_also(struct netlog *l, struct audit *audit) {
    l->audit = audit;
    l->budget_ms = watch_now_ms();
}

static bool has_budget(struct netlog *l) {
    uint64_t now = watch_now_ms(), more = (now - l->budget_ms) / NETLOG_AUDIT_EVERY_MS;

    l->budget = (unsigned)MIN_OF(l->budget + more, (uint64_t)NETLOG_AUDIT_BURST);
    l->budget_ms += more * NETLOG_AUDIT_EVERY_MS;
    if (l->budget == 0) {
        l->left_out++;
        return false;
    }
    l->budget--;
    return true;
}

/* What is empty says nothing. */
static void add_if(struct buf *b, const char *key, const char *value) {
    audit_add(b, key, value[0] ? value : NULL);
}

void netlog_audit(struct netlog *l, enum audit_type type, const char *answer, const struct gate_msg *m) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    if (!l->audit || !has_budget(l))
        return;
    audit_add(&b, "answer", answer);
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
    if (l->left_out)
        audit_add_number(&b, "left_out", (int64_t)l->left_out);
    l->left_out = 0;
    audit_later(l->audit, type, buf_str(&b));
}

/* -- the file ------------------------------------------------------------------------------------------------------------ */

static int open_file(struct netlog *l) {
    l->fd = openat(l->dir, file_name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return l->fd < 0 ? -errno : 0;
}

static int open_log(struct netlog *l) {
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

/* Whoever still writes to the file that was renamed finds it too large, too, and only has to open the new one. */
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
    return open_file(l);
}

void netlog_flush(struct netlog *l) {
    int r;

    if (!l)
        return;
    audit_flush(l->audit);
    if (l->out.len == 0)
        return;
    r = l->fd < 0 ? open_log(l) : rotate(l);
    r = r < 0 ? r : fd_write_all(l->fd, l->out.data, l->out.len);
    if (r < 0 && !l->failed) {
        l->failed = true;
        log_line("the network log in '%s' cannot be written: %s", l->folder, strerror(-r));
    }
    buf_clear(&l->out);
}
