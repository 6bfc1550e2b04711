/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo */
#pragma once

#include <stdint.h>

/* In place: mountinfo writes blanks, tabs, line ends and backslashes as \ooo. */
void mountinfo_unescape(char *s);

/* The rest of a path below a mount point, with its '/': "" for the point itself; NULL: not below. */
const char *mountinfo_tail(const char *path, const char *point);

/* Which mount a name, or ("") the folder itself, is in: a number that only this one has; before Linux 5.8 that of its file system. No link is
 * followed. 0 or -errno. */
int mountinfo_of(int dir, const char *name, uint64_t *ret);
