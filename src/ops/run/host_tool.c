/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a tool on the host. */
#include "ops/run/host_tool.h"

#include <errno.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "ops/agent/agent_run.h"

/* Only the user's word counts: neither the project's, trusted or not, nor a variable's or a flag's of the moment. */
static int check_tool(const char *tool, const struct host_facts *facts, struct err *err) {
    const struct settings_flags none = {0};
    const struct settings_sources src = {
        .flags = &none, .workspace = facts->workspace, .home = facts->home, .environ_ = facts->environ_};
    CLEANUP(settings_done) struct settings s = {0};
    int r = settings_load(&src, &s, err);
    const char *origin = r < 0 ? NULL : s.origin[SETTING_BYPASS_TOOLS];

    if (r < 0)
        return r;
    if (strchr(tool, '/') || !strv_has(&s.bypass_tools, tool))
        return err_set(err, -EPERM, "'%s' is not in bypass_tools of your configuration, so it does not run on the host", tool);
    if (!origin || !str_starts(origin, "user"))
        return err_set(err, -EPERM, "bypass_tools counts in your own configuration only, not from %s",
                       origin ? origin : "elsewhere");
    return 0;
}

/* Before the effect; what cannot be recorded does not happen. */
static int record_call(const char *tool, const char *path, char **argv, size_t argc, const struct host_facts *facts,
                       struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    CLEANUP(freep) char *folder = NULL;
    int r = paths_state_if_home(facts->environ_, facts->home, "audit", &folder, err);

    if (r < 0)
        return r;
    if (!folder)
        return err_set(err, -ENOENT, "there is no place for the record; set HOME or XDG_STATE_HOME");
    audit_add(&b, "tool", tool);
    audit_add(&b, "program", path);
    audit_add(&b, "workspace", facts->workspace);
    audit_add_argv(&b, argv, argc);
    return buf_ok(&b) ? audit_note(facts->environ_, facts->home, AUDIT_TOOL, buf_str(&b), err) : err_oom(err);
}

int host_tool_exec(const char *tool, const char *dir, char **argv, size_t argc, struct err *err) {
    CLEANUP(strv_done) struct strv owned = {0}, call = {0};
    CLEANUP(freep) char *path = NULL;
    struct host_facts facts;
    int r = dir && chdir(dir) < 0 ? err_sys(err, -errno, "workspace '%s'", dir) : host_facts(&facts, &owned, err);

    r = r < 0 ? r : check_tool(tool, &facts, err);
    if (r < 0)
        return r;
    path = agent_find_in_path(tool, &facts);
    if (!path) {
        err_set(err, -ENOENT, "%s: not found in PATH (the workspace and relative folders do not count)", tool);
        err->status = EXIT_NOTFOUND;
        return -ENOENT;
    }
    r = strv_add(&call, tool);
    for (size_t i = 0; r == 0 && i < argc; i++)
        r = strv_add(&call, argv[i]);
    r = r < 0 ? err_oom(err) : record_call(tool, path, argv, argc, &facts, err);
    if (r < 0)
        return r;
    execve(path, call.v, environ);
    r = err_sys(err, -errno, "start '%s'", path);
    err->status = EXIT_NOEXEC;
    return r;
}
