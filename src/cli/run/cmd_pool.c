/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn pool on`, `pool off` and `pool status`. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/record.h"
#include "cli/verb.h"
#include "jail/apply/blank.h"
#include "supervisor/pool/pool.h"

struct pool_line {
    struct pool_options pool;
    bool json;
};

#define POOL_JSON_OPT \
    { 0, 0, "json", NULL, "print the pool's state as JSON", NULL, OPT_TO_FLAG(struct pool_line, json) }

static const struct opt on_opts[] = {
    {0, 'n', "size", "N", "keep this many ready (default 16, at most 512)", NULL,
     OPT_TO_NUMBER(struct pool_line, pool.size, 1, POOL_SIZE_MAX)},
    {0, 0, "idle", "TIME", "end after this time without a start (default 10m)", NULL,
     OPT_TO_TIME(struct pool_line, pool.idle_ms)},
    POOL_JSON_OPT,
};
static const struct opt json_opts[] = {POOL_JSON_OPT};

static const struct column columns[] = {
    {NULL, "pid", COLUMN(U32, struct pool_reply, pid)},         {NULL, "size", COLUMN(U32, struct pool_reply, size)},
    {NULL, "ready", COLUMN(U32, struct pool_reply, ready)},     {NULL, "taken", COLUMN(U64, struct pool_reply, taken)},
    {NULL, "missed", COLUMN(U64, struct pool_reply, missed)},   {NULL, "templates", COLUMN(U32, struct pool_reply, templates)},
    {NULL, "trees", COLUMN(U64, struct pool_reply, trees)},     {NULL, "idle_ms", COLUMN(U64, struct pool_reply, idle_ms)},
    {NULL, "left_ms", COLUMN(U64, struct pool_reply, left_ms)}, {NULL, "why", COLUMN(CHARS, struct pool_reply, why)},
};
static const struct record_kind pool_state = {columns, ARRAY_LEN(columns), sizeof(struct pool_reply)};

static bool is_off(int r) {
    return r == -ENOENT || r == -ECONNREFUSED;
}

/* p NULL: it is off. */
static void add_pool_json(const struct pool_reply *p, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "on", p != NULL);
    if (p)
        record_members(&pool_state, p, &j);
    buf_adds(out, "}\n");
}

static void add_pool_text(const struct pool_reply *p, struct buf *out) {
    char left[24];

    format_duration(p->left_ms, left);
    buf_addf(out,
             "on: %" PRIu32 " of %" PRIu32 " ready, %" PRIu64 " taken, %" PRIu64
             " starts found none; ends in %s without a start\n",
             p->ready, p->size, p->taken, p->missed, left);
    if (p->why[0])
        buf_addf(out, "no more can be made: %s\n", p->why);
}

/* After `on` and for `status`. */
static int show_state(const struct pool_line *l, struct buf *out, struct err *err) {
    struct pool_reply p;
    int r = pool_query(l->pool.environ_, &p);

    if (r < 0 && !is_off(r))
        return err_sys(err, r, "the pool does not answer");
    if (l->json)
        add_pool_json(r < 0 ? NULL : &p, out);
    else if (r < 0)
        buf_adds(out, "off\n");
    else
        add_pool_text(&p, out);
    return 0;
}

static int run_on(struct verb_call *c, struct err *err) {
    struct pool_line l = {.pool = {.size = POOL_SIZE, .idle_ms = POOL_IDLE_MS, .environ_ = environ}};
    int r = verb_parse(c, &l, 0, err);

    r = r < 0 ? r : pool_start(&l.pool, err);
    if (r == 1)
        log_line("the pool is on already; 'bawn pool off' ends it");
    return r < 0 ? r : show_state(&l, &c->out, err);
}

static int run_off(struct verb_call *c, struct err *err) {
    struct pool_line l = {.pool = {.environ_ = environ}};
    int r = verb_parse(c, &l, 0, err), stopped = r < 0 ? r : pool_stop(environ);

    if (r == 0 && stopped < 0 && !is_off(stopped))
        r = err_sys(err, stopped, "the pool does not answer");
    if (r == 0 && l.json)
        add_pool_json(NULL, &c->out);
    return r;
}

static int run_status(struct verb_call *c, struct err *err) {
    struct pool_line l = {.pool = {.environ_ = environ}};
    int r = verb_parse(c, &l, 0, err);

    return r < 0 ? r : show_state(&l, &c->out, err);
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
        "made again. The pool is the user's own. It ends when nothing was taken from it for a while (--idle), when Bawn is replaced by "
        "another version, and by 'bawn pool off'. Sandboxes without a network, or with a weaker wall than the full one, do not "
        "use it.\n\n"
        "    bawn pool on -n 32",
    VERB_OPTS(on_opts),
    .run = run_on,
};

const struct verb verb_pool_off = {
    .name = "pool off",
    .summary = "end the pool",
    .synopsis = "[options]",
    .description = "Sandboxes that came from it go on. It is no error if there is none.",
    VERB_OPTS(json_opts),
    .run = run_off,
};

const struct verb verb_pool_status = {
    .name = "pool status",
    .summary = "how many half-made sandboxes are ready",
    .synopsis = "[options]",
    .description = "Prints 'off', or how many are ready, were taken, and how many starts found none.",
    VERB_OPTS(json_opts),
    .run = run_status,
};
