/* SPDX-License-Identifier: Apache-2.0 */
/* Writes events, one or many at a time. */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/chain.h"
#include "audit/redact.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/user/passwd.h"

enum { BATCH = AUDIT_LINE_MAX, PENDING_MAX = 4 * AUDIT_LINE_MAX, IDS_MAX = 8 * 1024 };

const char *const audit_type_names[AUDIT_TYPES] = {
    [AUDIT_START] = "start",     [AUDIT_EXEC] = "exec",         [AUDIT_EXIT] = "exit",       [AUDIT_STOP] = "stop",
    [AUDIT_LIMIT] = "limit",     [AUDIT_LANDED] = "landed",     [AUDIT_NETWORK] = "network", [AUDIT_ASK] = "ask",
    [AUDIT_REQUEST] = "request", [AUDIT_SECRET] = "secret",     [AUDIT_REVIEW] = "review",   [AUDIT_APPLY] = "apply",
    [AUDIT_DISCARD] = "discard", [AUDIT_ROLLBACK] = "rollback", [AUDIT_POLICY] = "policy",   [AUDIT_TOOL] = "tool",
    [AUDIT_FILE] = "file",       [AUDIT_REPAIR] = "repair",
};
static_assert(AUDIT_TYPES == 18, "every type has a name");

struct audit {
    char *folder, *log, *sandbox, *run, *tenant, *user;
    struct buf ids;     /* the same as members, for every line */
    struct buf pending; /* records that wait */
    struct chain chain;
    bool failed; /* and reported */
};

static void make_ids(struct audit *a) {
    buf_clear(&a->ids);
    audit_add(&a->ids, "sandbox", a->sandbox);
    audit_add(&a->ids, "run", a->run);
    audit_add(&a->ids, "tenant", a->tenant);
    audit_add(&a->ids, "user", a->user);
    audit_add_number(&a->ids, "uid", (int64_t)getuid());
    a->chain.ids = buf_str(&a->ids);
}

int audit_new(const char *state, const struct audit_ids *ids, struct audit **ret, struct err *err) {
    CLEANUP(audit_freep) struct audit *a = calloc(1, sizeof *a);
    CLEANUP(passwd_done) struct passwd_entry user = {0};
    int r = ids->user ? 0 : passwd_find(getuid(), &user);
    const char *name = ids->user ? ids->user : r == 0 ? user.name : ""; /* not everyone is in /etc/passwd */

    if (!a)
        return err_oom(err);
    *a = (struct audit){.folder = str_dupf(str_ends(state, "/") ? "%saudit" : "%s/audit", state),
                        .log = strdup(ids->log),
                        .sandbox = strdup(ids->sandbox),
                        .run = strdup(ids->run),
                        .tenant = strdup(ids->tenant),
                        .user = strdup(name),
                        .ids = BUF_INIT(IDS_MAX),
                        .pending = BUF_INIT(PENDING_MAX),
                        .chain = CHAIN_INIT};
    if (!chain_name_ok(ids->log, strlen(ids->log)) || str_eq(ids->log, CHAIN_INDEX))
        return err_set(err, -EINVAL, "'%.80s' cannot be the name of an audit log", ids->log);
    if (r == -ENOMEM || !a->folder || !a->log || !a->sandbox || !a->run || !a->tenant || !a->user)
        return err_oom(err);
    a->chain.log = a->log;
    make_ids(a);
    if (!buf_ok(&a->ids))
        return err_set(err, -ENAMETOOLONG, "the names for the audit log are too long");
    *ret = TAKE_PTR(a);
    return 0;
}

void audit_free(struct audit *a) {
    if (!a)
        return;
    audit_flush(a);
    chain_done(&a->chain);
    closep(&a->chain.dir);
    buf_done(&a->ids);
    buf_done(&a->pending);
    free(a->folder);
    free(a->log);
    free(a->sandbox);
    free(a->run);
    free(a->tenant);
    free(a->user);
    free(a);
}

void audit_freep(struct audit **a) {
    audit_free(*a);
    *a = NULL;
}

void audit_set_run(struct audit *a, const char *run) {
    if (a && str_set(&a->run, run) == 0)
        make_ids(a);
}

/* -- writing ------------------------------------------------------------------------------------------------------------- */

