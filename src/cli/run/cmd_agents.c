/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn agents`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/agent/agent_run.h"

enum { COMMAND_MAX = 4096 };

struct agents_line {
    const char *install;
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "install", "NAME", "install this agent's program with npm, in a sandbox, for sandboxes only", "@agent",
     OPT_TO_TEXT(struct agents_line, install)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct agents_line, json)},
};

static void add_installed(const void *row, const char *key, struct jsonout *j) {
    const struct agent_program *p = &((const struct agent_state *)row)->program;

    jsonout_text(j, key, !p->path ? "no" : p->own ? "sandbox" : "host");
}

static const struct column columns[] = {
    {NULL, "name", COLUMN(TEXT, struct agent_state, agent.name)},
    {NULL, "title", COLUMN(TEXT, struct agent_state, agent.title)},
    {NULL, "program", COLUMN(TEXT, struct agent_state, program.path)},
    {NULL, "installed", COLUMN_NONE, 0, .json = add_installed},
    {NULL, "package", COLUMN(TEXT, struct agent_state, agent.package)},
    {NULL, "credential", COLUMN(TEXT, struct agent_state, credential)},
    {NULL, "host", COLUMN(TEXT, struct agent_state, agent.secret_host)},
};
static const struct record_kind agents = {columns, ARRAY_LEN(columns), sizeof(struct agent_state)};

static void add_agent(const struct agent_state *st, struct buf *b) {
    CLEANUP(buf_done) struct buf command = BUF_INIT(COMMAND_MAX);

    agent_add_secret_command(&st->agent, NULL, &command);
    buf_addf(b, "%-10s %-14s ", st->agent.name, st->agent.title ? st->agent.title : "");
    if (st->program.path)
        buf_add_printable(b, st->program.path);
    else
        buf_addf(b, "not installed (bawn agents --install %s)", st->agent.name);
    if (st->credential)
        buf_addf(b, "; key: %s, for %s", st->credential, st->agent.secret_host);
    else if (command.len)
        buf_addf(b, "; no key (%s)", buf_str(&command));
    buf_addc(b, '\n');
}

static int list_agents(bool json, struct buf *out, struct err *err) {
    CLEANUP(agent_states_done) struct agent_states l = {0};
    struct jsonout j = {.to = out};
    int r = agent_list(&l, err);

    if (r < 0)
        return r;
    if (json) {
        record_array(&agents, l.v, l.n, NULL, RECORD_LINES, &j);
        buf_addc(out, '\n');
    }
    for (size_t i = 0; !json && i < l.n; i++)
        add_agent(&l.v[i], out);
    return 0;
}

static int install_agent(const char *name, struct err *err) {
    CLEANUP(agent_done) struct agent a = {0};
    int r = agent_install_named(name, &verb_notice, &a, err);

    if (r == 0)
        log_line("%s is installed: bawn run --agent %s", a.title ? a.title : a.name, a.name);
    return r;
}

static int run_agents(struct verb_call *c, struct err *err) {
    struct agents_line l = {0};
    int r = verb_parse(c, &l, 0, err);

    if (r == 0)
        r = l.install ? install_agent(l.install, err) : list_agents(l.json, &c->out, err);
    return r < 0 ? r : 0;
}

const struct verb verb_agents = {
    .name = "agents",
    .summary = "list the coding agents that Bawn knows how to run",
    .synopsis = "[options]",
    .description =
        "Each agent has a preset: how its program is called, which hosts it needs, which it must not reach (telemetry), "
        "what it keeps between runs, and which credential it needs. Your own presets are files in "
        "$XDG_CONFIG_HOME/bawn/agents/NAME.json (spec/agent.schema.json).\n\n"
        "--install runs npm in a sandbox that sees nothing but the new folder and has none of your secrets; runs see the "
        "result, $XDG_STATE_HOME/bawn/agents/NAME, read-only. A program of the host's of the same name is preferred.\n\n"
        "    bawn secret set anthropic --host api.anthropic.com\n"
        "    bawn run --agent claude",
    VERB_OPTS(opts),
    .run = run_agents,
};
