/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be known of the host and its user. host_facts() asks once, and nothing changes it afterwards; tests write it down. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;
struct strv;

struct host_facts {
    uid_t uid;
    gid_t gid;
    bool host_root;          /* uid is 0 and that is the host's root, not the root of a user namespace */
    const char *user;        /* login name; NULL: unknown */
    const char *home;        /* $HOME, or else the one of /etc/passwd; canonical; NULL: unknown */
    const char *passwd_home; /* the one of /etc/passwd; canonical; NULL: unknown */
    const char *workspace;   /* absolute, canonical */
    const char *own_inside;  /* a path of Bawn's own that leads into the workspace (own.h); NULL: none */
    uid_t workspace_uid;
    gid_t workspace_gid;
    mode_t umask_;
    int landlock_abi;
    char *const *environ_;
    char root_link[6][64]; /* where /bin /sbin /lib /lib32 /lib64 /libx32 lead, "" if it is no symlink */
    bool root_there[6];
};
extern const char *const plan_root_names[6];

/* The current directory is the workspace. Strings of *ret live in *owned. */
int host_facts(struct host_facts *ret, struct strv *owned, struct err *err);
bool host_is_root(void); /* the caller is root of the host, not only of a user namespace such as a rootless container's */
