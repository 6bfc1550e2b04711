/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/exec_client.h"

enum { OPT_TIME = 1, OPT_ALL, OPT_FORCE, OPT_JSON, OPT_DIRECTORY };
enum { SECONDS_DEFAULT = 5, SECONDS_MAX = 24 * 3600, FORCE_WAIT_MS = 5000 };

static const struct opt opts[] = {
    {OPT_TIME, 't', "time", "SECONDS", "how long its programs have to end by themselves (default: 5)", NULL},
    {OPT_ALL, 'a', "all", NULL, "every sandbox that runs", NULL},
    {OPT_FORCE, 0, "force", NULL, "kill a supervisor that does not answer, or not end", NULL},
    {OPT_DIRECTORY, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir"},
    {OPT_JSON, 0, "json", NULL, "the result as JSON", NULL},
};

struct stop {
    bool all, force, json;
    const char *dir;
    uint64_t seconds;
    struct box_list boxes; /* that have been asked */
    struct buf out;
    int status;
};

static int parse(int argc, char **argv, struct stop *s, int *ret_names, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int n = 0, r;

    while ((r = sandbox_opt_next(&it, &n, err)) > 0)
        switch (it.id) {
        case OPT_TIME:
            r = parse_u64(it.value, 0, SECONDS_MAX, &s->seconds, err);
            if (r < 0)
                return err_ctx(err, r, "--time");
            break;
        case OPT_ALL:
            s->all = true;
            break;
        case OPT_FORCE:
            s->force = true;
            break;
        case OPT_DIRECTORY:
            s->dir = it.value;
            break;
        case OPT_JSON:
            s->json = true;
            break;
        }
    *ret_names = n;
    return r < 0 ? r : s->all && n ? err_usage(err, "--all, or names, not both") : 0;
}

/* -- one ----------------------------------------------------------------------------------------------------------------- */

static void tell(struct stop *s, const char *name, const char *outcome) {
    if (s->json)
        buf_addf(&s->out, "%s{\"sandbox\": \"%s\", \"outcome\": \"%s\"}", s->out.len ? ", " : "", name, outcome);
    else
        buf_addf(&s->out, "%s\n", name);
}

static void fail(struct stop *s, const struct err *err) {
    log_err(err);
    s->status = err_exit_status(err);
}

/* Its state would say for ever that it runs; whoever has the lock may say that it does not. */
static void write_down(const struct box *b) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts o = {.name = b->name, .need = SANDBOX_STOPPED};
    struct err err = {0};

    if (sandbox_pick(&o, &p, &err) < 0)
        return; /* somebody has started it again */
    p.box.state.phase = BOX_STOPPED;
    p.box.state.status = 128 + SIGKILL;
    box_save_state(&p.box, &err);
}

static int kill_keeper(const struct box *b, struct err *err) {
    CLEANUP(closep) int fd = b->state.pid > 0 ? (int)syscall(SYS_pidfd_open, b->state.pid, 0) : -1;
    int r;

    if (fd < 0 || process_start_time(b->state.pid) != b->state.start_time)
        return exec_not_running(b, err);
    if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
        return err_sys(err, -errno, "kill the supervisor of sandbox '%s'", b->name);
    r = sandbox_wait_end(b, FORCE_WAIT_MS);
    if (r == -ETIMEDOUT)
        return err_set(err, r, "the supervisor of sandbox '%s' (pid %d) does not die", b->name, (int)b->state.pid);
    write_down(b);
    return 0;
}

static void force(struct stop *s, const struct box *b) {
    struct err err = {0};

    if (kill_keeper(b, &err) < 0)
        fail(s, &err);
    else
        tell(s, b->name, "killed");
}

/* True: it was asked, and has to be waited for. */
static bool ask(struct stop *s, struct box *b) {
    struct err err = {0};
    int r = b->alive ? sandbox_ask_stop(b, (unsigned)s->seconds, &err) : 0;

    if (!b->alive)
        log_line("sandbox '%s' is not running", b->name);
    if (!b->alive || r == -ESRCH)
        tell(s, b->name, b->alive ? "stopped" : "not running");
    else if (r < 0 && s->force)
        force(s, b);
    else if (r < 0)
        fail(s, &err);
    return b->alive && r == 0;
}

static void await(struct stop *s, const struct box *b) {
    int r = sandbox_wait_end(b, s->force ? (int)s->seconds * 1000 + FORCE_WAIT_MS : -1);

    if (r == -ETIMEDOUT)
        force(s, b);
    else
        tell(s, b->name, "stopped");
}

/* -- all that were named ------------------------------------------------------------------------------------------------- */

static int add_box(struct stop *s, struct box *b) {
    struct box *v = realloc(s->boxes.v, (s->boxes.n + 1) * sizeof *v);

    if (!v)
        return -ENOMEM;
    s->boxes.v = v;
    v[s->boxes.n++] = TAKE(*b, (struct box)BOX_INIT);
    return 0;
}

static void stop_named(struct stop *s, const char *name) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts o = {.name = name, .directory = s->dir};
    struct err err = {0};

    if (sandbox_pick(&o, &p, &err) < 0)
        fail(s, &err);
    else if (ask(s, &p.box) && add_box(s, &p.box) < 0)
        fail(s, (err_oom(&err), &err));
}

static int stop_all(struct stop *s, struct err *err) {
    CLEANUP(freep) char *boxes = NULL;
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = sandbox_boxes(&boxes, err);

    r = r < 0 ? r : registry_list(boxes, &l, err);
    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (l.v[i].alive && ask(s, &l.v[i]) && add_box(s, &l.v[i]) < 0)
            r = err_oom(err);
    return r;
}

static int finish(struct stop *s, struct err *err) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(s->out.ceiling + 64);

    for (size_t i = 0; i < s->boxes.n; i++)
        await(s, &s->boxes.v[i]);
    if (!s->json)
        return run_print_out(&s->out, err);
    buf_addf(&json, "[%s]\n", buf_str(&s->out));
    return run_print_out(&json, err);
}

static int run_stop(const struct verb *self, int argc, char **argv) {
    struct stop s = {.seconds = SECONDS_DEFAULT, .out = BUF_INIT(4 * 1024 * 1024)};
    struct err err = {0};
    int names = 0, r = parse(argc, argv, &s, &names, &err);

    if (r == 0 && s.all)
        r = stop_all(&s, &err);
    else if (r == 0 && names == 0)
        stop_named(&s, NULL);
    for (int i = 1; r == 0 && i <= names; i++)
        stop_named(&s, argv[i]);
    r = r < 0 ? r : finish(&s, &err);
    box_list_done(&s.boxes);
    buf_done(&s.out);
    return r < 0 ? verb_fail(self, &err) : s.status;
}

const struct verb verb_stop = {
    .name = "stop",
    .summary = "stop sandboxes that are kept",
    .synopsis = "[options] [SANDBOX...]",
    .description =
        "Asks the programs in it to end (SIGTERM), kills what is left after some seconds, and ends the sandbox as after a run: its home "
        "stays, and what waits for review stays too. Without SANDBOX it is the project's own.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_stop,
};
