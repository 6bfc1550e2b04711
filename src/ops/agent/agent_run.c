/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an agent the command of a run. */
#include "ops/agent/agent_run.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "ops/agent/agent_answer.h"
#include "ops/agent/agent_setup.h"
#include "ops/agent/agent_url.h"
#include "ops/notice.h"
#include "supervisor/credential/credentials.h"
#include "supervisor/session/volumes.h"

enum { HINT_MAX = 4096, PORT_HTTPS = 443, SETUP_HASH = 16 /* so much of it is in a name */ };

void agent_run_done(struct agent_run *r) {
    agent_done(&r->preset);
    strv_done(&r->argv);
    strv_done(&r->home);
}

int agent_credential(const char *host, uint16_t port, const struct host_facts *facts, char **ret, struct err *err) {
    CLEANUP(credentials_done) struct credentials all = {0};
    int r = host ? credentials_load(facts->environ_, facts->home, &all, err) : 0;

    *ret = NULL;
    for (size_t i = 0; r == 0 && !*ret && i < all.len; i++)
        if (credential_is_for(&all.v[i], host, port) && !(*ret = strdup(all.v[i].name)))
            return err_oom(err);
    return r;
}

/* At another host than the usual one the key goes into requests in the same way, if nothing else is known. */
static void add_elsewhere(const struct credential *usual, const struct agent_url *u, struct buf *b) {
    buf_addf(b, "bawn secret set gateway --host %s", u->host.text);
    if (u->port != PORT_HTTPS)
        buf_addf(b, ":%u", u->port);
    if (str_eq(usual->format, "{}"))
        buf_addf(b, " --header %s", usual->header);
}

void agent_add_secret_command(const struct agent *a, const struct agent_url *u, struct buf *b) {
    struct credential usual = {0};
    bool elsewhere = u && u->text;

    if (!a->secret_name || !a->secret_host || (elsewhere && (!u->https || u->host.kind != HOST_NAME)))
        return;
    if (credential_add_host(&usual, a->secret_host, NULL) == 0 && credential_fill_known(&usual, NULL) == 0) {
        if (elsewhere)
            add_elsewhere(&usual, u, b);
        else
            buf_addf(b, "bawn secret set %s --host %s", a->secret_name, a->secret_host);
        for (size_t i = 0; i < a->secret_env.len; i++)
            if (elsewhere || !strv_has(&usual.env, a->secret_env.v[i]))
                buf_addf(b, " --env %s", a->secret_env.v[i]);
    }
    credential_done(&usual);
}

int agent_add_hosts(const struct agent *a, char *const *environ_, struct settings *s, struct err *err) {
    if (strv_add_all(&s->net.allow, &a->hosts) < 0 || strv_add_all(&s->net.deny, &a->deny) < 0)
        return err_oom(err);
    return agent_url_allow(a, environ_, s, err);
}

/* ".local/share/opencode" is one folder of the volume. setup: its hash; NULL: none */
static int keep_home(struct agent_run *run, const char *home, const char *setup, const struct host_facts *facts,
                     struct err *err) {
    CLEANUP(freep)
    char *sub = str_dupf("agent-%s%s%.*s/%s", run->preset.name, setup ? "-" : "", SETUP_HASH, setup ? setup : "", home);
    CLEANUP(freep) char *folder = NULL;
    int r = 0;

    if (!sub)
        return err_oom(err);
    for (char *p = strchr(sub, '/') + 1; *p; p++)
        *p = *p == '/' ? '-' : *p;
    r = volumes_folder(facts, sub, &folder, err);
    r = r < 0 ? r : agent_answer_files(&run->preset, home, folder, setup != NULL, err);
    return r < 0 ? r : strv_add(&run->home, folder) < 0 || strv_add(&run->home, home) < 0 ? err_oom(err) : 0;
}

static int find_program(const struct agent *a, const struct agent_wanted *w, const struct host_facts *facts,
                        struct agent_program *ret, struct err *err) {
    int r = agent_find(a, facts, ret, err);

    if (r < 0 || ret->path)
        return r;
    if (w->dry_run)
        return err_set(err, -ENOENT, "%s is not installed: 'bawn agents --install %s'", a->title ? a->title : a->name, a->name);
    r = agent_install(a, facts, w->notice, err);
    r = r < 0 ? r : agent_find(a, facts, ret, err);
    if (r == 0 && !ret->path)
        r = err_set(err, -ENOENT, "package %s has no program '%s'", a->package, a->command);
    return r;
}

/* The program, the preset's arguments, the user's; who wrote the program's name once more means the same. */
static int make_argv(struct agent_run *run, const struct agent_program *p, const struct agent_url *url,
                     const struct agent_wanted *w, const char *workspace, struct err *err) {
    size_t from = w->argc && str_eq(w->argv[0], run->preset.command) ? 1 : 0;
    int r = p->interpreter ? strv_add(&run->argv, p->interpreter) : 0;

    if (r < 0 || strv_add(&run->argv, p->path) < 0)
        return err_oom(err);
    r = agent_args_add(&run->preset, workspace, &run->argv, err);
    r = r < 0 ? r : agent_url_add_args(&run->preset, url, &run->argv, err);
    if (r < 0)
        return r;
    for (size_t i = from; r == 0 && i < w->argc; i++)
        r = strv_add(&run->argv, w->argv[i]);
    return r < 0 ? err_oom(err) : 0;
}

