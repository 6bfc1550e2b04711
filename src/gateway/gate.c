/* SPDX-License-Identifier: Apache-2.0 */
/* The gate as a whole: its parts, its configuration, its loop. */
#include "gateway/gate.h"

#include <errno.h>
#include <signal.h>

#include "gateway/epoll_set.h"
#include "gateway/flow/agentd.h"
#include "gateway/flow/flow.h"
#include "gateway/flow/pacer.h"
#include "gateway/flow/relay.h"
#include "gateway/flow/why.h"
#include "gateway/gate_control.h"
#include "gateway/net/dnsd.h"
#include "gateway/net/inlet.h"
#include "gateway/net/resolve.h"
#include "gateway/secret/brokerlink.h"
#include "gateway/secret/credd.h"
#include "gateway/secret/injection.h"
#include "gateway/tls/tls.h"
#include "os/fd.h"
#include "policy/confload.h"

enum { FILES_RESERVED = 2 * RELAY_PIPES_MAX + 128, FILES_PER_FLOW = 3, FLOWS_MIN = 64, FLOWS_FEW = 4 };

uint64_t gate_now_s(const struct gate *g) {
    return uv_now(&g->loop) / 1000;
}

/* A second socket for each address that is tried; more than two at once are rare. */
static uint32_t flows_max(const struct gate *g, uint32_t wanted) {
    size_t room = g->files > FILES_RESERVED ? (g->files - FILES_RESERVED) / FILES_PER_FLOW : 0;
    size_t most = MIN_OF(wanted ? wanted : (size_t)GATE_FLOWS_DEFAULT, room);

    return (uint32_t)MAX_OF(most, (size_t)FLOWS_MIN);
}

/* What is made of a configuration. */
struct gate_made {
    struct policy policy;
    struct placeholders *placeholders;
};

static int made_init(struct gate_made *m, const struct gate_config *config, struct err *err) {
    int r;

    *m = (struct gate_made){0};
    if (config->n_grants && placeholders_new(config->grants, config->n_grants, &m->placeholders) < 0)
        return err_oom(err);
    r = confload_policy(config, &m->policy, err);
    if (r < 0)
        placeholders_unref(TAKE_PTR(m->placeholders));
    return r;
}

static void made_done(struct gate_made *m) {
    policy_done(&m->policy);
    placeholders_unref(m->placeholders);
}

/* Whatever points into the old rules has to let go of them first. */
static void policy_replace(struct gate *g, struct gate_made *m, struct gate_config *config) {
    flows_forget_rules(g);
    policy_done(&g->policy);
    g->policy = m->policy;
    placeholders_unref(g->placeholders);
    g->placeholders = m->placeholders;
    gate_config_done(&g->config);
    g->config = TAKE(*config, (struct gate_config){0});
    g->config.max_flows = flows_max(g, g->config.max_flows);
}

int gate_reload(struct gate *g, struct gate_config *config, struct err *err) {
    struct gate_made m;
    int r = made_init(&m, config, err);

    if (r == 0) {
        r = resolver_set(g->resolver, config->resolv_conf, config->hosts, err);
        if (r < 0)
            made_done(&m);
    }
    if (r < 0) {
        gate_config_done(config);
        return r;
    }
    policy_replace(g, &m, config);
    g->nat64.until_ms = 0; /* perhaps the host is in another network now */
    pacer_forget(g->pacer);
    flows_judge_again(g);
    listeners_resume(g);
    return 0;
}

static int first_config(struct gate *g, struct err *err) {
    struct gate_config config = {0};
    struct gate_made m;
    uint32_t gate;
    int r = control_wait_config(g->control, &config, &gate, err);

    if (r < 0)
        return r;
    names_start(g->names, gate);
    r = made_init(&m, &config, err);
    if (r < 0) {
        gate_send(g, &(struct gate_msg){.type = GATE_MSG_READY, .value = r});
        control_flush(g->control);
        gate_config_done(&config);
        return r;
    }
    policy_replace(g, &m, &config);
    return 0;
}

