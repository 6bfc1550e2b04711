/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn config show`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "cli/verb.h"
#include "ops/setup/setup.h"
#include "workspace/hide/protect.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024 };

struct config_request {
    bool origin, json, protected;
    struct setup_config config;
};

#define TO(kind, member) OPT_TO_##kind(struct config_request, member)
static const struct opt opts[] = {
    {0, 'o', "origin", NULL, "also say where each value came from", NULL, TO(FLAG, origin)},
    {0, 0, "json", NULL, "print JSON, with origins and notes", NULL, TO(FLAG, json)},
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, config.directory)},
    {0, 'p', "profile", "NAME", "as if this profile had been named", "@profile", TO(TEXT, config.profile)},
    {0, 'a', "agent", "NAME", "as if this agent were run", "@agent", TO(TEXT, config.agent)},
    {0, 0, "protected", NULL, "the built-in list of protected paths, with reasons and sources", NULL, TO(FLAG, protected)},
};

static void add_json_settings(const struct settings *s, struct buf *b) {
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "settings", '{');
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        jsonout_break(&j, "\n  ");
        jsonout_open(&j, setting_names[i], '{');
        jsonout_key(&j, "value");
        settings_add_value(s, (enum setting)i, b);
        jsonout_text(&j, "origin", s->origin[i]);
        jsonout_close(&j, '}');
    }
    buf_adds(b, "\n}");
    jsonout_list(&j, "notes", &s->notes);
    buf_adds(b, "}\n");
}

static void add_settings(const struct settings *s, bool origin, struct buf *b) {
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

static const struct column columns[] = {
    {NULL, "pattern", COLUMN(TEXT, struct protect_row, pattern)},
    {NULL, "class", COLUMN(TEXT, struct protect_row, class)},
    {NULL, "reason", COLUMN(TEXT, struct protect_row, reason)},
    {NULL, "source", COLUMN(TEXT, struct protect_row, source)},
};
static const struct record_kind protected_paths = {columns, ARRAY_LEN(columns), sizeof(struct protect_row)};

/* As a table for people, or one object per row. What the user adds or takes out is workspace.protect. */
static void add_protected(bool json, struct buf *b) {
    struct jsonout j = {.to = b};

    for (size_t i = 0; i < n_protect_rows && !json; i++)
        buf_addf(b, "%-32s %-14s %s [%s]\n", protect_rows[i].pattern, protect_rows[i].class, protect_rows[i].reason,
                 protect_rows[i].source);
    if (!json)
        return;
    jsonout_open(&j, NULL, '{');
    record_array(&protected_paths, protect_rows, n_protect_rows, "protected", RECORD_LINES, &j);
    buf_adds(b, "}\n");
}

static int run_config(struct verb_call *c, struct err *err) {
    CLEANUP(settings_done) struct settings s = {0};
    struct config_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    r = r < 0 ? r : setup_settings(&q.config, &s, err);
    if (r < 0)
        return r;
    if (q.protected)
        add_protected(q.json, &c->out);
    else if (q.json)
        add_json_settings(&s, &c->out);
    else
        add_settings(&s, q.origin, &c->out);
    if (!q.json && !q.protected)
        verb_say(&s.notes);
    return 0;
}

const struct verb verb_config_show = {
    .name = "config show",
    .summary = "show the settings in force and where they come from",
    .synopsis = "[options]",
    .description =
        "Shows what a run in this workspace would be allowed, after flags, environment, agent, project, user and built-in values "
        "have been merged (in this order of strength) and the organisation's policy has been applied.\n\n"
        "What an untrusted project asked for and did not get is said on the standard error; see 'bawn trust'.\n\n"
        "    bawn config show --origin\n"
        "    bawn config show --protected\n"
        "    bawn config show --json --agent code | jq '.settings.network'",
    VERB_OPTS(opts),
    .run = run_config,
};
