/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an option table that fill a struct run_request: what shapes a sandbox, for `bawn run`, `explain`, `batch` and `start`. */
#pragma once

#include "ops/run/run_request.h"

#define RUN_TEXT(member) OPT_TO_TEXT(struct run_request, member)
#define RUN_LIST(member) OPT_TO_LIST(struct run_request, member)
#define RUN_FLAG(member) OPT_TO_FLAG(struct run_request, member)

/* clang-format off */
#define RUN_SHAPE_OPTS \
    {0, 'C', "directory", "DIR", "the workspace (default: the current directory)", "@dir", RUN_TEXT(dir)}, \
    {0, 'p', "profile", "NAME", "limits and policy from this profile (see 'bawn profile ls')", "@profile", RUN_TEXT(flags.profile)}, \
    {0, 0, "agent", "NAME", "run this agent (see 'bawn agents'), with the settings of agent.NAME in the configuration", "@agent", \
     RUN_TEXT(agent)}, \
    {0, 0, "agent-config", "[=MODE]", "bring in your own settings of the agent, without credentials: ask (default) about what they run, or yes", \
     "ask|yes", OPT_TO_CALL(struct run_request, agent_config, run_request_agent_config)}, \
    {0, 'e', "engine", "NAME", "auto, native, docker, podman, gvisor, lima, sbx or none (see 'bawn engines')", "@engine", RUN_TEXT(flags.engine)}, \
    {0, 0, "image", "REF", "an image in place of this machine's programs (see 'bawn image pull')", NULL, RUN_TEXT(flags.image)}, \
    {0, 0, "system", "MODE", "programs inside: read-only (default), or writable, as root of the sandbox: apt-get install works, on a copy", \
     "read-only|writable", RUN_TEXT(flags.system_view)}, \
    {0, 0, "system-ids", "WORD", "ids of a writable system: one, many by /etc/subuid (useradd, su and chown work), or auto", \
     "auto|one|many", RUN_TEXT(flags.system_ids)}, \
    {0, 0, "nested", NULL, "a container engine inside: podman, also as docker; programs may mount then, and changes wait for 'bawn apply'", NULL, RUN_FLAG(flags.nested)}, \
    {0, 0, "cpus", "N", "CPUs it may use, e.g. 1.5", NULL, RUN_TEXT(flags.cpus)}, \
    {0, 'm', "memory", "SIZE", "memory it may use, e.g. 512m or 4g", NULL, RUN_TEXT(flags.memory)}, \
    {0, 0, "swap", "SIZE", "swap on top of the memory (default: none)", NULL, RUN_TEXT(flags.swap)}, \
    {0, 0, "pids", "N", "processes it may have", NULL, RUN_TEXT(flags.pids)}, \
    {0, 0, "disk", "SIZE", "space it may use: private areas, growth of the workspace, a persistent home", NULL, RUN_TEXT(flags.disk)}, \
    {0, 0, "tmp-size", "SIZE", "size of home and /tmp; on disk if it is more than half of the memory (default: half, in memory)", NULL, \
     RUN_TEXT(flags.tmp)}, \
    {0, 't', "timeout", "TIME", "end it after this time, e.g. 90s or 5m (exit status 124)", NULL, RUN_TEXT(flags.timeout)}, \
    {0, 0, "network", "MODE", "none, list (default: what the rules say), limited (HTTP and HTTPS) or full", "none|list|limited|full", \
     RUN_TEXT(flags.network)}, \
    {0, 0, "allow", "HOST[:PORT]", "let it reach this host, or a @group (see 'bawn policy ls')", "@group", RUN_LIST(flags.allow)}, \
    {0, 0, "deny", "HOST[:PORT]", "do not let it reach this host, whatever the rules say", "@group", RUN_LIST(flags.deny)}, \
    {0, 0, "publish", "INSIDE[:OUTSIDE]", "its port INSIDE answers on 127.0.0.1:OUTSIDE (default: the same)", NULL, \
     RUN_LIST(flags.publish)}, \
    {0, 0, "ask", "MODE", "about hosts in no rule: auto (on a terminal), never, or wait (for 'bawn policy approve')", "auto|never|wait", \
     RUN_TEXT(flags.ask)}, \
    {0, 0, "ask-timeout", "TIME", "how long a question waits before it counts as no (default: 60s)", NULL, \
     RUN_TEXT(flags.ask_timeout)}, \
    {0, 0, "secret", "NAME", "only this of your secrets goes with its requests (may be repeated; see 'bawn secret ls')", "@secret", \
     RUN_LIST(flags.secrets)}, \
    {0, 0, "no-secrets", NULL, "none of your secrets does", NULL, RUN_FLAG(flags.no_secrets)}, \
    {0, 0, "ssh-agent", "MODE", "let it sign with keys of your ssh-agent, for hosts that you know: auto (default), on or off", "auto|on|off", \
     RUN_TEXT(flags.ssh_agent)}, \
    {0, 0, "ssh-key", "KEY", "only with this key: its SHA256 fingerprint or comment (may be repeated)", NULL, \
     RUN_LIST(flags.ssh_keys)}, \
    {0, 0, "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on", NULL, RUN_LIST(flags.env)}, \
    {0, 0, "mount", "FROM[:TO][:ro|rw]", "show another file or folder inside, read-only unless rw", "@dir", RUN_LIST(flags.mounts)}, \
    {0, 'w', "workspace", "MODE", "direct (default), overlay, sync, worktree or ro", "direct|overlay|sync|worktree|ro", \
     RUN_TEXT(flags.workspace_mode)}, \
    {0, 0, "sandbox", "[=MODE]", "auto (default), or require: refuse anything less than the full sandbox", "auto|require", \
     OPT_TO_CALL(struct run_request, flags.mode, run_request_sandbox)}

/* Of `bawn start` alone. */
#define RUN_IDLE_OPT \
    {0, 0, "idle", "TIME", "stop it when nothing was executed for this time, e.g. 30m (default: never)", NULL, \
     RUN_TEXT(flags.idle_timeout)}
/* clang-format on */
