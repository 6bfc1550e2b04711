/* SPDX-License-Identifier: Apache-2.0 */
/* The moving parts of stdio.h: flows between the user's descriptors and the sandbox's, and the terminal's mode. */
#pragma once

struct stdio;

int stdio_open_relays(struct stdio *s);    /* for the pipes; -ENOMEM */
int stdio_open_pty_flows(struct stdio *s); /* once the master is there */
void stdio_close_relays(struct stdio *s);
