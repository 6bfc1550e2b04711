/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run/run_shape.h"
#include "config/load/paths.h"
#include "ops/batch/batch.h"
#include "os/fd.h"
#include "supervisor/network/policy_files.h"
#include "workspace/copy/hardlinks.h"
#include "workspace/git/gitblobs.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/pin.h"

const struct opt run_opts[N_RUN_OPTS_ALL] = {
    {RUN_OPT_HELP, 'h', "help", NULL, "show this help", NULL},
    RUN_SHAPE_OPTS,
    {RUN_OPT_NAME, 0, "name", "NAME", "name of the run in overlay, sync and worktree mode; one that exists goes on", "@run"},
    {RUN_OPT_NO_SANDBOX, 0, "no-sandbox", NULL, "run without any protection, after a warning", NULL},
    {RUN_OPT_YES, 0, "yes-unsandboxed", NULL, "with --no-sandbox: do not ask (needed without a terminal)", NULL},
    {RUN_OPT_TTY, 0, "tty", NULL, "give the command a terminal even if there is none", NULL},
    {RUN_OPT_NO_TTY, 0, "no-tty", NULL, "give the command pipes even if there is a terminal", NULL},
    {RUN_OPT_DRY_RUN, 'n', "dry-run", NULL, "print the plan and where each value comes from; start nothing", NULL},
    {RUN_OPT_JSON, 0, "json", NULL, "the result as one JSON line on stderr; with --dry-run the plan as JSON on stdout", NULL},
    {RUN_OPT_EACH, 0, "each", "LIST", "once for each of A,B,C (or of the lines of @FILE, or - for stdin), which stands for {}",
     NULL},
    BATCH_OPTS,
    {RUN_OPT_RESULT_FD, 0, "result-fd", "N", "for bawn itself", NULL},
};

/* Options whose text goes to the configuration as it is. */
static const char **text_slot(struct run_args *a, int id) {
    struct settings_flags *f = &a->flags;
    const struct {
        enum run_opt id;
        const char **slot;
    } slots[] = {
        {RUN_OPT_DIR, &a->dir},
        {RUN_OPT_PROFILE, &f->profile},
        {RUN_OPT_AGENT, &a->agent},
        {RUN_OPT_NAME, &a->name},
        {RUN_OPT_ENGINE, &f->engine},
        {RUN_OPT_IMAGE, &f->image},
        {RUN_OPT_CPUS, &f->cpus},
        {RUN_OPT_MEMORY, &f->memory},
        {RUN_OPT_SWAP, &f->swap},
        {RUN_OPT_PIDS, &f->pids},
        {RUN_OPT_DISK, &f->disk},
        {RUN_OPT_TIMEOUT, &f->timeout},
        {RUN_OPT_NETWORK, &f->network},
        {RUN_OPT_WORKSPACE, &f->workspace_mode},
        {RUN_OPT_ASK, &f->ask},
        {RUN_OPT_ASK_TIMEOUT, &f->ask_timeout},
        {RUN_OPT_SSH_AGENT, &f->ssh_agent},
        {RUN_OPT_IDLE, &f->idle_timeout},
        {RUN_OPT_EACH, &a->each},
        {RUN_OPT_JOBS, &a->jobs},
        {RUN_OPT_RETRIES, &a->retries},
        {RUN_OPT_LOG_DIR, &a->log_dir},
    };

    for (size_t i = 0; i < ARRAY_LEN(slots); i++)
        if ((int)slots[i].id == id)
            return slots[i].slot;
    return NULL;
}

static bool *switch_slot(struct run_args *a, int id) {
    switch (id) {
    case RUN_OPT_HELP:
        return &a->help;
    case RUN_OPT_NO_SECRETS:
        return &a->flags.no_secrets;
    case RUN_OPT_YES:
        return &a->yes_unsandboxed;
    case RUN_OPT_TTY:
        return &a->tty;
    case RUN_OPT_NO_TTY:
        return &a->no_tty;
    case RUN_OPT_DRY_RUN:
        return &a->dry_run;
    case RUN_OPT_JSON:
        return &a->json;
    case RUN_OPT_STOP:
        return &a->stop_on_failure;
    }
    return NULL;
}

