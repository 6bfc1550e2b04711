/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "workspace/hide/protect.h"

enum { OPT_ORIGIN = 1, OPT_JSON, OPT_DIRECTORY, OPT_PROFILE, OPT_AGENT, OPT_PROTECTED, OUTPUT_MAX = 16 * 1024 * 1024 };

static const struct opt opts[] = {
    {OPT_ORIGIN, 'o', "origin", NULL, "also say where each value came from", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON, with origins and notes", NULL},
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_PROFILE, 'p', "profile", "NAME", "as if this profile had been named", "@profile"},
    {OPT_AGENT, 'a', "agent", "NAME", "as if this agent were run", "@agent"},
    {OPT_PROTECTED, 0, "protected", NULL, "the built-in list of protected paths, with reasons and sources", NULL},
};

struct config_request {
    bool origin, json, protected;
    const char *directory, *profile, *agent;
};

static int read_options(int argc, char **argv, struct config_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        switch (it.id) {
        case OPT_ORIGIN:
            ret->origin = true;
            break;
        case OPT_JSON:
            ret->json = true;
            break;
        case OPT_DIRECTORY:
            ret->directory = it.value;
            break;
        case OPT_PROFILE:
            ret->profile = it.value;
            break;
        case OPT_AGENT:
            ret->agent = it.value;
            break;
        case OPT_PROTECTED:
            ret->protected = true;
            break;
        }
    if (r == 0 && it.pos < argc)
        return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
    return r;
}

static void add_json(const struct settings *s, struct buf *b) {
    buf_adds(b, "{\"settings\": {\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        buf_addf(b, "  \"%s\": {\"value\": ", setting_names[i]);
        settings_add_value(s, (enum setting)i, b);
        buf_adds(b, ", \"origin\": ");
        buf_add_json(b, s->origin[i]);
        buf_adds(b, i + 1 < SETTING_COUNT ? "},\n" : "}\n");
    }
    buf_adds(b, "}, \"notes\": [");
    for (size_t i = 0; i < s->notes.len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, s->notes.v[i]);
    }
    buf_adds(b, "]}\n");
}

static void add_text(const struct settings *s, bool origin, struct buf *b) {
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        CLEANUP(buf_done) struct buf value = BUF_INIT(OUTPUT_MAX), shown = BUF_INIT(OUTPUT_MAX);

        settings_add_text(s, (enum setting)i, &value);
        buf_add_printable(&shown, buf_str(&value));
        buf_addf(b, origin ? "%-26s %-12s " : "%-26s %s", setting_names[i], buf_str(&shown));
        if (origin)
            buf_add_printable(b, s->origin[i]);
        buf_addc(b, '\n');
    }
}

/* As a table for people, or one object per row. What the user adds or takes out is workspace.protect. */
static void add_protected(bool json, struct buf *b) {
    buf_adds(b, json ? "{\"protected\": [\n" : "");
    for (size_t i = 0; i < n_protect_rows; i++) {
        const struct protect_row *row = &protect_rows[i];

        if (!json) {
            buf_addf(b, "%-32s %-14s %s [%s]\n", row->pattern, row->class, row->reason, row->source);
            continue;
        }
        buf_adds(b, "  {\"pattern\": ");
        buf_add_json(b, row->pattern);
        buf_addf(b, ", \"class\": \"%s\", \"reason\": ", row->class);
        buf_add_json(b, row->reason);
        buf_adds(b, ", \"source\": ");
        buf_add_json(b, row->source);
        buf_adds(b, i + 1 < n_protect_rows ? "},\n" : "}\n");
    }
    buf_adds(b, json ? "]}\n" : "");
}

static int load(const struct config_request *q, struct settings *ret, struct err *err) {
    struct settings_flags flags = {.profile = q->profile};
    struct settings_sources src = {.flags = &flags, .agent = q->agent, .environ_ = environ};
    CLEANUP(freep) char *home = NULL, *workspace = NULL;
    int r;

    r = paths_home(environ, &home, err);
    if (r < 0)
        return r;
    r = paths_workspace(q->directory, &workspace, err);
    if (r < 0)
        return r;
    src.home = home;
    src.workspace = workspace;
    return settings_load(&src, ret, err);
}

static int run_config(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    CLEANUP(settings_done) struct settings s = {0};
    struct config_request q = {0};
    struct err err = {0};

    if (read_options(argc, argv, &q, &err) < 0 || load(&q, &s, &err) < 0)
        return verb_fail(self, &err);
    if (q.protected)
        add_protected(q.json, &out);
    else if (q.json)
        add_json(&s, &out);
    else
        add_text(&s, q.origin, &out);
    if (!buf_ok(&out)) {
        err_oom(&err);
        return verb_fail(self, &err);
    }
    for (size_t i = 0; i < s.notes.len && !q.json && !q.protected; i++)
        log_line("%s", s.notes.v[i]);
    fputs(buf_str(&out), stdout);
    return 0;
}

static const char description[] =
    "Shows what a run in this workspace would be allowed, after flags, environment, agent, project, user and built-in values "
    "have been merged (in this order of strength) and the organisation's policy has been applied.\n\n"
    "What an untrusted project asked for and did not get is said on the standard error; see 'bawn trust'.\n\n"
    "    bawn config show --origin\n"
    "    bawn config show --protected\n"
    "    bawn config show --json --agent code | jq '.settings.network'";

const struct verb verb_config_show = {
    .name = "config show",
    .summary = "show the settings in force and where they come from",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_config,
};
