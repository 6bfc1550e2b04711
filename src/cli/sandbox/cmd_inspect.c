/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn inspect`. */
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"

struct inspect_line {
    const char *directory;
    bool json;
};

static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace whose own sandbox is meant (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct inspect_line, directory)},
    {0, 0, "json", NULL, "print JSON (also where the output is no terminal)", NULL, OPT_TO_FLAG(struct inspect_line, json)},
};

static void add_paths(const struct sandbox_details *s, struct jsonout *j) {
    jsonout_break(j, "\n ");
    jsonout_open(j, "paths", '{');
    jsonout_text(j, "folder", s->pick.box.path);
    jsonout_text(j, "tmp", s->pick.box.alive ? s->pick.box.state.tmp : NULL);
    jsonout_text(j, "run", s->run);
    jsonout_text(j, "volumes", s->volumes);
    jsonout_text(j, "audit", s->audit);
    jsonout_close(j, '}');
    jsonout_break(j, "\n ");
    jsonout_open(j, "sockets", '{');
    jsonout_text(j, "exec", s->exec);
    jsonout_text(j, "control", s->control);
    jsonout_close(j, '}');
}

static void add_sizes(const struct sandbox_details *s, struct jsonout *j) {
    jsonout_break(j, "\n ");
    jsonout_open(j, "sizes", '{');
    jsonout_u64(j, "home", s->sizes.home);
    jsonout_u64(j, "system", s->sizes.packages);
    jsonout_u64(j, "tmp", s->sizes.tmp);
    jsonout_u64(j, "log", s->sizes.log);
    jsonout_u64(j, "checkpoints", s->sizes.checkpoints);
    jsonout_u64(j, "changes", s->sizes.run);
    jsonout_u64(j, "volumes", s->sizes.volumes);
    jsonout_close(j, '}');
}

static void add_changes(const struct box_changes *c, struct jsonout *j) {
    static const char *const kinds[] = {[BOX_CHANGES_NO_RUN] = "none",
                                        [BOX_CHANGES_NONE] = "none",
                                        [BOX_CHANGES_WAIT] = "waiting",
                                        [BOX_CHANGES_UNKNOWN] = "unknown"};

    jsonout_break(j, "\n ");
    jsonout_open(j, "changes", '{');
    jsonout_text(j, "kind", kinds[c->kind]);
    jsonout_u64(j, "files", c->n);
    jsonout_bool(j, "commits", c->commits);
    jsonout_close(j, '}');
}

static void add_details_json(const struct sandbox_details *s, struct buf *out) {
    const struct box *b = &s->pick.box;
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    box_view_json(b, &s->usage, &j);
    jsonout_list(&j, "options", &b->info.options);
    jsonout_text(&j, "boot", b->state.boot[0] ? b->state.boot : NULL);
    jsonout_list(&j, "cgroups", &b->state.cgroups);
    add_paths(s, &j);
    add_sizes(s, &j);
    add_changes(&s->changes, &j);
    jsonout_list(&j, "checkpoints", &s->checkpoints);
    jsonout_break(&j, "\n ");
    box_view_answer(s->status, "policy_mode", "mode", &j);
    jsonout_break(&j, "\n ");
    box_view_answer(s->jobs, "jobs", "jobs", &j);
    buf_adds(out, "}\n");
}

static void add_detail(struct buf *out, const char *key, const char *value) {
    if (!value)
        return;
    buf_addf(out, "%-13s", key);
    buf_add_printable(out, value);
    buf_addc(out, '\n');
}

static void add_detail_size(struct buf *out, const char *key, uint64_t bytes) {
    char size[24];

    format_size(bytes, size);
    if (bytes)
        add_detail(out, key, size);
}

static void add_detail_list(struct buf *out, const char *key, const struct strv *list) {
    for (size_t i = 0; i < list->len; i++)
        add_detail(out, i ? "" : key, list->v[i]);
}

static void add_details(const struct sandbox_details *s, struct buf *out) {
    const struct box *b = &s->pick.box;
    char status[BOX_WORD_MAX], memory[64], cpu[64], pids[64], words[400];

    box_view_status(b, status);
    box_usage_words(b, &s->usage, memory, cpu, pids);
    box_changes_words(&s->changes, words);
    add_detail(out, "name", b->name);
    add_detail(out, "id", b->info.id);
    add_detail(out, "status", status);
    add_detail(out, "workspace", b->info.workspace);
    add_detail(out, "mode", b->state.mode);
    add_detail(out, "profile", b->state.profile);
    add_detail(out, "engine", b->state.engine);
    add_detail(out, "rung", b->state.rung);
    add_detail(out, "fork of", b->info.from);
    add_detail_list(out, "options", &b->info.options);
    add_detail(out, "memory", memory);
    add_detail(out, "cpu", cpu);
    add_detail(out, "processes", pids);
    add_detail(out, "changes", words);
    add_detail(out, "folder", b->path);
    add_detail(out, "/tmp", b->alive ? b->state.tmp : NULL);
    add_detail(out, "exec", s->exec);
    add_detail(out, "control", s->control);
    add_detail(out, "audit", s->audit);
    add_detail(out, "volumes", s->volumes);
    add_detail_list(out, "checkpoints", &s->checkpoints);
    add_detail_size(out, "home uses", s->sizes.home);
    add_detail_size(out, "packages use", s->sizes.packages);
    add_detail_size(out, "/tmp uses", s->sizes.tmp);
    add_detail_size(out, "changes use", s->sizes.run);
    add_detail_size(out, "logs use", s->sizes.log);
    add_detail_size(out, "volumes use", s->sizes.volumes);
    add_detail_size(out, "copies use", s->sizes.checkpoints);
    if (s->jobs) {
        buf_addc(out, '\n');
        box_view_jobs(s->jobs, out);
    }
}

static int run_inspect(struct verb_call *c, struct err *err) {
    CLEANUP(sandbox_details_done) struct sandbox_details s = SANDBOX_DETAILS_INIT;
    struct inspect_line q = {0};
    int words = verb_parse(c, &q, 1, err), r;
    const struct sandbox_pick_opts o = {.name = words > 0 ? c->argv[1] : NULL, .directory = q.directory, .need = SANDBOX_ANY};

    r = words < 0 ? words : sandbox_inspect(&o, &s, err);
    if (r >= 0)
        (q.json || !isatty(STDOUT_FILENO) ? add_details_json : add_details)(&s, &c->out);
    return r < 0 ? r : 0;
}

const struct verb verb_inspect = {
    .name = "inspect",
    .summary = "show everything about a persistent sandbox",
    .synopsis = "[options] [NAME]",
    .description =
        "Shows everything that is known of a persistent sandbox, running or not: what it was made with, how it is, limits and usage, folders and "
        "sockets with what they take on the disk, checkpoints, changes that wait to be applied, and, while it runs, its commands. Without "
        "NAME: the one of the project in the current folder. JSON with --json, and wherever the output is no terminal.\n\n"
        "    bawn inspect dev\n"
        "    bawn inspect dev | jq .sizes",
    VERB_OPTS(opts),
    .run = run_inspect,
};
