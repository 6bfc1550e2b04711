/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/files/inside.h"
#include "ops/sandbox/clone_pick.h"

enum { OPT_COUNT = 1, OPT_NAME, OPT_FROM, OPT_START, OPT_JSON, COUNT_MAX = 100, NUMBER_MAX = 10000, OUTPUT_MAX = 64 * 1024 };

static const struct opt opts[] = {
    {OPT_COUNT, 'n', "count", "N", "how many (default: 1)", NULL},
    {OPT_NAME, 0, "name", "BASE", "they are named BASE-1, BASE-2, ...; without -n just BASE (default: SANDBOX-1, ...)", NULL},
    {OPT_FROM, 0, "from", "TAG", "of this checkpoint (see 'bawn checkpoint ls') instead of the present", NULL},
    {OPT_START, 0, "start", NULL, "start them, too", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct fork_request {
    struct strv words;
    uint64_t count; /* 0: not said */
    const char *base, *from;
    bool start, json;
};

struct fork_made {
    struct strv names, ids;
};

static void request_done(struct fork_request *q) {
    strv_done(&q->words);
}

static void made_done(struct fork_made *m) {
    strv_done(&m->names);
    strv_done(&m->ids);
}

static int take(void *arg, int id, const char *value, struct err *err) {
    struct fork_request *q = arg;

    switch (id) {
    case OPT_COUNT:
        return parse_u64(value, 1, COUNT_MAX, &q->count, err);
    case OPT_NAME:
        q->base = value;
        return box_check_name(value, err);
    case OPT_FROM:
        q->from = value;
        return 0;
    case OPT_START:
        q->start = true;
        return 0;
    default:
        q->json = true;
        return 0;
    }
}

static int read_request(const struct verb *self, int argc, char **argv, struct fork_request *q, struct err *err) {
    int r = inside_read_words(self, argc, argv, take, q, &q->words, err);

    if (r < 0)
        return r;
    if (q->words.len == 0)
        return err_usage(err, "which sandbox? see 'bawn ps -a'");
    return q->words.len > 1 ? err_usage(err, "unexpected argument '%.80s'", q->words.v[1]) : 0;
}

/* -- names -------------------------------------------------------------------------------------------------------------- */

static int keep_name(struct fork_made *m, const char *name, char *id, struct err *err) {
    int r = strv_add(&m->names, name);

    return strv_add_take(&m->ids, id) < 0 || r < 0 ? err_oom(err) : 0;
}

static int make_named(struct fork_source *s, const char *name, struct fork_made *m, struct err *err) {
    char *id = NULL;
    int r = box_check_name(name, err);

    r = r < 0 ? r : fork_make(s, name, &id, err);
    return r < 0 ? r : keep_name(m, name, id, err);
}

/* The next free number: forks of another time, and of others at this moment, have some. */
static int make_numbered(struct fork_source *s, const char *base, unsigned *number, struct fork_made *m, struct err *err) {
    int r = -EEXIST;

    while (r == -EEXIST && *number < NUMBER_MAX) {
        char name[BOX_NAME_MAX + 16];

        *err = (struct err){0};
        snprintf(name, sizeof name, "%s-%u", base, ++*number);
        r = make_named(s, name, m, err);
    }
    return r;
}

static int make_all(const struct fork_request *q, struct clone_pick *p, struct fork_made *m, struct err *err) {
    struct fork_source s = FORK_SOURCE_INIT;
    unsigned number = 0;
    int r = fork_begin(&p->pick.box, &p->opts, q->from, &s, err);

    if (r < 0)
        return r;
    for (uint64_t left = MAX_OF(q->count, 1); r == 0 && left > 0; left--) {
        s.last = left == 1;
        if (q->base && !q->count)
            r = make_named(&s, q->base, m, err);
        else
            r = make_numbered(&s, q->base ? q->base : p->pick.box.name, &number, m, err);
    }
    if (r == 0 && s.from.mode == WORKSPACE_DIRECT)
        log_line("'%s' works in the workspace itself (direct mode): %s in overlay mode over it, so they do not meet",
                 p->pick.box.name, m->names.len == 1 ? "its fork works" : "its forks work");
    fork_end(&s);
    return r;
}

/* -- afterwards --------------------------------------------------------------------------------------------------------- */

/* As if the user had typed it, with messages of its own. */
static int start_one(const char *name, struct err *err) {
    char *argv[] = {"bawn", "start", "--json", (char *)name, NULL};
    posix_spawn_file_actions_t to_stderr;
    int status = 0, r;
    pid_t pid;

    posix_spawn_file_actions_init(&to_stderr);
    posix_spawn_file_actions_addopen(&to_stderr, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = -posix_spawn(&pid, "/proc/self/exe", &to_stderr, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&to_stderr);
    if (r < 0)
        return err_sys(err, r, "start '%s'", name);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "start '%s'", name);
    return status == 0 ? 0 : err_set(err, -EIO, "the fork '%s' was made, but could not be started", name);
}

static int print(const struct fork_request *q, const struct fork_made *m, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);

    buf_adds(&b, q->json ? "[" : "");
    for (size_t i = 0; i < m->names.len; i++)
        if (q->json)
            buf_addf(&b, "%s{\"sandbox\": \"%s\", \"id\": \"%s\"}", i ? ", " : "", m->names.v[i], m->ids.v[i]);
        else
            buf_addf(&b, "%s\n", m->names.v[i]);
    buf_adds(&b, q->json ? "]\n" : "");
    return run_print_out(&b, err);
}

static int fork_sandbox(const struct fork_request *q, struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    CLEANUP(made_done) struct fork_made m = {0};
    int r = clone_pick(q->words.v[0], true, &p, err), printed;

    r = r < 0 ? r : inside_audit(&p.pick, "fork", q->from, q->base, err);
    r = r < 0 ? r : make_all(q, &p, &m, err);
    progress_bar_done(&p.bar);
    for (size_t i = 0; r == 0 && q->start && i < m.names.len; i++)
        r = start_one(m.names.v[i], err);
    /* also if the last one failed: those before are there */
    printed = m.names.len ? print(q, &m, r < 0 ? NULL : err) : 0;
    return r < 0 ? r : printed;
}

static int run_fork(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct fork_request q = {0};
    struct err err = {0};
    int r = read_request(self, argc, argv, &q, &err);

    r = r < 0 ? r : fork_sandbox(&q, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Makes new sandboxes that begin with the files of another: its home, and in overlay and sync mode its version of the workspace, so 'bawn review' of a "
    "fork shows what the original had changed, too. They have names and ids of their own and the same options. What they change from then on is "
    "theirs alone. Forks of a sandbox in direct mode work in overlay mode over the same workspace.\n\n"
    "Processes, memory and /tmp are not copied. A sandbox that runs is frozen meanwhile. Secrets are not copied, for they are never inside; "
    "placeholders are the same in all sandboxes of a project, and worth nothing outside of them.\n\n"
    "    bawn fork box -n 3 --start\n"
    "    bawn fork box --from before-upgrade --name retry";

const struct verb verb_fork = {
    .name = "fork",
    .summary = "make new sandboxes from the files of another",
    .synopsis = "[options] SANDBOX",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_fork,
};