static int add_settings(const struct agent_run *run, const struct agent_program *p, char *const *environ_, struct settings *s,
                        struct err *err) {
    const struct agent *a = &run->preset;
    int r = 0;

    for (size_t i = 0; r == 0 && i < p->mounts.len; i++)
        r = settings_add_mount(s, p->mounts.v[i], err);
    for (size_t i = 0; r == 0 && i < a->env.len; i++)
        r = settings_add_env(s, a->env.v[i], err);
    return r < 0 ? r : agent_add_hosts(a, environ_, s, err);
}

/* Nothing stops the run: a login in the agent itself may do. */
static int note_credential(const struct agent_run *run, const struct agent_url *url, const struct host_facts *facts,
                           const struct settings *s, const struct notice *n, struct err *err) {
    CLEANUP(buf_done) struct buf command = BUF_INIT(HINT_MAX);
    const struct agent *a = &run->preset;
    const char *host = url->text ? url->host.text : a->secret_host;
    CLEANUP(freep) char *name = NULL;
    int r;

    agent_add_secret_command(a, url, &command);
    if (s->net.mode == NETWORK_NONE)
        notice_say(n, "no network: %s cannot reach its model", a->title ? a->title : a->name);
    if (!command.len)
        return 0;
    r = agent_credential(host, url->text ? url->port : PORT_HTTPS, facts, &name, err);
    if (r == 0 && !name)
        notice_say(n, "no credential for %s; to give it one that it never sees: %s", host, buf_str(&command));
    return r;
}

int agent_run_prepare(struct agent_run *run, const struct agent_wanted *w, const struct host_facts *facts, struct settings *s,
                      struct err *err) {
    CLEANUP(agent_program_done) struct agent_program p = {0};
    CLEANUP(agent_setup_done) struct agent_setup setup = {0};
    struct agent_url url;
    int r = agent_read(w->name, facts->environ_, facts->home, &run->preset, err);

    if (r <= 0)
        return r < 0 || !w->setup ? r : err_usage(err, "--agent-setup needs an agent with a preset, not '%s'", w->name);
    r = w->setup ? agent_setup_read(w->setup, &setup, err) : 0;
    r = r < 0 || !w->setup ? r : agent_setup_add(&setup, &run->preset, err);
    r = r < 0 ? r : agent_url_first(&run->preset, s, facts->environ_, &url, err);
    r = r < 0 ? r : find_program(&run->preset, w, facts, &p, err);
    r = r < 0 ? r : make_argv(run, &p, &url, w, facts->workspace, err);
    r = r < 0 ? r : add_settings(run, &p, facts->environ_, s, err);
    r = r < 0 ? r : note_credential(run, &url, facts, s, w->notice, err);
    for (size_t i = 0; r == 0 && !w->dry_run && i < run->preset.home.len; i++)
        r = keep_home(run, run->preset.home.v[i], w->setup ? setup.hash : NULL, facts, err);
    if (r == 0 && w->config.mode && !w->dry_run)
        r = agent_config_bring(&run->preset, &w->config, facts, &run->home, w->notice, err);
    for (size_t i = 0; r == 0 && i + 1 < run->home.len; i += 2) /* last: the user's own settings may be in the same file */
        r = agent_answer_key(&run->preset, run->home.v[i + 1], run->home.v[i], s, facts, err);
    return r < 0 ? r : 1;
}

/* -- all of them -------------------------------------------------------------------------------------------------------- */

void agent_states_done(struct agent_states *l) {
    for (size_t i = 0; i < l->n; i++) {
        agent_done(&l->v[i].agent);
        agent_program_done(&l->v[i].program);
        free(l->v[i].credential);
    }
    free(l->v);
}

static int add_state(const char *name, const struct host_facts *facts, struct agent_states *l, struct err *err) {
    struct agent_state *st = VEC_NEW(l->v, l->n);
    int r = st ? agent_read(name, facts->environ_, facts->home, &st->agent, err) : err_oom(err);

    if (r == 0)
        return err_set(err, -ENOENT, "there is no agent '%s'", name);
    r = r < 0 ? r : agent_find(&st->agent, facts, &st->program, err);
    return r < 0 ? r : agent_credential(st->agent.secret_host, PORT_HTTPS, facts, &st->credential, err);
}

int agent_list(struct agent_states *ret, struct err *err) {
    CLEANUP(strv_done) struct strv owned = {0}, names = {0};
    CLEANUP(agent_states_done) struct agent_states l = {0};
    struct host_facts facts;
    int r = host_facts(&facts, &owned, err);

    r = r < 0 ? r : agent_names(facts.environ_, facts.home, &names, err);
    for (size_t i = 0; r >= 0 && i < names.len; i++)
        r = add_state(names.v[i], &facts, &l, err);
    if (r < 0)
        return r;
    *ret = TAKE(l, (struct agent_states){0});
    return 0;
}