static struct strv *list_slot(struct run_args *a, int id) {
    switch (id) {
    case RUN_OPT_ALLOW:
        return &a->flags.allow;
    case RUN_OPT_DENY:
        return &a->flags.deny;
    case RUN_OPT_PUBLISH:
        return &a->flags.publish;
    case RUN_OPT_SECRET:
        return &a->flags.secrets;
    case RUN_OPT_SSH_KEY:
        return &a->flags.ssh_keys;
    case RUN_OPT_ENV:
        return &a->flags.env;
    case RUN_OPT_MOUNT:
        return &a->flags.mounts;
    }
    BUG("an option that nobody takes");
}

static int take_mode(struct run_args *a, const char *value, struct err *err) {
    if (value && !str_eq(value, "auto") && !str_eq(value, "require"))
        return err_usage(err, "--sandbox takes auto or require, not '%s'", value);
    a->flags.mode = value ? value : "auto";
    return 0;
}

/* Nobody but us has it: whatever is started from here does not inherit it. */
static int take_result_fd(struct run_args *a, const char *value, struct err *err) {
    uint64_t fd;
    struct stat st;
    int r = parse_u64(value, 3, INT_MAX, &fd, err);

    if (r < 0)
        return err_ctx(err, r, "--result-fd");
    if (fstat((int)fd, &st) < 0 || !S_ISSOCK(st.st_mode) || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_usage(err, "--result-fd takes the number of a socket");
    a->result_fd = (int)fd;
    return 0;
}

int run_args_take(struct run_args *a, int id, const char *value, struct err *err) {
    const char **text = text_slot(a, id);
    bool *flag = switch_slot(a, id);
    int r = 0;

    if (text)
        *text = value;
    else if (flag)
        *flag = true;
    else if (id == RUN_OPT_NO_SANDBOX)
        a->flags.mode = "off";
    else if (id == RUN_OPT_SANDBOX)
        return take_mode(a, value, err);
    else if (id == RUN_OPT_RESULT_FD)
        return take_result_fd(a, value, err);
    else
        r = strv_add(list_slot(a, id), value);
    return r < 0 ? err_oom(err) : 0;
}

static int parse(int argc, char **argv, size_t n_opts, struct run_args *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(run_opts, n_opts, argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        if ((r = run_args_take(ret, it.id, it.value, err)) < 0)
            return r;
    if (r < 0)
        return r;
    if (ret->tty && ret->no_tty)
        return err_usage(err, "--tty and --no-tty exclude each other");
    ret->argv = argv + it.pos;
    ret->argc = (size_t)(argc - it.pos);
    return 0;
}

int run_args_parse(int argc, char **argv, struct run_args *ret, struct err *err) {
    return parse(argc, argv, N_RUN_OPTS, ret, err);
}

int run_args_parse_run(int argc, char **argv, struct run_args *ret, struct err *err) {
    return parse(argc, argv, N_RUN_OPTS_ALL, ret, err);
}

void run_args_done(struct run_args *a) {
    strv_done(&a->flags.allow);
    strv_done(&a->flags.deny);
    strv_done(&a->flags.publish);
    strv_done(&a->flags.secrets);
    strv_done(&a->flags.ssh_keys);
    strv_done(&a->flags.env);
    strv_done(&a->flags.mounts);
    strv_done(&a->hidden);
    elsewheres_done(&a->elsewhere);
    ignore_freep(&a->rules);
    ignore_freep(&a->accepted);
}

/* Covers are mounts, absences of an overlay are entries of a folder in memory. */
enum { COVERS_MAX = 1000, ABSENCES_MAX = 100000, LITERAL_MAX = 8192 };

struct hiding {
    struct ignore *rules;
    struct strv *hidden;
    struct strv linked; /* of these, what may have other names */
    size_t max, kept;
};

static int add_hidden(const struct ignore_found *f, void *arg, struct err *err) {
    struct hiding *h = arg;

    if (h->hidden->len == h->max)
        return err_set(err, -E2BIG, "more than %zu files match %s (the last one: '%s'); hide their folders instead%s", h->max,
                       IGNORE_FILE, f->path, h->max == COVERS_MAX ? ", or use --workspace overlay or sync" : "");
    if ((f->linked || f->is_dir) && strv_add(&h->linked, f->path) < 0)
        return err_oom(err);
    return strv_add(h->hidden, f->path) < 0 ? err_oom(err) : 0;
}

/* A rule for just this path, in its own folder, where it wins over everything. */
static int add_literal(struct ignore *rules, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(LITERAL_MAX);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    CLEANUP(freep) char *dir = strndup(path, slash ? (size_t)(slash - path) : 0);

    buf_addc(&line, '/');
    for (const char *p = name; *p; p++) {
        if (strchr("*?[\\ ", *p))
            buf_addc(&line, '\\');
        buf_addc(&line, *p == '\n' ? '?' : *p); /* a pattern is one line */
    }
    buf_addc(&line, '\n');
    if (!dir || !buf_ok(&line))
        return err_oom(err);
    return ignore_add_file(rules, dir, "accepted " IGNORE_FILE, line.data, line.len, err);
}

/* What the accepted rules hide and the present ones would show stays hidden, and is told. */
static int add_accepted(const struct ignore_found *f, void *arg, struct err *err) {
    struct hiding *h = arg;
    int r;

    if (ignore_match(h->rules, f->path, f->is_dir) == IGNORE_EXCLUDED)
        return 0;
    h->kept++;
    r = add_literal(h->rules, f->path, err);
    return r < 0 ? r : add_hidden(f, h, err);
}

/* What was accepted counts until the user has seen what changed (workspace/hide/pin.h). */
static int hide_accepted(struct run_args *a, const struct host_facts *facts, int top, struct hiding *h, struct strv *notes,
                         struct err *err) {
    CLEANUP(freep) char *pins = NULL;
    int r = pin_folder(facts->environ_, facts->home, &pins, err);

    r = r < 0 ? r : pin_check(pins, facts->workspace, a->rules, a->record, &a->accepted, err);
    if (r <= 0)
        return r;
    r = ignore_scan_by(a->accepted, top, add_accepted, h, err);
    if (r >= 0 && h->kept &&
        strv_addf(notes,
                  IGNORE_FILE
                  " changed since it was accepted: %zu of the files that it would show stay hidden (see 'bawn init --accept')",
                  h->kept) < 0)
        return err_oom(err);
    return r;
}

/* A hidden file that was ever added to git is in its store a second time. */
static int hide_objects(int top, struct hiding *h, struct strv *notes, struct err *err) {
    CLEANUP(strv_done) struct strv objects = {0};
    int r = gitblobs_of_hidden(top, h->hidden, &objects, err);

    if (r > 0 && strv_add(notes, "too many hidden files to look for all of them among git's objects; what was ever added to git "
                                 "can be read there") < 0)
        return err_oom(err);
    for (size_t i = 0; r >= 0 && i < objects.len; i++) {
        const struct ignore_found f = {.path = objects.v[i]};

        r = add_literal(h->rules, f.path, err);
        r = r < 0 ? r : add_hidden(&f, h, err);
    }
    return r < 0 ? r : 0;
}

/* A hidden file that has another name, which no rule hides. */
static int hide_links(int top, struct hiding *h, struct strv *notes, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = hardlinks_of_hidden(top, &h->linked, h->rules, &names, err);

    if (r > 0 && strv_add(notes, "too many hidden files to look for other names (hard links) of all of them; what has one can be "
                                 "read by it") < 0)
        return err_oom(err);
    if (r >= 0 && names.len &&
        strv_addf(notes, "%zu %s of hidden files are hidden, too: '%s'%s", names.len,
                  names.len == 1 ? "other name" : "other names", names.v[0], names.len > 1 ? ", ..." : "") < 0)
        return err_oom(err);
    for (size_t i = 0; r >= 0 && i < names.len; i++) {
        const struct ignore_found f = {.path = names.v[i]};

        r = add_literal(h->rules, f.path, err);
        r = r < 0 ? r : add_hidden(&f, h, err);
    }
    return r < 0 ? r : 0;
}

/* What the user mounts by name, and is itself hidden, is meant to be seen. */
static int find_elsewhere(struct run_args *a, const struct host_facts *facts, const struct settings *s, struct err *err) {
    int r = elsewheres_find(s, facts->workspace, &a->elsewhere, err);

    for (size_t i = r < 0 ? 0 : a->elsewhere.n; i-- > 0;)
        if (*a->elsewhere.v[i].rel && ignore_match(a->rules, a->elsewhere.v[i].rel, true) == IGNORE_EXCLUDED)
            elsewheres_drop(&a->elsewhere, i);
    return r;
}

/* What has another file, or a folder of the sandbox's own, in its place is as if it were hidden: a copy does not have it, and
 * nothing of that name is carried back. */
static int hide_replaced(struct run_args *a, const struct settings *s, enum workspace_mode mode, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < s->n_substitutes; i++)
        r = add_literal(a->rules, s->substitutes[i].path, err);
    for (size_t i = 0; r >= 0 && i < s->volumes.len && (mode == WORKSPACE_SYNC || mode == WORKSPACE_WORKTREE); i++)
        r = add_literal(a->rules, s->volumes.v[i], err);
    return r;
}

static int scan_workspace(struct run_args *a, const struct host_facts *facts, struct settings *s, struct err *err) {
    CLEANUP(closep) int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    enum workspace_mode mode = settings_workspace_mode(s);
    struct hiding h = {.hidden = &a->hidden, .max = mode == WORKSPACE_DIRECT || mode == WORKSPACE_RO ? COVERS_MAX : ABSENCES_MAX};
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace");
    a->rules = h.rules = ignore_new();
    r = a->rules ? ignore_scan(a->rules, top, add_hidden, &h, err) : err_oom(err);
    r = r < 0 ? r : hide_accepted(a, facts, top, &h, &s->notes, err);
    r = r < 0 ? r : hide_links(top, &h, &s->notes, err);
    r = r < 0 ? r : hide_objects(top, &h, &s->notes, err);
    r = r < 0 ? r : find_elsewhere(a, facts, s, err);
    strv_done(&h.linked);
    return r < 0 ? r : hide_replaced(a, s, mode, err);
}

int run_args_load(struct run_args *a, struct host_facts *facts, struct strv *owned, struct settings *ret, struct err *err) {
    struct settings_sources src = {.flags = &a->flags, .agent = a->agent};
    int r;

    if (a->dir && chdir(a->dir) < 0)
        return err_sys(err, -errno, "workspace '%s'", a->dir);
    r = host_facts(facts, owned, err);
    if (r < 0)
        return r;
    src.workspace = facts->workspace;
    src.home = facts->home;
    src.environ_ = facts->environ_;
    r = settings_load(&src, ret, err);
    if (r < 0 || ret->mode == MODE_OFF)
        return r;
    a->input.workspace.hidden = &a->hidden;
    a->input.workspace.elsewhere = &a->elsewhere;
    return scan_workspace(a, facts, ret, err);
}

enum { EXPLAIN_MAX = 16 * 1024 * 1024 };

/* A mistake in the network rules stops a run, so it is told here too. */
static int check_rules(const struct host_facts *facts, const struct settings *s, struct err *err) {
    CLEANUP(policy_files_done) struct policy_files files = {0};
    CLEANUP(closep) int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct policy_where where = {
        .settings = s, .workspace = facts->workspace, .workspace_fd = top, .home = facts->home, .environ_ = facts->environ_};

    if (s->network == NETWORK_NONE)
        return 0;
    return top < 0 ? err_sys(err, -errno, "open the workspace") : policy_files_load(&where, &files, err);
}

int run_args_explain(const struct run_args *a, const struct host_facts *facts, const struct settings *s, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(EXPLAIN_MAX);
    CLEANUP(plan_done) struct plan plan = {0};
    struct plan_input in = a->input;
    int r = check_rules(facts, s, err);

    in.pid = getpid();
    in.argv = a->argv;
    in.argc = a->argc;
    r = r < 0 ? r : plan_make(s, facts, &in, RUNG_FULL, &plan, err);
    if (r < 0)
        return r;
    if (a->json)
        plan_print_json(&plan, s, &out);
    else
        plan_print_text(&plan, s, &out);
    fputs(buf_str(&out), stdout);
    return 0;
}
