/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo */
#pragma once

/* In place: mountinfo writes blanks, tabs, line ends and backslashes as \ooo. */
void mountinfo_unescape(char *s);

/* The rest of a path below a mount point, with its '/': "" for the point itself; NULL: not below. */
const char *mountinfo_tail(const char *path, const char *point);
