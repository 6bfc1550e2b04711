/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/policy/policy_view.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "os/fd.h"

bool policy_view_take(struct policy_view_opts *o, int id, const char *value) {
    switch (id) {
    case OPT_VIEW_DIR:
        o->dir = value;
        return true;
    case OPT_VIEW_PROFILE:
        o->profile = value;
        return true;
    case OPT_VIEW_AGENT:
        o->agent = value;
        return true;
    case OPT_VIEW_NETWORK:
        o->network = value;
        return true;
    case OPT_VIEW_ALLOW:
    case OPT_VIEW_DENY: {
        size_t i = id == OPT_VIEW_ALLOW;

        if (o->n[i] < POLICY_HOSTS_MAX)
            o->words[i][o->n[i]] = value;
        o->n[i]++; /* too many: policy_view_open() says so */
        return true;
    }
    }
    return false;
}

void policy_view_done(struct policy_view *v) {
    free(v->home);
    free(v->workspace);
    closep(&v->workspace_fd);
    settings_done(&v->settings);
    policy_files_done(&v->files);
    policy_done(&v->policy);
}

static int add_agent(const char *name, struct policy_view *v, struct err *err) {
    CLEANUP(agent_done) struct agent a = {0};
    int r = agent_read(name, environ, v->home, &a, err);

    return r <= 0 ? r : agent_add_hosts(&a, &v->settings, err);
}

static int add_hosts(const struct policy_view_opts *o, bool allow, struct strv *ret, struct err *err) {
    if (o->n[allow] > POLICY_HOSTS_MAX)
        return err_usage(err, "more than %d times %s", POLICY_HOSTS_MAX, allow ? "--allow" : "--deny");
    for (size_t i = 0; i < o->n[allow]; i++)
        if (strv_add(ret, o->words[allow][i]) < 0)
            return err_oom(err);
    return 0;
}

static int load(const struct policy_view_opts *o, const struct settings_flags *flags, struct policy_view *v, struct err *err) {
    const struct settings_sources src = {
        .flags = flags, .agent = o->agent, .workspace = v->workspace, .home = v->home, .environ_ = environ};
    int r = settings_load(&src, &v->settings, err);
    const struct policy_where where = {.settings = &v->settings,
                                       .workspace = v->workspace,
                                       .workspace_fd = v->workspace_fd,
                                       .home = v->home,
                                       .environ_ = environ};

    r = r < 0 || !o->agent ? r : add_agent(o->agent, v, err);
    r = r < 0 ? r : policy_files_load(&where, &v->files, err);
    if (r < 0)
        return r;
    return policy_files_compile(&v->files, policy_files_mode(&v->settings), policy_files_can_ask(&v->settings, true), &v->policy,
                                err);
}

int policy_view_open(const struct policy_view_opts *o, struct policy_view *v, struct err *err) {
    struct settings_flags flags = {.profile = o->profile, .network = o->network};
    int r;

    r = paths_home(environ, &v->home, err);
    r = r < 0 ? r : paths_workspace(o->dir, &v->workspace, err);
    if (r < 0)
        return r;
    v->workspace_fd = open(v->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (v->workspace_fd < 0)
        return err_sys(err, -errno, "open the workspace '%s'", v->workspace);
    r = add_hosts(o, true, &flags.allow, err);
    r = r < 0 ? r : add_hosts(o, false, &flags.deny, err);
    r = r < 0 ? r : load(o, &flags, v, err);
    strv_done(&flags.allow);
    strv_done(&flags.deny);
    return r;
}

int policy_read_words(const struct verb *self, int argc, char **argv, policy_take_fn *take, void *arg, size_t max,
                      struct policy_words *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(self->opts, self->n_opts, argc, argv);
    int r;

    for (;;) {
        while ((r = opt_next(&it, err)) > 0)
            if ((r = take(arg, it.id, it.value, err)) < 0)
                return r;
        if (r < 0 || it.pos >= argc)
            return r;
        if (ret->n == max || ret->n == POLICY_WORDS_MAX)
            return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
        ret->v[ret->n++] = argv[it.pos++];
    }
}

int policy_print(const struct verb *self, const struct buf *b, int status) {
    struct err err = {0};

    if (!buf_ok(b))
        err_oom(&err);
    else if (fwrite(buf_str(b), 1, b->len, stdout) != b->len || fflush(stdout) != 0)
        err_sys(&err, -errno, "write the result");
    return err.code ? verb_fail(self, &err) : status;
}
