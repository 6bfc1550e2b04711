/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/sha256.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/box_live.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/space.h"
#include "os/fd.h"
#include "supervisor/control/control_client.h"

enum { OPT_DIRECTORY = 1, OPT_JSON, VOLUME_DIGITS = 16 };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace whose own sandbox is meant (default: the current folder)", "@dir"},
    {OPT_JSON, 0, "json", NULL, "print JSON (also where the output is no terminal)", NULL},
};

struct inspect_request {
    const char *directory;
    bool json;
};

static int take(void *arg, int id, const char *value, struct err *err UNUSED) {
    struct inspect_request *q = arg;

    if (id == OPT_DIRECTORY)
        q->directory = value;
    q->json |= id == OPT_JSON;
    return 0;
}

/* Everything that is known of one; strings that are NULL are of nothing that is there. */
struct sight {
    const struct box *b;
    char *home, *control, *exec, *run, *volumes, *audit;
    struct strv checkpoints;
    struct box_changes changes;
    json_t *jobs, *status; /* of its keeper; NULL: it does not run, or does not answer */
    uint64_t bytes_home, bytes_log, bytes_checkpoints, bytes_run, bytes_volumes;
};

static void sight_done(struct sight *s) {
    char *const strings[] = {s->home, s->control, s->exec, s->run, s->volumes, s->audit};

    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        free(strings[i]);
    strv_done(&s->checkpoints);
    json_decref(s->jobs);
    json_decref(s->status);
}

/* -- looking ------------------------------------------------------------------------------------------------------------ */

static int find_paths(struct sight *s, struct err *err) {
    CLEANUP(freep) char *runtime = NULL, *volumes = NULL, *runs = NULL, *audit = NULL;
    char hash[SHA256_HEX_SIZE];
    int r = paths_home(environ, &s->home, err);

    sha256_hex(s->b->info.workspace, strlen(s->b->info.workspace), hash);
    r = r < 0 ? r : control_folder(environ, &runtime, err);
    r = r < 0 ? r : paths_state_if_home(environ, s->home, "volumes", &volumes, err);
    r = r < 0 ? r : paths_state_if_home(environ, s->home, "runs", &runs, err);
    r = r < 0 ? r : paths_state_if_home(environ, s->home, "audit", &audit, err);
    if (r < 0)
        return r;
    if (s->b->alive && runtime) {
        s->exec = str_dupf("%s/box/%s.sock", runtime, s->b->name);
        s->control = str_dupf("%s/%d.sock", runtime, (int)s->b->state.pid);
    }
    s->run = runs ? str_dupf("%s/%s", runs, s->b->name) : NULL;
    s->volumes = volumes ? str_dupf("%s/%.*s", volumes, VOLUME_DIGITS, hash) : NULL;
    s->audit = audit ? str_dupf("%s/%s.jsonl", audit, s->b->info.id) : NULL;
    return 0;
}

static void find_checkpoints(struct sight *s) {
    int fd = openat(s->b->fd, "checkpoints", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d)
        closep(&fd);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            strv_add(&s->checkpoints, e->d_name);
    if (d)
        closedir(d);
}

static int look(const struct box *b, struct sight *s, struct err *err) {
    struct err silent = {0};
    int r;

    s->b = b;
    r = find_paths(s, err);
    if (r < 0)
        return r;
    find_checkpoints(s);
    box_changes_look(s->home, b, &s->changes);
    s->bytes_home = space_of(b->fd, "home");
    s->bytes_log = space_of(b->fd, "log");
    s->bytes_checkpoints = space_of(b->fd, "checkpoints");
    s->bytes_run = s->run && s->changes.kind != BOX_CHANGES_NO_RUN ? space_of_path(s->run) : 0;
    s->bytes_volumes = s->volumes ? space_of_path(s->volumes) : 0;
    if (b->alive && box_live_ask(b, "jobs", &s->jobs, &silent) == 0)
        box_live_ask(b, "status", &s->status, &silent);
    return 0;
}

/* -- showing ------------------------------------------------------------------------------------------------------------ */

static const char *if_there(const char *path) {
    return path && access(path, F_OK) == 0 ? path : NULL;
}

