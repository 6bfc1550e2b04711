/* SPDX-License-Identifier: Apache-2.0 */
/* What the `bawn policy` commands have in common: options in any order, and the policy of a run that would start here. */
#pragma once

#include "cli/verb.h"
#include "config/settings.h"
#include "supervisor/network/policy_files.h"

struct err;

enum { POLICY_OUTPUT_MAX = 64 * 1024 * 1024, POLICY_WORDS_MAX = 8, POLICY_HOSTS_MAX = 32 };

/* Rows for the option tables; policy_view_take() understands them. */
enum { OPT_VIEW_DIR = 100, OPT_VIEW_PROFILE, OPT_VIEW_AGENT, OPT_VIEW_NETWORK, OPT_VIEW_ALLOW, OPT_VIEW_DENY };
#define POLICY_VIEW_DIR \
    { OPT_VIEW_DIR, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir" }
#define POLICY_VIEW_OPTS                                                                                              \
    POLICY_VIEW_DIR, {OPT_VIEW_PROFILE, 'p', "profile", "NAME", "as if this profile had been named", "@profile"},     \
        {OPT_VIEW_AGENT, 'a', "agent", "NAME", "as if this agent were run", "@agent"},                                \
        {OPT_VIEW_NETWORK, 0, "network", "MODE", "as if this had been said to 'bawn run'", "none|list|limited|full"}, \
        {OPT_VIEW_ALLOW, 0, "allow", "HOST[:PORT]", "the same; can be repeated", "@group"}, {                         \
        OPT_VIEW_DENY, 0, "deny", "HOST[:PORT]", "the same; can be repeated", "@group"                                \
    }

struct policy_view_opts {
    const char *dir, *profile, *agent, *network;
    const char *words[2][POLICY_HOSTS_MAX]; /* --deny, --allow */
    size_t n[2];
};

struct policy_view {
    char *home, *workspace;
    int workspace_fd;
    struct settings settings;
    struct policy_files files;
    struct policy policy; /* as if somebody could answer, unless the settings say that nobody is asked */
};
#define POLICY_VIEW_INIT \
    { .workspace_fd = -1 }

/* True if it was one of the options above. */
bool policy_view_take(struct policy_view_opts *o, int id, const char *value);
int policy_view_open(const struct policy_view_opts *o, struct policy_view *ret, struct err *err);
void policy_view_done(struct policy_view *v);

/* Options and operands in any order: `bawn policy allow HOST --first`. */
struct policy_words {
    const char *v[POLICY_WORDS_MAX];
    size_t n;
};
typedef int policy_take_fn(void *arg, int id, const char *value, struct err *err);
int policy_read_words(const struct verb *self, int argc, char **argv, policy_take_fn *take, void *arg, size_t max,
                      struct policy_words *ret, struct err *err);

/* Prints the buffer, or says why not. Returns the exit status. */
int policy_print(const struct verb *self, const struct buf *b, int status);
