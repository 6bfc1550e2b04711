/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/sandbox_start.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/run/run_shape.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/fd.h"
#include "supervisor/keep/keep.h"
#include "workspace/hide/ignore.h"

#define DIGEST_FILE "settings.sha256"

enum { VALUES_MAX = 64 * 1024 * 1024 };

void sandbox_start_done(struct sandbox_start *s) {
    strv_done(&s->options);
}

void sandbox_started_done(struct sandbox_started *s) {
    strv_done(&s->argv);
}

int sandbox_start_add(struct sandbox_start *s, const struct opt *o, const char *value, struct err *err) {
    int r = value ? strv_addf(&s->options, "--%s=%s", o->name, value) : strv_addf(&s->options, "--%s", o->name);

    return r < 0 ? err_oom(err) : 0;
}

/* -- what it is made of -------------------------------------------------------------------------------------------------- */

/* Each command brings its variables itself; the others are not about what is inside. */
static bool is_of_the_command(enum setting id) {
    return id == SETTING_ENV || id == SETTING_KEEP_ALIVE || id == SETTING_IDLE_TIMEOUT || id == SETTING_BYPASS_TOOLS;
}

/* Files that were hidden one by one (names among git's objects, ...) come and go; the rules are what the user wrote. */
static void add_rules(const struct ignore *rules, struct buf *b) {
    const struct ignore_source *src;

    for (size_t i = 0; rules && (src = ignore_source(rules, i)); i++) {
        if (str_starts(src->origin, "accepted "))
            continue;
        buf_addf(b, "rules %s %zu\n", src->dir, src->len);
        buf_add(b, src->data, src->len);
    }
}

