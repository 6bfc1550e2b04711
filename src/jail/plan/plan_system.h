/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writable system (setting `system`): as root of the sandbox, packages are installed on a copy-on-write view of the host's programs, or of an
 * image. The root is an overlay as with an image (plan_image.h), with an upper layer in the system's folder. Without an image the folders of
 * the host that make up its programs and its package database are overlays of their own, and what packages need of /etc is copied: nothing of the
 * host is seen that a read-only system does not show, but for apt's sources and the database of packages.
 *
 *   SYSTEM/             0700, in the sandbox's folder or, of a run, in a private one: removed with it
 *       root/upper/ root/work/
 *       usr/upper/ ...  of each STEP_COW, by its path with '-' for '/'
 *
 * There is one id, or there are several (below). One: root inside, without any capability; outside it is the user, or the sandbox's own id if root started it. Calls that would give
 * a file to another id, or take another id, are answered without being made (jail/fence/one_id.h), so that package managers go on.
 *
 * Several: 0 is the same one, and from 1 on come ids of a range that the administrator gave to the user (os/user/subid.h). Root has the capabilities for that and no
 * others (jail/fence/caps.h). No writable folder of the user's own is in such a sandbox. SYSTEM/ids says which ids the files there have.
 */
#pragma once

#include "base/macros.h"

struct plan;
struct plan_input;
struct strv;

#define PLAN_SYSTEM "system"  /* the folder's name, in the sandbox's or a private one */
#define PLAN_SYSTEM_IDS "ids" /* in there: several ids, and which */
#define PLAN_SYSTEM_CERTS "/etc/ssl/certs"
#define PLAN_SYSTEM_DPKG "/var/lib/dpkg"

enum { PLAN_SYSTEM_NAME = 64 };

/* Folders of the host that are copy-on-write. */
extern const char *const plan_system_folders[];
extern const size_t n_plan_system_folders;

/* The name of a folder's layer in the system's folder. */
void plan_system_name(const char *to, char ret[static PLAN_SYSTEM_NAME]);
/* One of those folders, or one that is made otherwise. */
bool plan_system_has(const char *path);
void plan_make_system(const struct plan_input *in, struct plan *p);

/* What of /etc is copied, names below it. -ENOMEM */
int plan_system_etc(struct strv *ret);
int plan_etc_paths(struct strv *ret); /* plan_root.c: those that a read-only system shows */
