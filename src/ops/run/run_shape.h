/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an option table: what shapes a sandbox, for `bawn run`, `explain`, `batch` and `start`. */
#pragma once

#include "cli/run/run_options.h"

/* clang-format off */
#define RUN_SHAPE_OPTS \
    {RUN_OPT_DIR, 'C', "directory", "DIR", "the workspace (default: the current directory)", "@dir"}, \
    {RUN_OPT_PROFILE, 'p', "profile", "NAME", "limits and policy from this profile (see 'bawn profile ls')", "@profile"}, \
    {RUN_OPT_AGENT, 0, "agent", "NAME", \
     "run this agent (see 'bawn agents'), with the settings of agent.NAME in the configuration", "@agent"}, \
    {RUN_OPT_ENGINE, 'e', "engine", "NAME", "auto, native or none", "@engine"}, \
    {RUN_OPT_IMAGE, 0, "image", "REF", "image for container engines", NULL}, \
    {RUN_OPT_CPUS, 0, "cpus", "N", "CPUs it may use, e.g. 1.5", NULL}, \
    {RUN_OPT_MEMORY, 'm', "memory", "SIZE", "memory it may use, e.g. 512m or 4g", NULL}, \
    {RUN_OPT_SWAP, 0, "swap", "SIZE", "swap on top of the memory (default: none)", NULL}, \
    {RUN_OPT_PIDS, 0, "pids", "N", "processes it may have", NULL}, \
    {RUN_OPT_DISK, 0, "disk", "SIZE", "space it may use: private areas, growth of the workspace, a kept home", NULL}, \
    {RUN_OPT_TIMEOUT, 't', "timeout", "TIME", "end it after this time, e.g. 90s or 5m (exit status 124)", NULL}, \
    {RUN_OPT_NETWORK, 0, "network", "MODE", "none, list (default: what the rules say), limited (HTTP and HTTPS) or full", \
     "none|list|limited|full"}, \
    {RUN_OPT_ALLOW, 0, "allow", "HOST[:PORT]", "let it reach this host, or a @group (see 'bawn policy ls')", "@group"}, \
    {RUN_OPT_DENY, 0, "deny", "HOST[:PORT]", "do not let it reach this host, whatever the rules say", "@group"}, \
    {RUN_OPT_PUBLISH, 0, "publish", "INSIDE[:OUTSIDE]", "its port INSIDE answers on 127.0.0.1:OUTSIDE (default: the same)", NULL}, \
    {RUN_OPT_ASK, 0, "ask", "MODE", "about hosts in no rule: auto (on a terminal), never, or wait (for 'bawn policy approve')", \
     "auto|never|wait"}, \
    {RUN_OPT_ASK_TIMEOUT, 0, "ask-timeout", "TIME", "how long a question waits before it counts as no (default: 60s)", NULL}, \
    {RUN_OPT_SECRET, 0, "secret", "NAME", \
     "only this of your secrets goes with its requests (may be repeated; see 'bawn secret ls')", "@secret"}, \
    {RUN_OPT_NO_SECRETS, 0, "no-secrets", NULL, "none of your secrets does", NULL}, \
    {RUN_OPT_SSH_AGENT, 0, "ssh-agent", "MODE", \
     "let it sign with keys of your ssh-agent, for hosts that you know: auto (default), on or off", "auto|on|off"}, \
    {RUN_OPT_SSH_KEY, 0, "ssh-key", "KEY", "only with this key: its SHA256 fingerprint or comment (may be repeated)", NULL}, \
    {RUN_OPT_ENV, 0, "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on", NULL}, \
    {RUN_OPT_MOUNT, 0, "mount", "FROM[:TO][:ro|rw]", "show another file or folder inside, read-only unless rw", "@dir"}, \
    {RUN_OPT_WORKSPACE, 'w', "workspace", "MODE", "direct (default), overlay, sync, worktree or ro", \
     "direct|overlay|sync|worktree|ro"}, \
    {RUN_OPT_SANDBOX, 0, "sandbox", "[=MODE]", "auto (default), or require: refuse anything less than the full sandbox", \
     "auto|require"}
/* clang-format on */