static void add_json(const struct sight *s, struct buf *out) {
    static const char *const kinds[] = {[BOX_CHANGES_NO_RUN] = "none",
                                        [BOX_CHANGES_NONE] = "none",
                                        [BOX_CHANGES_WAIT] = "waiting",
                                        [BOX_CHANGES_UNKNOWN] = "unknown"};
    struct box_usage u;

    box_usage_all(s->b, 1, &u);
    buf_adds(out, "{");
    box_view_json(s->b, &u, out);
    box_view_json_list(out, "options", &s->b->info.options);
    box_view_json_text(out, "boot", s->b->state.boot[0] ? s->b->state.boot : NULL);
    box_view_json_list(out, "cgroups", &s->b->state.cgroups);
    buf_adds(out, ",\n \"paths\": {");
    box_view_json_text(out, "folder", s->b->path);
    box_view_json_text(out, "run", s->changes.kind == BOX_CHANGES_NO_RUN ? NULL : if_there(s->run));
    box_view_json_text(out, "volumes", if_there(s->volumes));
    box_view_json_text(out, "audit", if_there(s->audit));
    buf_adds(out, "},\n \"sockets\": {");
    box_view_json_text(out, "exec", s->exec);
    box_view_json_text(out, "control", s->control);
    buf_addf(out,
             "},\n \"sizes\": {\"home\": %" PRIu64 ", \"log\": %" PRIu64 ", \"checkpoints\": %" PRIu64 ", \"changes\": %" PRIu64
             ", \"volumes\": %" PRIu64 "}",
             s->bytes_home, s->bytes_log, s->bytes_checkpoints, s->bytes_run, s->bytes_volumes);
    buf_addf(out, ",\n \"changes\": {\"kind\": \"%s\", \"files\": %zu, \"commits\": %s}", kinds[s->changes.kind], s->changes.n,
             s->changes.commits ? "true" : "false");
    box_view_json_list(out, "checkpoints", &s->checkpoints);
    buf_adds(out, ",\n \"policy_mode\": ");
    box_live_add_json(s->status, "mode", out);
    buf_adds(out, ",\n \"jobs\": ");
    box_live_add_json(s->jobs, "jobs", out);
    buf_adds(out, "}\n");
}

static void add_row(struct buf *out, const char *key, const char *value) {
    if (!value)
        return;
    buf_addf(out, "%-13s", key);
    buf_add_printable(out, value);
    buf_addc(out, '\n');
}

static void add_size(struct buf *out, const char *key, uint64_t bytes) {
    char size[24];

    format_size(bytes, size);
    if (bytes)
        add_row(out, key, size);
}

static void add_list(struct buf *out, const char *key, const struct strv *list) {
    for (size_t i = 0; i < list->len; i++)
        add_row(out, i ? "" : key, list->v[i]);
}

static void add_text(const struct sight *s, struct buf *out) {
    const struct box *b = s->b;
    char status[BOX_WORD_MAX], memory[64], cpu[64], pids[64], words[400];
    struct box_usage u;

    box_view_status(b, box_view_now(), status);
    box_usage_all(b, 1, &u);
    box_usage_words(b, &u, memory, cpu, pids);
    box_changes_words(&s->changes, words);
    add_row(out, "name", b->name);
    add_row(out, "id", b->info.id);
    add_row(out, "status", status);
    add_row(out, "workspace", b->info.workspace);
    add_row(out, "mode", b->state.mode);
    add_row(out, "profile", b->state.profile);
    add_row(out, "engine", b->state.engine);
    add_row(out, "rung", b->state.rung);
    add_row(out, "fork of", b->info.from);
    add_list(out, "options", &b->info.options);
    add_row(out, "memory", memory);
    add_row(out, "cpu", cpu);
    add_row(out, "processes", pids);
    add_row(out, "changes", words);
    add_row(out, "folder", b->path);
    add_row(out, "exec", s->exec);
    add_row(out, "control", s->control);
    add_row(out, "audit", if_there(s->audit));
    add_row(out, "volumes", if_there(s->volumes));
    add_list(out, "checkpoints", &s->checkpoints);
    add_size(out, "home uses", s->bytes_home);
    add_size(out, "changes use", s->bytes_run);
    add_size(out, "logs use", s->bytes_log);
    add_size(out, "volumes use", s->bytes_volumes);
    add_size(out, "copies use", s->bytes_checkpoints);
    if (s->jobs) {
        buf_addc(out, '\n');
        box_live_jobs(s->jobs, out);
    }
}

static int inspect(const struct inspect_request *q, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    CLEANUP(sight_done) struct sight s = {0};
    const struct sandbox_pick_opts o = {.name = name, .directory = q->directory, .need = SANDBOX_ANY};
    int r = sandbox_pick(&o, &p, err);

    r = r < 0 ? r : look(&p.box, &s, err);
    if (r < 0)
        return r;
    if (q->json || !isatty(STDOUT_FILENO))
        add_json(&s, &out);
    else
        add_text(&s, &out);
    return run_print_out(&out, err);
}

static int run_inspect(const struct verb *self, int argc, char **argv) {
    struct policy_words words = {0};
    struct inspect_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    r = r < 0 ? r : inspect(&q, words.n ? words.v[0] : NULL, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Shows everything that is known of a kept sandbox, running or not: what it was made with, how it is, limits and usage, folders and "
    "sockets with what they take on the disk, checkpoints, changes that wait to be applied, and, while it runs, its commands. Without "
    "NAME: the one of the project in the current folder. JSON with --json, and wherever the output is no terminal.\n\n"
    "    bawn inspect dev\n"
    "    bawn inspect dev | jq .sizes";

const struct verb verb_inspect = {
    .name = "inspect",
    .summary = "show everything about a kept sandbox",
    .synopsis = "[options] [NAME]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_inspect,
};