int sandbox_digest(const struct run_args *a, const struct settings *s, char ret[static SHA256_HEX_SIZE], struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(VALUES_MAX);

    for (int i = 0; i < SETTING_COUNT; i++) {
        if (is_of_the_command((enum setting)i))
            continue;
        buf_addf(&b, "%s=", setting_names[i]);
        settings_add_value(s, (enum setting)i, &b);
        buf_addc(&b, '\n');
    }
    buf_addf(&b, "mode=%d agent=%s\n", (int)s->mode, a->agent ? a->agent : "");
    add_rules(a->rules, &b);
    add_rules(a->accepted, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    sha256_hex(b.data, b.len, ret);
    return 0;
}

void sandbox_started_digest(const struct box *b, char ret[static SHA256_HEX_SIZE]) {
    if (fd_read_file_at(b->fd, DIGEST_FILE, ret, SHA256_HEX_SIZE) != SHA256_HEX_SIZE - 1)
        ret[0] = 0;
}

static int save_digest(const struct box *b, const struct run_args *a, const struct settings *s, struct err *err) {
    char digest[SHA256_HEX_SIZE];
    int r = sandbox_digest(a, s, digest, err);

    return r < 0 ? r : paths_publish_at(b->fd, b->path, DIGEST_FILE, 0600, digest, SHA256_HEX_SIZE - 1, PUBLISH_REPLACE, err);
}

/* -- its options --------------------------------------------------------------------------------------------------------- */

static const struct opt shape_opts[] = {
    RUN_SHAPE_OPTS,
    {RUN_OPT_IDLE, 0, "idle", "TIME", "", NULL},
};

/* Words of a folder that an older or newer Bawn wrote may be unknown. Strings point into `options`. */
static int parse_options(const struct strv *options, struct run_args *a, struct err *err) {
    CLEANUP(freep) char **argv = calloc(options->len + 2, sizeof *argv);
    struct opt_iter it;
    int r;

    if (!argv)
        return err_oom(err);
    argv[0] = "start";
    for (size_t i = 0; i < options->len; i++)
        argv[i + 1] = options->v[i];
    it = opt_iter_init(shape_opts, ARRAY_LEN(shape_opts), (int)options->len + 1, argv);
    while ((r = opt_next(&it, err)) > 0)
        if ((r = run_args_take(a, it.id, it.value, err)) < 0)
            return r;
    return r;
}

static int copy_strv(const struct strv *from, struct strv *to, struct err *err) {
    strv_done(to);
    for (size_t i = 0; i < from->len; i++)
        if (strv_add(to, from->v[i]) < 0)
            return err_oom(err);
    return 0;
}

static bool same_strv(const struct strv *a, const struct strv *b) {
    bool same = a->len == b->len;

    for (size_t i = 0; same && i < a->len; i++)
        same = str_eq(a->v[i], b->v[i]);
    return same;
}

int sandbox_start_collect(struct sandbox_start *s, const struct opt *opts, size_t n, int argc, char **argv, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, n, argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        for (size_t i = 0; i < ARRAY_LEN(shape_opts) && r >= 0; i++)
            if (shape_opts[i].id == it.id && it.id != RUN_OPT_DIR && it.id != RUN_OPT_ENV)
                r = sandbox_start_add(s, &shape_opts[i], it.value, err);
    return r < 0 ? r : 0;
}

/* -- its folder ---------------------------------------------------------------------------------------------------------- */

static int check_workspace(const struct sandbox_start *s, const struct box *b, struct err *err) {
    CLEANUP(freep) char *given = NULL;
    int r = s->dir ? paths_workspace(s->dir, &given, err) : 0;

    if (r < 0 || !given || str_eq(given, b->info.workspace))
        return r;
    return err_usage(err, "the workspace of sandbox '%s' is '%.300s', not '%.300s'; take another name", b->name,
                     b->info.workspace, given);
}

/* What is typed now counts from now on. */
static int replace_options(const struct sandbox_start *s, struct box *b, bool *ret_replaced, struct err *err) {
    int r;

    if (same_strv(&s->options, &b->info.options))
        return 0;
    r = copy_strv(&s->options, &b->info.options, err);
    r = r < 0 ? r : box_save_info(b, err);
    if (r == 0)
        *ret_replaced = true;
    return r;
}

static int make_box(const struct sandbox_start *s, const char *boxes, const char *name, const char *workspace, struct box *ret,
                    struct err *err) {
    struct timespec now;
    struct box_info info = {.workspace = (char *)workspace, .options = s->options, .project = s->project};

    clock_gettime(CLOCK_REALTIME, &now);
    info.created_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return registry_create(boxes, name, &info, ret, err);
}

/* -- starting ------------------------------------------------------------------------------------------------------------ */

struct starting {
    const struct sandbox_start *s;
    struct run_args args;
    struct host_facts facts;
    struct strv owned;
    struct settings settings;
    struct agent_run agent;
    char *boxes;
    struct box box;
    struct sandbox_started *ret;
};

static void starting_done(struct starting *x) {
    run_args_done(&x->args);
    strv_done(&x->owned);
    settings_done(&x->settings);
    agent_run_done(&x->agent);
    free(x->boxes);
    box_done(&x->box);
}

static int refuse_unprotected(const struct settings *s, struct err *err) {
    if (s->mode == MODE_OFF)
        return err_usage(err, "a sandbox that is kept is a sandbox: neither --no-sandbox nor engine none can be had (%s)",
                         s->origin[SETTING_ENGINE] ? s->origin[SETTING_ENGINE] : "settings");
    return 0;
}

static int load(struct starting *x, char **argv, struct err *err) {
    int r;

    for (x->args.argv = argv, x->args.argc = 0; argv && argv[x->args.argc];)
        x->args.argc++;
    x->args.record = true;
    r = run_args_load(&x->args, &x->facts, &x->owned, &x->settings, err);
    r = r < 0 ? r : refuse_unprotected(&x->settings, err);
    if (r == 0 && x->args.agent)
        r = agent_run_prepare(&x->agent, &x->args, &x->facts, &x->settings, err);
    for (size_t i = 0; r >= 0 && i < x->settings.notes.len; i++)
        log_line("%s", x->settings.notes.v[i]);
    for (size_t i = 0; r >= 0 && argv && i < x->args.argc; i++)
        if (strv_add(&x->ret->argv, x->args.argv[i]) < 0)
            return err_oom(err);
    return r < 0 ? r : 0;
}

static int keep(struct box *b, const struct run_args *a, const struct host_facts *facts, const struct settings *s,
                struct err *err) {
    struct keep_options keep = {
        .run = {.settings = s, .facts = facts, .input = &a->input, .rules = a->rules, .accepted = a->accepted, .name = b->name},
        .box = b,
        .profile = s->profile,
    };
    int r = save_digest(b, a, s, err);

    return r < 0 ? r : keep_start(&keep, err);
}

/* A new one is made only when its settings are right, and does not stay if it cannot be started. */
static int start_new(struct starting *x, const char *name, char **argv, struct err *err) {
    struct err ignored = {0};
    int r = parse_options(&x->s->options, &x->args, err);

    x->args.dir = x->s->dir;
    r = r < 0 ? r : load(x, argv, err);
    r = r < 0 ? r : make_box(x->s, x->boxes, name, x->facts.workspace, &x->box, err);
    if (r < 0)
        return r == -EEXIST ? err_set(err, -EBUSY, "sandbox '%s' was made by somebody else just now", name) : r;
    x->ret->made = true;
    r = keep(&x->box, &x->args, &x->facts, &x->settings, err);
    if (r < 0)
        registry_remove(x->boxes, &x->box, &ignored);
    return r;
}

static int start_known(struct starting *x, char **argv, struct err *err) {
    int r = check_workspace(x->s, &x->box, err);

    r = r < 0 ? r : parse_options(x->s->options.len ? &x->s->options : &x->box.info.options, &x->args, err);
    x->args.dir = x->box.info.workspace;
    r = r < 0 ? r : load(x, argv, err);
    if (r == 0 && x->s->options.len)
        r = replace_options(x->s, &x->box, &x->ret->replaced, err);
    return r < 0 ? r : keep(&x->box, &x->args, &x->facts, &x->settings, err);
}

int sandbox_start(const struct sandbox_start *s, char **argv, struct sandbox_started *ret, struct err *err) {
    CLEANUP(starting_done) struct starting x = {.s = s, .box = BOX_INIT, .ret = ret};
    char name[BOX_ID_MAX + 1];
    int r = sandbox_name(s->name, s->dir, name, err);

    r = r < 0 ? r : sandbox_boxes(&x.boxes, err);
    if (r < 0)
        return r;
    r = registry_open(x.boxes, name, true, &x.box, err);
    if (r == -ENOENT) {
        r = box_check_name(name, err);
        *err = r < 0 ? *err : (struct err){0};
        r = r < 0 ? r : start_new(&x, name, argv, err);
    } else if (r == 0) {
        r = start_known(&x, argv, err);
    }
    if (r == 0)
        snprintf(ret->name, sizeof ret->name, "%s", x.box.name);
    return r;
}

/* -- keep_alive ---------------------------------------------------------------------------------------------------------- */

int sandbox_start_loaded(const struct sandbox_start *s, const struct run_args *a, const struct host_facts *facts,
                         const struct settings *settings, struct err *err) {
    CLEANUP(freep) char *boxes = NULL;
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err ignored = {0};
    bool replaced = false, made = false;
    int r = sandbox_boxes(&boxes, err);

    r = r < 0 ? r : registry_open(boxes, s->name, true, &b, err);
    if (r == -ENOENT) {
        *err = (struct err){0};
        r = make_box(s, boxes, s->name, facts->workspace, &b, err);
        made = r == 0;
    } else if (r == 0) {
        r = replace_options(s, &b, &replaced, err);
    }
    if (r < 0)
        return r == -EEXIST ? -EBUSY : r;
    r = keep(&b, a, facts, settings, err);
    if (r < 0 && made)
        registry_remove(boxes, &b, &ignored);
    return r;
}
