/* SPDX-License-Identifier: Apache-2.0 */
/* The network policy of a run that would start here. */
#pragma once

#include "config/settings.h"
#include "supervisor/network/policy_files.h"

struct err;

enum { POLICY_HOSTS_MAX = 32 };

struct policy_here_opts {
    const char *dir, *profile, *agent, *network; /* NULL: as without the option of `bawn run` */
    struct strv allow, deny;                     /* HOST[:PORT], at most POLICY_HOSTS_MAX of each */
};
void policy_here_opts_done(struct policy_here_opts *o);

struct policy_here {
    char *home, *workspace;
    int workspace_fd;
    struct settings settings;
    struct policy_files files;
    struct policy policy; /* as if a user could answer, unless the settings switch questions off */
};
#define POLICY_HERE_INIT \
    { .workspace_fd = -1 }

int policy_here_open(const struct policy_here_opts *o, struct policy_here *ret, struct err *err);
void policy_here_done(struct policy_here *v);
