/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo */
#pragma once

/* In place: mountinfo writes blanks, tabs, line ends and backslashes as \ooo. */
void mountinfo_unescape(char *s);
