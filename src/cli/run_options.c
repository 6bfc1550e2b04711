#include "cli/run_options.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "workspace/ignore_scan.h"
#include "workspace/pin.h"

const struct opt run_opts[N_RUN_OPTS] = {
    {RUN_OPT_HELP, 'h', "help", NULL, "show this help", NULL},
    {RUN_OPT_DIR, 'C', "directory", "DIR", "the workspace (default: the current directory)", "@dir"},
    {RUN_OPT_PROFILE, 'p', "profile", "NAME", "limits and policy from this profile (see 'bawn profile ls')", "@profile"},
    {RUN_OPT_AGENT, 0, "agent", "NAME", "settings of agent.NAME in the configuration", "@agent"},
    {RUN_OPT_ENGINE, 'e', "engine", "NAME", "auto, native or none", "@engine"},
    {RUN_OPT_IMAGE, 0, "image", "REF", "image for container engines", NULL},
    {RUN_OPT_CPUS, 0, "cpus", "N", "CPUs it may use, e.g. 1.5", NULL},
    {RUN_OPT_MEMORY, 'm', "memory", "SIZE", "memory it may use, e.g. 512m or 4g", NULL},
    {RUN_OPT_SWAP, 0, "swap", "SIZE", "swap on top of the memory (default: none)", NULL},
    {RUN_OPT_PIDS, 0, "pids", "N", "processes it may have", NULL},
    {RUN_OPT_DISK, 0, "disk", "SIZE", "space it may use: private areas, and growth of the workspace", NULL},
    {RUN_OPT_TIMEOUT, 't', "timeout", "TIME", "end it after this time, e.g. 90s or 5m (exit status 124)", NULL},
    {RUN_OPT_NETWORK, 0, "network", "MODE", "none (this version has no other)", "none"},
    {RUN_OPT_ENV, 0, "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on", NULL},
    {RUN_OPT_MOUNT, 0, "mount", "FROM[:TO][:ro|rw]", "show another file or folder inside, read-only unless rw", "@dir"},
    {RUN_OPT_WORKSPACE, 'w', "workspace", "MODE", "direct (default) or ro (read-only)", "direct|ro"},
    {RUN_OPT_SANDBOX, 0, "sandbox", "[=MODE]", "auto (default), or require: refuse anything less than the full sandbox",
     "auto|require"},
    {RUN_OPT_NO_SANDBOX, 0, "no-sandbox", NULL, "run without any protection, after a warning", NULL},
    {RUN_OPT_YES, 0, "yes-unsandboxed", NULL, "with --no-sandbox: do not ask (needed without a terminal)", NULL},
    {RUN_OPT_TTY, 0, "tty", NULL, "give the command a terminal even if there is none", NULL},
    {RUN_OPT_NO_TTY, 0, "no-tty", NULL, "give the command pipes even if there is a terminal", NULL},
    {RUN_OPT_DRY_RUN, 'n', "dry-run", NULL, "print the plan and where each value comes from; start nothing", NULL},
    {RUN_OPT_JSON, 0, "json", NULL, "the result as one JSON line on stderr; with --dry-run the plan as JSON on stdout", NULL},
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
    }
    return NULL;
}

static int take_mode(struct run_args *a, const char *value, struct err *err) {
    if (value && !str_eq(value, "auto") && !str_eq(value, "require"))
        return err_usage(err, "--sandbox takes auto or require, not '%s'", value);
    a->flags.mode = value ? value : "auto";
    return 0;
}

static int take(struct run_args *a, int id, const char *value, struct err *err) {
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
    else
        r = strv_add(id == RUN_OPT_ENV ? &a->flags.env : &a->flags.mounts, value);
    return r < 0 ? err_oom(err) : 0;
}

int run_args_parse(int argc, char **argv, struct run_args *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(run_opts, N_RUN_OPTS, argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        if ((r = take(ret, it.id, it.value, err)) < 0)
            return r;
    if (r < 0)
        return r;
    if (ret->tty && ret->no_tty)
        return err_usage(err, "--tty and --no-tty exclude each other");
    ret->argv = argv + it.pos;
    ret->argc = (size_t)(argc - it.pos);
    return 0;
}

void run_args_done(struct run_args *a) {
    strv_done(&a->flags.env);
    strv_done(&a->flags.mounts);
    strv_done(&a->hidden);
}

/* Each is one mount; whole folders are one too, so more than this means patterns that should name a folder. */
enum { HIDDEN_MAX = 1000 };

struct hiding {
    struct strv *hidden;
    size_t kept;
};

static int add_hidden(const struct ignore_found *f, void *arg, struct err *err) {
    struct strv *hidden = arg;

    if (hidden->len == HIDDEN_MAX)
        return err_set(err, -E2BIG, "more than %d files match %s (the last one: '%s'); hide their folders instead", HIDDEN_MAX,
                       IGNORE_FILE, f->path);
    return strv_add(hidden, f->path) < 0 ? err_oom(err) : 0;
}

/* What the accepted rules hide and the present ones would show stays hidden, and is told. */
static int add_accepted(const struct ignore_found *f, void *arg, struct err *err) {
    struct hiding *h = arg;

    if (strv_has(h->hidden, f->path))
        return 0;
    h->kept++;
    return add_hidden(f, h->hidden, err);
}

static int scan_workspace(const struct run_args *a, const struct host_facts *facts, struct strv *ret_hidden, struct strv *notes,
                          struct err *err) {
    CLEANUP(closep) int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(ignore_freep) struct ignore *rules = ignore_new(), *accepted = NULL;
    CLEANUP(freep) char *pins = NULL;
    struct hiding h = {.hidden = ret_hidden};
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace");
    r = rules ? ignore_scan(rules, top, add_hidden, ret_hidden, err) : err_oom(err);
    r = r < 0 ? r : pin_folder(facts->environ_, facts->home, &pins, err);
    r = r < 0 ? r : pin_check(pins, facts->workspace, rules, a->record, &accepted, err);
    if (r <= 0)
        return r;
    r = ignore_scan_by(accepted, top, add_accepted, &h, err);
    if (r >= 0 && h.kept &&
        strv_addf(notes,
                  IGNORE_FILE
                  " changed since it was accepted: %zu of the files that it would show stay hidden (see 'bawn init --accept')",
                  h.kept) < 0)
        return err_oom(err);
    return r < 0 ? r : 0;
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
    facts->hidden = &a->hidden;
    return scan_workspace(a, facts, &a->hidden, &ret->notes, err);
}

enum { EXPLAIN_MAX = 16 * 1024 * 1024 };

int run_args_explain(const struct run_args *a, const struct host_facts *facts, const struct settings *s, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(EXPLAIN_MAX);
    CLEANUP(plan_done) struct plan plan = {0};
    int r = plan_make(s, facts, RUNG_FULL, a->argv, a->argc, &plan, err);

    if (r < 0)
        return r;
    if (a->json)
        plan_print_json(&plan, s, &out);
    else
        plan_print_text(&plan, s, &out);
    fputs(buf_str(&out), stdout);
    return 0;
}
