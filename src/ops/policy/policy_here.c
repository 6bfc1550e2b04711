/* SPDX-License-Identifier: Apache-2.0 */
/* Settings, files with rules and the agent's hosts, compiled to the policy of a run that would start here. */
#include "ops/policy/policy_here.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "os/fd.h"

enum { PORT_HTTPS = 443 };

void policy_here_opts_done(struct policy_here_opts *o) {
    strv_done(&o->allow);
    strv_done(&o->deny);
}

void policy_here_done(struct policy_here *v) {
    free(v->home);
    free(v->workspace);
    closep(&v->workspace_fd);
    settings_done(&v->settings);
    policy_files_done(&v->files);
    policy_done(&v->policy);
}

static int add_agent_hosts(const char *name, struct policy_here *v, struct err *err) {
    CLEANUP(agent_done) struct agent a = {0};
    int r = agent_read(name, environ, v->home, &a, err);

    return r <= 0 ? r : agent_add_hosts(&a, environ, &v->settings, err);
}

static int load_policy(const struct policy_here_opts *o, struct policy_here *v, struct err *err) {
    const struct settings_flags flags = {.profile = o->profile, .network = o->network, .allow = o->allow, .deny = o->deny};
    const struct settings_sources src = {
        .flags = &flags, .agent = o->agent, .workspace = v->workspace, .home = v->home, .environ_ = environ};
    int r = settings_load(&src, &v->settings, err);
    const struct policy_where where = {.settings = &v->settings,
                                       .workspace = v->workspace,
                                       .workspace_fd = v->workspace_fd,
                                       .home = v->home,
                                       .environ_ = environ};

    r = r < 0 || !o->agent ? r : add_agent_hosts(o->agent, v, err);
    r = r < 0 ? r : policy_files_load(&where, &v->files, err);
    if (r < 0)
        return r;
    return policy_files_compile(&v->files, policy_files_mode(&v->settings), policy_files_can_ask(&v->settings, true), &v->policy,
                                err);
}

int policy_here_open(const struct policy_here_opts *o, struct policy_here *v, struct err *err) {
    int r = paths_home(environ, &v->home, err);

    if (o->allow.len > POLICY_HOSTS_MAX || o->deny.len > POLICY_HOSTS_MAX)
        return err_usage(err, "%s is given more than %d times", o->allow.len > POLICY_HOSTS_MAX ? "--allow" : "--deny",
                         POLICY_HOSTS_MAX);
    r = r < 0 ? r : paths_workspace(o->dir, &v->workspace, err);
    if (r < 0)
        return r;
    v->workspace_fd = open(v->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (v->workspace_fd < 0)
        return err_sys(err, -errno, "open the workspace '%s'", v->workspace);
    return load_policy(o, v, err);
}

/* -- questions ----------------------------------------------------------------------------------------------------------- */

const char *const policy_stage_names[POLICY_STAGES] = {
    [STAGE_LOOKUP] = "lookup", [STAGE_CONNECTION] = "connection", [STAGE_ADDRESS] = "address", [STAGE_REQUEST] = "request"};

/* Returns false if this stage is the last one. */
static bool judge_stage(const struct policy *p, const struct policy_request *req, enum policy_stage stage,
                        struct policy_answer *a) {
    policy_judge(p, req, &a->v[stage]);
    a->asked[stage] = true;
    a->last = stage;
    return a->v[stage].action != RULE_DENY;
}

static void refuse_stage(enum policy_code code, enum policy_stage stage, const struct err *why, struct policy_answer *a) {
    policy_refuse(code, a->host, why->msg, &a->v[stage]);
    a->asked[stage] = true;
    a->last = stage;
}

static int read_address(const struct policy_question *q, const struct host *host, struct addr *ret, struct err *err) {
    const char *text = q->address;

    if (!text && host->kind == HOST_NAME && str_eq(host->text, HOST_OF_THE_MACHINE))
        text = "127.0.0.1";
    if (!text || host->kind != HOST_NAME)
        return 0;
    return addr_parse(text, strlen(text), ret) < 0 ? err_usage(err, "'%.60s' is not an address", text) : 1;
}

static void ask_request(const struct policy *p, const struct policy_question *q, struct policy_request *req,
                        struct policy_answer *a) {
    struct http_path path;
    struct err why = {0};

    if (!q->method)
        return;
    if (http_path_parse(q->path, q->path_len, &path, &why) < 0) {
        refuse_stage(POLICY_PATH_INVALID, STAGE_REQUEST, &why, a);
        return;
    }
    req->method = q->method;
    req->path = &path;
    judge_stage(p, req, STAGE_REQUEST, a);
}

int policy_ask(const struct policy *p, const struct policy_question *q, struct policy_answer *ret, struct err *err) {
    struct policy_request req = {0};
    struct host host;
    struct addr address;
    struct err why = {0};
    int found;

    *ret = (struct policy_answer){0};
    if (host_parse_with_port(q->host, q->host_len, &host, &ret->port, &why) < 0) {
        refuse_stage(POLICY_NAME_INVALID, STAGE_LOOKUP, &why, ret);
        return 0;
    }
    snprintf(ret->host, sizeof ret->host, "%s", host.text);
    if (ret->port == 0 && q->method)
        ret->port = PORT_HTTPS;
    found = read_address(q, &host, &address, err);
    if (found < 0)
        return found;
    req.host = &host;
    if (host.kind == HOST_NAME && !judge_stage(p, &req, STAGE_LOOKUP, ret))
        return 0;
    req.port = ret->port;
    req.is_tls = ret->port == PORT_HTTPS;
    if ((ret->port || host.kind != HOST_NAME) && !judge_stage(p, &req, STAGE_CONNECTION, ret))
        return 0;
    req.address = found ? &address : NULL;
    if (found && !judge_stage(p, &req, STAGE_ADDRESS, ret))
        return 0;
    ask_request(p, q, &req, ret);
    return 0;
}
