/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files with network rules (policy/rules/rule.h), and what counts in them:
 *
 *     /etc/bawn/network.json                     organisation: only narrows; must belong to root
 *     $XDG_CONFIG_HOME/bawn/network.json         user
 *     WORKSPACE/.bawn/network.json               project: only narrows until the user trusts that exact content (`bawn trust`)
 *     networkAllow (also of profiles and agents) settings: does not overrule a deny
 *     --allow, --deny, networkDeny               sandbox
 *
 * They are read and checked when a run starts, so that a mistake is reported before anything runs; and again when they change while a
 * gate is running: then a mistake is reported, and the old rules stay.
 */
#pragma once

#include "base/strv.h"
#include "policy/gateconf.h"

struct err;
struct settings;

enum { POLICY_FILES_MAX = 5 };

struct policy_files {
    struct gate_layer v[POLICY_FILES_MAX]; /* name and text are owned */
    size_t n;
    bool look;         /* some rule needs a look inside TLS, which takes a certificate authority */
    struct strv watch; /* folders that may get or lose one of the files: for inotify. Absolute; each exists */
    struct strv notes; /* lines the user must see: a project that would need trust, a mode above the organisation's floor */
};

struct policy_where {
    const struct settings *settings;
    const char *workspace; /* absolute */
    int workspace_fd;      /* its files are opened below this, without following symlinks */
    const char *home;      /* NULL: unknown */
    char *const *environ_;
    const char *organisation; /* NULL: /etc/bawn/network.json */
};

int policy_files_load(const struct policy_where *where, struct policy_files *ret, struct err *err);
void policy_files_done(struct policy_files *f);
/* A policy as the gate will have it, for explain and for checks before the start. */
int policy_files_compile(const struct policy_files *f, enum net_mode mode, bool can_ask, struct policy *ret, struct err *err);
/* What the settings' network word means to policy_init(). */
enum net_mode policy_files_mode(const struct settings *s);
/* Can questions be answered? has_human: there is a terminal, or a hook. */
bool policy_files_can_ask(const struct settings *s, bool has_human);
/* Which of the files a layer's rules came from (policy_layer_names), for messages; "built-in" if from none. */
const char *policy_files_source(const struct policy_files *f, const char *layer);
