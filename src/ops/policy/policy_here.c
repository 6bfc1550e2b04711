/* SPDX-License-Identifier: Apache-2.0 */
/* Settings, files with rules and the agent's hosts, compiled to the policy of a run that would start here. */
#include "ops/policy/policy_here.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "os/fd.h"

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

    return r <= 0 ? r : agent_add_hosts(&a, &v->settings, err);
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
