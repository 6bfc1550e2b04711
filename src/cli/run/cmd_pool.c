/* SPDX-License-Identifier: Apache-2.0 */
/* bawn pool on, off, status. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/verb.h"
#include "jail/apply/blank.h"
#include "supervisor/pool/pool.h"

enum { OPT_SIZE = 1, OPT_IDLE, OPT_JSON };

static const struct opt on_opts[] = {
    {OPT_SIZE, 'n', "size", "N", "keep this many ready (default 16, at most 512)", NULL},
    {OPT_IDLE, 0, "idle", "TIME", "end after this time without a start (default 10m)", NULL},
    {OPT_JSON, 0, "json", NULL, "print the pool's state as JSON", NULL},
};
static const struct opt json_opts[] = {
    {OPT_JSON, 0, "json", NULL, "print the pool's state as JSON", NULL},
};

struct pool_args {
    struct pool_options pool;
    bool json;
};

static int take_option(const struct opt_iter *it, struct pool_args *a, struct err *err) {
    switch (it->id) {
    case OPT_SIZE:
        return parse_u64(it->value, 1, POOL_SIZE_MAX, &a->pool.size, err);
    case OPT_IDLE:
        return parse_duration(it->value, &a->pool.idle_ms, err);
    default:
        a->json = true;
        return 0;
    }
}

static int parse(const struct verb *self, int argc, char **argv, struct pool_args *a, struct err *err) {
    struct opt_iter it = opt_iter_init(self->opts, self->n_opts, argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        if ((r = take_option(&it, a, err)) < 0)
            return r;
    if (r == 0 && it.pos < argc)
        return err_usage(err, "'%s' is one word too many", argv[it.pos]);
    return r;
}

static bool is_none(int r) {
    return r == -ENOENT || r == -ECONNREFUSED;
}

static void print_json(const struct pool_reply *p) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    if (p) {
        buf_addf(&b,
                 "{\"on\": true, \"pid\": %" PRIu32 ", \"size\": %" PRIu32 ", \"ready\": %" PRIu32 ", \"taken\": %" PRIu64
                 ", \"missed\": %" PRIu64 ", \"templates\": %" PRIu32 ", \"trees\": %" PRIu64 ", \"idle_ms\": %" PRIu64
                 ", \"left_ms\": %" PRIu64 ", \"why\": ",
                 p->pid, p->size, p->ready, p->taken, p->missed, p->templates, p->trees, p->idle_ms, p->left_ms);
        buf_add_json(&b, p->why);
        buf_addf(&b, "}\n");
    } else {
        buf_addf(&b, "{\"on\": false}\n");
    }
    fputs(buf_str(&b), stdout);
}

static void print_text(const struct pool_reply *p) {
    char left[24];

    format_duration(p->left_ms, left);
    printf("on: %" PRIu32 " of %" PRIu32 " ready, %" PRIu64 " taken, %" PRIu64 " starts found none; ends in %s without a start\n",
           p->ready, p->size, p->taken, p->missed, left);
    if (p->why[0])
        printf("no more can be made: %s\n", p->why);
}

/* After `on` and for `status`. */
static int show(const struct pool_args *a, struct err *err) {
    struct pool_reply p;
    int r = pool_query(a->pool.environ_, &p);

    if (r < 0 && !is_none(r))
        return err_sys(err, r, "the pool does not answer");
    if (a->json)
        print_json(r < 0 ? NULL : &p);
    else if (r < 0)
        puts("off");
    else
        print_text(&p);
    return 0;
}

static int run_on(const struct verb *self, int argc, char **argv) {
    struct pool_args a = {.pool = {.size = POOL_SIZE, .idle_ms = POOL_IDLE_MS, .environ_ = environ}};
    struct err err = {0};
    int r = parse(self, argc, argv, &a, &err);

    r = r < 0 ? r : pool_start(&a.pool, &err);
    if (r == 1)
        log_line("the pool is on already; 'bawn pool off' ends it");
    r = r < 0 ? r : show(&a, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int run_off(const struct verb *self, int argc, char **argv) {
    struct pool_args a = {.pool = {.environ_ = environ}};
    struct err err = {0};
    int r = parse(self, argc, argv, &a, &err), stopped = r < 0 ? r : pool_stop(environ);

    if (r == 0 && stopped < 0 && !is_none(stopped))
        r = err_sys(&err, stopped, "the pool does not answer");
    if (r == 0 && a.json)
        print_json(NULL);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int run_status(const struct verb *self, int argc, char **argv) {
    struct pool_args a = {.pool = {.environ_ = environ}};
    struct err err = {0};
    int r = parse(self, argc, argv, &a, &err);

    r = r < 0 ? r : show(&a, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_pool_on = {
    .name = "pool on",
    .summary = "keep sandboxes half made, so that they start faster",
    .synopsis = "[options]",
    .description =
        "Starts a process in the background that makes parts of sandboxes ahead of time: namespaces, networks included, and the "
        "read-only part of the root. 'bawn run', 'bawn start' and the like take them if they are there, and start without them if "
        "not; each is used once. What a sandbox sees and may do is the same either way.\n\n"
        "Single starts, and bursts of up to N, are faster; a stream of starts without an end is not, for what was taken has to be "
        "made again. The pool is the user's own. It ends when nobody took from it for a while (--idle), when Bawn is replaced by "
        "another version, and by 'bawn pool off'. Sandboxes without a network, or with a weaker wall than the full one, do not "
        "use it.\n\n"
        "    bawn pool on -n 32",
    .opts = on_opts,
    .n_opts = ARRAY_LEN(on_opts),
    .run = run_on,
};

const struct verb verb_pool_off = {
    .name = "pool off",
    .summary = "end the pool",
    .synopsis = "[options]",
    .description = "Sandboxes that came from it go on. It is no error if there is none.",
    .opts = json_opts,
    .n_opts = ARRAY_LEN(json_opts),
    .run = run_off,
};

const struct verb verb_pool_status = {
    .name = "pool status",
    .summary = "how many half-made sandboxes are ready",
    .synopsis = "[options]",
    .description = "Prints 'off', or how many are ready, were taken, and how many starts found none.",
    .opts = json_opts,
    .n_opts = ARRAY_LEN(json_opts),
    .run = run_status,
};
