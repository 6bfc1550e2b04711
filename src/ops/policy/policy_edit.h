/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of network rules, by `bawn policy allow`, `deny` and `rm`: in a file, or in one running sandbox. Everything else in a
 * file stays as it is, comments and order included; only its line breaks become ours. The file is replaced as a whole, under a
 * lock. Each change is in the audit log before it is made.
 */
#pragma once

#include "policy/rules/rule.h"

enum policy_target { POLICY_TARGET_USER, POLICY_TARGET_PROJECT, POLICY_TARGET_SANDBOX };

struct policy_edit {
    enum policy_target target;
    const char *sandbox; /* POLICY_TARGET_SANDBOX: its name, or the pid of its supervisor. The rule ends with it */
    const char *dir;     /* the workspace, for the project's file; NULL: the current folder */
};

enum policy_edit_what { EDIT_NOTHING, EDIT_ADDED, EDIT_MOVED, EDIT_REMOVED };

struct policy_edit_result {
    enum policy_edit_what what;
    char *path; /* of the file; NULL: a sandbox */
    char *id;
    bool untrusted; /* a project's file that can only deny, because the user does not trust what it had before */
    char *denied;   /* the host that was allowed is still denied, for this reason; else NULL */
};

/* At the end or, with first, in front. A rule that says the same is not added again: EDIT_NOTHING, or EDIT_MOVED to the front. */
int policy_edit_add(const struct policy_edit *e, const struct rule *rule, bool first, struct policy_edit_result *ret,
                    struct err *err);
/* From a file. -ENOENT if there is no such rule. */
int policy_edit_remove(const struct policy_edit *e, const char *id, struct policy_edit_result *ret, struct err *err);
void policy_edit_result_done(struct policy_edit_result *d);