static int make_parts(struct gate *g, struct gate_born *born, struct err *err) {
    size_t n_trust = 0;
    int r = hub_new(&g->loop, &g->hub, err);

    if (r < 0 || (r = pipes_new(&g->pipes, err)) < 0)
        return r;
    if (why_new(&g->why) < 0 || pacer_new(&g->pacer) < 0 || names_new(&g->names) < 0)
        return err_oom(err);
    if ((r = control_new(g, TAKE_FD(born->control), &g->control, err)) < 0 || (r = first_config(g, err)) < 0 ||
        (r = resolver_new(&g->loop, g->config.resolv_conf, g->config.hosts, &g->resolver, err)) < 0 ||
        (r = dnsd_new(g, TAKE_FD(born->udp[0]), TAKE_FD(born->udp[1]), &g->dnsd, err)) < 0)
        return r;
    if (brokerlink_new(g, &g->broker) < 0)
        return err_oom(err);
    while (n_trust < GATE_TRUST_MAX && born->trust[n_trust] >= 0)
        n_trust++;
    r = tls_new(g, born->trust, n_trust, &g->tls, err);
    for (size_t i = 0; i < n_trust; i++)
        born->trust[i] = -1;
    return r;
}

static int add_listeners(struct gate *g, struct gate_born *born, struct err *err) {
    int r = 0;

    g->captures_all = true;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(born->tcp); i++)
        if (born->tcp[i] >= 0)
            r = listener_add(g, TAKE_FD(born->tcp[i]), 0, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(born->named); i++)
        if (born->named[i] >= 0) {
            g->captures_all = false;
            r = listener_add(g, TAKE_FD(born->named[i]), 0, err);
        }
    for (size_t i = 0; r == 0 && i < g->config.n_publish; i++)
        if (born->publish[i] >= 0)
            r = listener_add(g, TAKE_FD(born->publish[i]), g->config.publish[i].inside, err);
    if (r == 0 && born->ssh >= 0)
        r = agentd_new(g, TAKE_FD(born->ssh), &g->ssh, err);
    if (r == 0 && born->credential >= 0)
        r = credd_new(g, TAKE_FD(born->credential), &g->credd, err);
    return r;
}

static void born_close(struct gate_born *born) {
    closep(&born->control);
    for (size_t i = 0; i < ARRAY_LEN(born->tcp); i++) {
        closep(&born->tcp[i]);
        closep(&born->udp[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(born->publish); i++)
        closep(&born->publish[i]);
    for (size_t i = 0; i < ARRAY_LEN(born->named); i++)
        closep(&born->named[i]);
    closep(&born->ssh);
    closep(&born->credential);
    for (size_t i = 0; i < ARRAY_LEN(born->trust); i++)
        closep(&born->trust[i]);
}

static void judge_over(void *arg) {
    flows_judge_again(arg);
}

void gate_sent(struct gate *g, size_t n) {
    if (g->meter && meter_add(g->meter, n))
        soon_set(g->hub, &g->over, judge_over, g);
}

int gate_init(struct gate *g, struct gate_born *born, struct err *err) {
    int r;

    *g = (struct gate){.files = born->files, .meter = born->meter};
    signal(SIGPIPE, SIG_IGN); /* splice into a closed socket has no flag against it */
    r = uv_loop_init(&g->loop);
    if (r < 0) {
        born_close(born);
        return err_sys(err, r, "make the gate's loop");
    }
    r = make_parts(g, born, err);
    r = r < 0 ? r : add_listeners(g, born, err);
    born_close(born);
    if (r < 0)
        return r;
    r = control_start(g->control);
    if (r < 0)
        return err_sys(err, r, "listen to the supervisor");
    gate_send(g, &(struct gate_msg){.type = GATE_MSG_READY, .value = (int32_t)g->config.generation});
    return 0;
}

int gate_serve(struct gate *g) {
    while (!g->stopped) {
        control_before_sleep(g->control);
        hub_turn(g->hub, g->flows.n <= FLOWS_FEW ? HUB_SPIN : HUB_SLEEP);
    }
    flows_close_all(g); /* what they have to say is said */
    control_drain(g->control);
    return g->status;
}

void gate_stop(struct gate *g, int status) {
    g->status = status;
    g->stopped = true;
}