static int open_log_folder(struct audit *a, struct err *err) {
    int r;

    if (a->chain.dir >= 0)
        return 0;
    a->chain.dir = open(a->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->chain.dir < 0 && errno == ENOENT) {
        r = paths_make_dirs(a->folder, err);
        if (r < 0)
            return r;
        a->chain.dir = open(a->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return a->chain.dir < 0 ? err_sys(err, -errno, "open the folder '%s'", a->folder) : 0;
}

static int write_pending(struct audit *a, struct err *err) {
    int r = open_log_folder(a, err);

    if (r < 0)
        return r;
    r = chain_append(&a->chain, buf_str(&a->pending), a->pending.len);
    if (r < 0)
        return err_sys(err, r, "write the audit log '%s/%s.jsonl'", a->folder, a->log);
    buf_clear(&a->pending);
    return 0;
}

static int add_record(struct audit *a, enum audit_type type, const char *members, struct err *err) {
    size_t before = a->pending.len;

    chain_record(&a->pending, audit_type_names[type], buf_str(&a->ids), members);
    if (buf_ok(&a->pending) && buf_ok(&a->ids) && a->pending.len - before <= AUDIT_LINE_MAX - CHAIN_AROUND_MAX)
        return 0;
    a->pending.len = before;
    a->pending.failed = false;
    return err_set(err, -E2BIG, "an event of the audit log is too long, or memory ran out");
}

int audit_write(struct audit *a, enum audit_type type, const char *members, struct err *err) {
    size_t before = a ? a->pending.len : 0;
    int r = a ? add_record(a, type, members, err) : 0;

    if (!a || r < 0)
        return r;
    r = write_pending(a, err);
    if (r < 0) {
        a->pending.len = before; /* it did not happen, so no reader may find it */
        a->failed = true;        /* the caller reports it */
    }
    return r;
}

static void report_once(struct audit *a, const struct err *err) {
    if (!a->failed)
        log_err(err);
    a->failed = true;
}

void audit_flush(struct audit *a) {
    struct err err = {0};

    if (!a || a->pending.len == 0 || write_pending(a, &err) == 0)
        return;
    report_once(a, &err);
    if (a->pending.len >= BATCH)
        buf_clear(&a->pending);
}

void audit_later(struct audit *a, enum audit_type type, const char *members) {
    struct err err = {0};

    if (!a)
        return;
    if (a->pending.len >= BATCH)
        audit_flush(a);
    if (add_record(a, type, members, &err) < 0)
        report_once(a, &err);
}

int audit_note(char *const *environ_, const char *home, enum audit_type type, const char *members, struct err *err) {
    static const struct audit_ids ids = {.log = "user", .sandbox = "", .run = "", .tenant = ""};
    CLEANUP(audit_freep) struct audit *a = NULL;
    CLEANUP(freep) char *state = NULL;
    int r = paths_state_if_home(environ_, home, "", &state, err);

    if (r < 0 || !state)
        return r;
    r = audit_new(state, &ids, &a, err);
    return r < 0 ? r : audit_write(a, type, members, err);
}

/* -- members -------------------------------------------------------------------------------------------------------------- */

/* A byte may need six in JSON, and all must fit into a line. */
enum { ARGUMENT_MAX = 256, ARGUMENTS_SHOWN = 64, ARGV_SHOWN_MAX = 24 * 1024 };

void audit_add(struct buf *b, const char *key, const char *value) {
    if (value)
        jsonout_text(&(struct jsonout){b, true}, key, value);
}

void audit_add_number(struct buf *b, const char *key, int64_t value) {
    jsonout_int(&(struct jsonout){b, true}, key, value);
}

/* Each with its NUL, so that "a b" and "a", "b" differ. */
static void add_digest(struct buf *b, char *const *argv, size_t argc) {
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;

    sha256_init(&h);
    for (size_t i = 0; i < argc; i++)
        sha256_add(&h, argv[i], strlen(argv[i]) + 1);
    sha256_end_hex(&h, hex);
    audit_add(b, "argv_sha256", hex);
}

/* The cut never leaves half a character. */
static void cut_argument(char *s) {
    size_t n = ARGUMENT_MAX;

    if (strlen(s) <= n)
        return;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    s[n] = 0;
}

void audit_add_argv(struct buf *b, char *const *argv, size_t argc) {
    struct jsonout j = {b, true};
    size_t before = b->len;

    jsonout_open(&j, "argv", '[');
    for (size_t i = 0; i < argc && i < ARGUMENTS_SHOWN && b->len - before < ARGV_SHOWN_MAX; i++) {
        CLEANUP(freep) char *shown = redact_argument(argv, i);

        if (!shown) {
            b->failed = true;
            return;
        }
        cut_argument(shown);
        jsonout_text(&j, NULL, shown);
    }
    jsonout_close(&j, ']');
    audit_add_number(b, "argc", (int64_t)argc);
    add_digest(b, argv, argc);
}
