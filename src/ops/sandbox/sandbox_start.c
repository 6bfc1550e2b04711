/* SPDX-License-Identifier: Apache-2.0 */
/* Starts persistent sandboxes. */
#include "ops/sandbox/sandbox_start.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/notice.h"
#include "ops/run/run_prepare.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/keep/exec_client.h"
#include "supervisor/keep/keep.h"
#include "workspace/hide/ignore.h"

#define DIGEST_FILE "settings.sha256"

enum { VALUES_MAX = 64 * 1024 * 1024 };

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

int sandbox_digest(const struct run_prepared *p, const struct settings *s, char ret[static SHA256_HEX_SIZE], struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(VALUES_MAX);

    for (int i = 0; i < SETTING_COUNT; i++) {
        if (is_of_the_command((enum setting)i))
            continue;
        buf_addf(&b, "%s=", setting_names[i]);
        settings_add_value(s, (enum setting)i, &b);
        buf_addc(&b, '\n');
    }
    buf_addf(&b, "mode=%d agent=%s\n", (int)s->mode, p->request->agent ? p->request->agent : "");
    if (p->input.image)
        buf_addf(&b, "image=%s\n", p->input.image->id);
    for (size_t i = 0; i < p->tools.mounts.len; i++)
        buf_addf(&b, "tool=%s\n", p->tools.mounts.v[i]);
    add_rules(p->hidden.rules, &b);
    add_rules(p->hidden.accepted, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    sha256_hex(b.data, b.len, ret);
    return 0;
}

void sandbox_started_digest(const struct box *b, char ret[static SHA256_HEX_SIZE]) {
    if (fd_read_file_at(b->fd, DIGEST_FILE, ret, SHA256_HEX_SIZE) != SHA256_HEX_SIZE - 1)
        ret[0] = 0;
}

static int save_digest(const struct box *b, const struct run_prepared *p, const struct settings *s, struct err *err) {
    char digest[SHA256_HEX_SIZE];
    int r = sandbox_digest(p, s, digest, err);

    return r < 0 ? r : paths_publish_at(b->fd, b->path, DIGEST_FILE, 0600, digest, SHA256_HEX_SIZE - 1, PUBLISH_REPLACE, err);
}

/* -- its folder ---------------------------------------------------------------------------------------------------------- */

static bool same_strv(const struct strv *a, const struct strv *b) {
    bool same = a->len == b->len;

    for (size_t i = 0; same && i < a->len; i++)
        same = str_eq(a->v[i], b->v[i]);
    return same;
}

static int check_workspace(const struct sandbox_start *s, const struct box *b, struct err *err) {
    CLEANUP(freep) char *given = NULL;
    int r = s->dir ? paths_workspace(s->dir, &given, err) : 0;

    if (r < 0 || !given || str_eq(given, b->info.workspace))
        return r;
    return err_usage(err, "the workspace of sandbox '%s' is '%.300s', not '%.300s'; use another name", b->name, b->info.workspace,
                     given);
}

/* 1: they are others than before, and count from now on. */
static int replace_options(const struct strv *options, struct box *b, struct err *err) {
    int r;

    if (same_strv(options, &b->info.options))
        return 0;
    strv_done(&b->info.options);
    r = strv_add_all(&b->info.options, options) < 0 ? err_oom(err) : box_save_info(b, err);
    return r < 0 ? r : 1;
}

static int make_box(const char *boxes, const char *name, const char *workspace, const struct strv *options, bool project,
                    struct box *ret, struct err *err) {
    const struct box_info info = {
        .workspace = (char *)workspace, .options = *options, .project = project, .created_ns = clock_mark()};

    return registry_create(boxes, name, &info, ret, err);
}

static int start_keeper(struct box *b, const struct run_prepared *p, const struct settings *s, struct err *err) {
    struct settings copied = *s; /* borrows */
    struct keep_options keep = {.run = {.settings = s,
                                        .facts = &p->facts,
                                        .input = &p->input,
                                        .rules = p->hidden.rules,
                                        .accepted = p->hidden.accepted,
                                        .name = b->name},
                                .box = b,
                                .profile = s->profile};
    bool wants_copy = false;
    int r = save_digest(b, p, s, err);

    r = r < 0 ? r : keep_start(&keep, &wants_copy, err);
    if (r >= 0 || !wants_copy)
        return r;
    copied.workspace.copied = true;
    notice_copy(p->request->notice, settings_holds_changes(&copied));
    keep.run.settings = &copied;
    *err = (struct err){0};
    return keep_start(&keep, &wants_copy, err);
}

/* -- starting ------------------------------------------------------------------------------------------------------------ */

struct starting {
    const struct sandbox_start *s;
    struct strv options; /* that were given now */
    struct run_request request;
    struct run_prepared prepared;
    char *boxes;
    struct box box;
    bool made, running;
};

static void starting_done(struct starting *x) {
    strv_done(&x->options);
    run_request_done(&x->request);
    run_prepared_done(&x->prepared);
    free(x->boxes);
    box_done(&x->box);
}

static int refuse_unprotected(const struct settings *s, struct err *err) {
    if (s->mode == MODE_OFF)
        return err_usage(err, "a persistent sandbox needs a sandbox: --no-sandbox and engine none are not available here (%s)",
                         s->origin[SETTING_ENGINE] ? s->origin[SETTING_ENGINE] : "settings");
    return 0;
}

static int prepare_start(struct starting *x, const struct strv *options, const char *dir, struct err *err) {
    struct run_request *q = &x->request;
    int r = run_request_read(q, options, err);

    q->dir = dir;
    q->notice = x->s->notice;
    for (q->argv = x->s->argv; q->argv && q->argv[q->argc];)
        q->argc++;
    r = r < 0 ? r : run_prepare(q, &x->prepared, err);
    r = r < 0 ? r : refuse_unprotected(&x->prepared.settings, err);
    for (size_t i = 0; r >= 0 && i < x->prepared.settings.notes.len; i++)
        notice_say(q->notice, "%s", x->prepared.settings.notes.v[i]);
    return r;
}

/* A new one is made only when its settings are right, and does not stay if it cannot be started. */
static int start_new(struct starting *x, const char *name, struct err *err) {
    struct run_prepared *p = &x->prepared;
    struct err ignored = {0};
    int r = prepare_start(x, &x->options, x->s->dir, err);

    r = r < 0 ? r : make_box(x->boxes, name, p->facts.workspace, &x->options, false, &x->box, err);
    if (r < 0)
        return r == -EEXIST ? err_set(err, -EBUSY, "another process has just made sandbox '%s'", name) : r;
    x->made = true;
    r = start_keeper(&x->box, p, &p->settings, err);
    if (r < 0)
        registry_remove(x->boxes, &x->box, &ignored);
    return r;
}

static int start_known(struct starting *x, struct err *err) {
    struct run_prepared *p = &x->prepared;
    int r = check_workspace(x->s, &x->box, err);

    r = r < 0 ? r
              : prepare_start(x, x->options.len ? &x->options : &x->box.info.options,
                              x->s->dir ? x->s->dir : x->box.info.workspace, err);
    if (r == 0 && !str_eq(p->facts.workspace, x->box.info.workspace)) /* where we are now: nothing is resolved again */
        return err_set(err, -ENOENT, "the workspace of sandbox '%s' was '%.300s', which is a link to '%.300s' now", x->box.name,
                       x->box.info.workspace, p->facts.workspace);
    if (r == 0 && x->options.len)
        r = replace_options(&x->options, &x->box, err);
    if (r > 0)
        notice_say(x->s->notice, "sandbox '%s' has new options now; the old ones do not count any more", x->box.name);
    return r < 0 ? r : start_keeper(&x->box, p, &p->settings, err);
}

/* err says that it is busy. It may be, if it runs as it is asked for now; a command then joins it. */
static int join_running(struct starting *x, const char *name, struct err *err) {
    struct err ignored = {0};
    int r = registry_open(x->boxes, name, false, &x->box, &ignored);

    if (r < 0 || !x->box.alive || box_look(&x->box, NULL) != BOX_RUNNING)
        return -EBUSY;
    if (x->options.len && !same_strv(&x->options, &x->box.info.options))
        return err_set(err, -EBUSY, "sandbox '%s' is already running, with other options; 'bawn stop %s' first", x->box.name,
                       x->box.name);
    *err = (struct err){0};
    r = check_workspace(x->s, &x->box, err);
    if (r == 0 && x->s->argv)
        r = prepare_start(x, &x->box.info.options, x->box.info.workspace, err);
    x->running = r >= 0;
    return r;
}

static int run_in_background(const struct starting *x, int *ret_job, struct err *err) {
    CLEANUP(closep) int sock = -1;
    const struct exec_request request = {.cwd = "", .argv = x->prepared.input.argv, .argc = x->prepared.input.argc};
    int r = exec_connect(environ, NULL, x->box.name, &sock, err);

    return r < 0 ? r : exec_background(sock, &request, ret_job, err);
}

int sandbox_start(const struct sandbox_start *s, struct sandbox_started *ret, struct err *err) {
    CLEANUP(starting_done) struct starting x = {.s = s, .box = BOX_INIT};
    char name[BOX_ID_MAX + 1];
    int job = 0, r = sandbox_name(s->name, s->dir, name, err);

    r = r < 0 || !s->request ? r : run_request_words(s->request, &x.options, err);
    r = r < 0 ? r : sandbox_boxes(&x.boxes, err);
    if (r < 0)
        return r;
    r = registry_open(x.boxes, name, true, &x.box, err);
    if (r == -ENOENT) {
        r = box_check_name(name, err);
        *err = r < 0 ? *err : (struct err){0};
        r = r < 0 ? r : start_new(&x, name, err);
    } else if (r == 0) {
        r = start_known(&x, err);
    } else if (r == -EBUSY) {
        r = join_running(&x, name, err);
    }
    if (r == 0 && s->argv)
        r = run_in_background(&x, &job, err);
    if (r < 0)
        return r;
    *ret = (struct sandbox_started){.made = x.made, .running = x.running, .job = job};
    snprintf(ret->name, sizeof ret->name, "%s", x.box.name);
    return 0;
}

/* -- keep_alive ---------------------------------------------------------------------------------------------------------- */

int sandbox_start_project(const char *name, const struct run_prepared *p, const struct settings *s, struct err *err) {
    CLEANUP(freep) char *boxes = NULL;
    CLEANUP(strv_done) struct strv options = {0};
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err ignored = {0};
    struct run_request shape = *p->request;
    bool made = false;
    int r;

    shape.flags.env = (struct strv){0}; /* for one command alone */
    r = run_request_words(&shape, &options, err);
    r = r < 0 ? r : sandbox_boxes(&boxes, err);
    r = r < 0 ? r : registry_open(boxes, name, true, &b, err);
    if (r == -ENOENT) {
        *err = (struct err){0};
        r = make_box(boxes, name, p->facts.workspace, &options, true, &b, err);
        made = r == 0;
    } else if (r == 0) {
        r = replace_options(&options, &b, err);
    }
    if (r < 0)
        return r == -EEXIST ? -EBUSY : r;
    r = start_keeper(&b, p, s, err);
    if (r < 0 && made)
        registry_remove(boxes, &b, &ignored);
    return r;
}
