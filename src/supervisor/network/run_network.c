/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one run, from its rules to its summary. */
#include "supervisor/network/run_network.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/meter.h"
#include "supervisor/network/asker.h"
#include "supervisor/terminal/stdio.h"

/* Without a CA no TLS can be inspected: the gate refuses what needs it, and the rest works. Denials over https have no words then. */
static void take_ca(struct run_network *n, struct plan_input *in) {
    bool needed = n->files.look || n->credentials.n_grants; /* both inspect TLS */
    struct err err = {0};

    if (n->state && castock_take(n->state, true, &n->ca, &err) == 0) {
        if (n->ca.path)
            plan_input_trust(in, n->ca.path);
        return;
    }
    if (n->state && needed) {
        err_ctx(&err, err.code, "no certificate authority for this sandbox, so https that has to be inspected is refused");
        log_err(&err);
    }
}

/* A service counts what all sandboxes of a tenant send, and says how much that may be: it names the file. Without that file nothing is started. */
static int open_meter(struct run_network *n, struct err *err) {
    const char *path = paths_getenv(n->where.environ_, "BAWN_METER");
    int fd = path ? meter_open(path) : 0;

    if (fd < 0)
        return err_sys(err, fd, "open what this sandbox may send, '%s' (BAWN_METER)", path);
    n->meter = fd;
    return 0;
}

int run_network_prepare(struct run_network *n, const struct settings *s, const struct host_facts *facts, struct plan_input *in,
                        int workspace, struct err *err) {
    int r;

    n->where = (struct policy_where){.settings = s,
                                     .workspace = facts->workspace,
                                     .workspace_fd = workspace,
                                     .home = facts->home,
                                     .environ_ = facts->environ_};
    r = policy_files_load(&n->where, &n->files, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n->files.notes.len; i++)
        log_note("%s", n->files.notes.v[i]);
    r = published_open(&s->net.publish, &n->published, err);
    r = r < 0 ? r : paths_state_if_home(facts->environ_, facts->home, "", &n->state, err);
    r = r < 0 ? r : open_meter(n, err);
    if (r < 0)
        return r;
    if (n->state && str_ends(n->state, "/"))
        n->state[strlen(n->state) - 1] = 0;
    r = run_credentials_prepare(&n->credentials, s, facts, in, err);
    if (r < 0)
        return r;
    take_ca(n, in);
    n->agent = in->home.agent_env;
    n->on = true;
    return 0;
}

int run_network_give_up(struct run_network *n, struct err *err) {
    const char *origin = n->where.settings->origin[SETTING_NETWORK];

    n->on = false;
    if (origin && !str_starts(origin, "built-in"))
        return err_set(
            err, -EOPNOTSUPP,
            "the network (%s) needs network namespaces or seccomp notification, which are not available here; use --network none (see 'bawn doctor --fix')",
            origin);
    if (n->published.n)
        return err_set(
            err, -EOPNOTSUPP,
            "--publish needs network namespaces or seccomp notification, which are not available here (see 'bawn doctor --fix')");
    log_line(
        "no network: it needs network namespaces or seccomp notification, which are not available here (see 'bawn doctor --fix')");
    return 0;
}

static int make_asker(struct run_network *n, const struct run_network_opts *o, bool *ret_only_requests, struct err *err) {
    const struct settings *s = n->where.settings;
    struct stdio *term = o->io && stdio_prompt_possible(o->io) ? o->io : NULL;
    bool human = term || s->question.hook;
    struct asker_opts opts = {.term = term,
                              .hook = s->question.hook,
                              .timeout_ms = s->question.timeout_ms,
                              .say = !human,
                              .environ_ = n->where.environ_,
                              .mask = o->mask};

    /* Without a human to ask at once, what an agent asks for waits for 'bawn policy approve' all the same. */
    *ret_only_requests = !policy_files_can_ask(s, human);
    return s->question.mode == ASK_NEVER ? 0 : asker_new(&opts, &n->asker, err);
}

int run_network_begin(struct run_network *n, const struct run_network_opts *o, struct err *err) {
    struct gate_opts g = {.where = &n->where,
                          .published = &n->published,
                          .state = n->state,
                          .sandbox = n->name,
                          .audit = o->audit,
                          .ca = &n->ca,
                          .credentials = &n->credentials,
                          .bytes = o->sandbox->bytes,
                          .init_control = o->sandbox->control,
                          .meter = n->meter,
                          .cgroup = &o->sandbox->cgroup,
                          .no_control = o->no_control,
                          .argv = o->argv,
                          .argc = o->argc};
    int r;

    if (!n->on)
        return 0;
    if (o->name)
        snprintf(n->name, sizeof n->name, "%s", o->name);
    else
        snprintf(n->name, sizeof n->name, "%d", (int)getpid());
    r = make_asker(n, o, &g.only_requests, err);
    if (r < 0)
        return r;
    static_assert(ARRAY_LEN(o->sandbox->shown) == INSIDE_SOCKETS && (int)INSIDE_SSH == 0, "in the order of the plan");
    static_assert(sizeof g.listeners == sizeof o->sandbox->net && sizeof g.named == sizeof o->sandbox->net_named,
                  "a place for each");
    for (size_t i = 0; i < GATE_LISTENERS; i++)
        g.listeners[i] = TAKE_FD(o->sandbox->net[i]);
    for (size_t i = 0; i < GATE_NAMED_MAX; i++)
        g.named[i] = TAKE_FD(o->sandbox->net_named[i]);
    for (size_t i = 0; i < INSIDE_SOCKETS; i++)
        g.inside[i] = o->sandbox->shown[i] >= 0 ? TAKE_FD(o->sandbox->shown[i]) : TAKE_FD(n->credentials.sockets.fd[i]);
    for (size_t i = 0; i < INSIDE_SOCKETS; i++)
        closep(&n->credentials.sockets.fd[i]); /* not used over a byte link: no one would answer */
    g.asker = n->asker;
    r = gatekeeper_new(&g, &n->files, &n->gate, err);
    if (r == 0 && n->agent)
        gatekeeper_begin(n->gate);
    return r;
}

void run_network_end(struct run_network *n) {
    if (n->gate)
        gatekeeper_finish(n->gate);
}

void run_network_done(struct run_network *n) {
    gatekeeper_free(n->gate);
    if (n->meter)
        close(n->meter);
    asker_free(n->asker);
    policy_files_done(&n->files);
    published_done(&n->published);
    castock_done(&n->ca);
    run_credentials_done(&n->credentials);
    free(n->state);
    *n = (struct run_network)RUN_NETWORK_INIT;
}
