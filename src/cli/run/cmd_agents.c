/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/agent/agent_run.h"

enum { OPT_JSON = 1, OPT_INSTALL, OUTPUT_MAX = 256 * 1024 };

static const struct opt opts[] = {
    {OPT_INSTALL, 0, "install", "NAME", "install this agent's program with npm, in a sandbox, for sandboxes only", "@agent"},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

/* What is known of one agent on this machine. */
struct agents_state {
    struct agent agent;
    struct agent_program program;
    char *credential;
};

static void state_done(struct agents_state *st) {
    agent_done(&st->agent);
    agent_program_done(&st->program);
    free(st->credential);
}

static int look_at(const char *name, const struct host_facts *facts, struct agents_state *ret, struct err *err) {
    int r = agent_read(name, facts->environ_, facts->home, &ret->agent, err);

    if (r == 0)
        return err_set(err, -ENOENT, "there is no agent '%s'", name);
    r = r < 0 ? r : agent_find(&ret->agent, facts, &ret->program, err);
    return r < 0 ? r : agent_credential(&ret->agent, facts, &ret->credential, err);
}

static void add_member(struct buf *b, const char *key, const char *value) {
    buf_addf(b, ", \"%s\": ", key);
    if (value)
        buf_add_json(b, value);
    else
        buf_adds(b, "null");
}

static void add_json(const struct agents_state *st, bool first, struct buf *b) {
    buf_adds(b, first ? "  {\"name\": " : ",\n  {\"name\": ");
    buf_add_json(b, st->agent.name);
    add_member(b, "title", st->agent.title);
    add_member(b, "program", st->program.path);
    buf_addf(b, ", \"installed\": \"%s\"", !st->program.path ? "no" : st->program.own ? "sandbox" : "host");
    add_member(b, "package", st->agent.package);
    add_member(b, "credential", st->credential);
    add_member(b, "host", st->agent.secret_host);
    buf_addc(b, '}');
}

static void add_text(const struct agents_state *st, struct buf *b) {
    CLEANUP(buf_done) struct buf command = BUF_INIT(OUTPUT_MAX);

    agent_add_secret_command(&st->agent, &command);
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

static int list(bool json, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    CLEANUP(strv_done) struct strv owned = {0}, names = {0};
    struct host_facts facts;
    int r = host_facts(&facts, &owned, err);

    r = r < 0 ? r : agent_names(facts.environ_, facts.home, &names, err);
    buf_adds(&b, json ? "[\n" : "");
    for (size_t i = 0; r >= 0 && i < names.len; i++) {
        CLEANUP(state_done) struct agents_state st = {0};

        r = look_at(names.v[i], &facts, &st, err);
        if (r >= 0 && json)
            add_json(&st, i == 0, &b);
        else if (r >= 0)
            add_text(&st, &b);
    }
    buf_adds(&b, json ? "\n]\n" : "");
    if (r < 0)
        return r;
    return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) < 0 ? err_sys(err, -errno, "write the list") : 0;
}

static int install(const char *name, struct err *err) {
    CLEANUP(strv_done) struct strv owned = {0};
    CLEANUP(agent_done) struct agent a = {0};
    struct host_facts facts;
    int r = host_facts(&facts, &owned, err);

    r = r < 0 ? r : agent_read(name, facts.environ_, facts.home, &a, err);
    if (r == 0)
        return err_usage(err, "there is no agent '%s' (see 'bawn agents')", name);
    r = r < 0 ? r : agent_install(&a, &facts, err);
    if (r == 0)
        log_line("%s is installed: bawn run --agent %s", a.title ? a.title : a.name, a.name);
    return r;
}

static int run_agents(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    const char *wanted = NULL;
    struct err err = {0};
    bool json = false;
    int r;

    while ((r = opt_next(&it, &err)) > 0) {
        json |= it.id == OPT_JSON;
        wanted = it.id == OPT_INSTALL ? it.value : wanted;
    }
    if (r == 0 && it.pos < argc)
        r = err_usage(&err, "unexpected argument '%s'", argv[it.pos]);
    if (r == 0)
        r = wanted ? install(wanted, &err) : list(json, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_agents = {
    .name = "agents",
    .summary = "list the coding agents that Bawn knows how to run",
    .synopsis = "[options]",
    .description =
        "Each agent has a preset: how its program is called, which hosts it needs, which it is kept from (telemetry), "
        "what it keeps between runs, and which credential it wants. Your own presets are files in "
        "$XDG_CONFIG_HOME/bawn/agents/NAME.json (spec/agent.schema.json).\n\n"
        "--install runs npm in a sandbox that sees nothing but the new folder and has none of your secrets; runs see the "
        "result, $XDG_STATE_HOME/bawn/agents/NAME, read-only. A program of the host's of the same name is preferred.\n\n"
        "    bawn secret set anthropic --host api.anthropic.com\n"
        "    bawn run --agent claude",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_agents,
};
