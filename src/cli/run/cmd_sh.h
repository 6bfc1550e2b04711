/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn-sh`. */
#pragma once

/* argv as for /bin/sh. Returns the exit status. */
int sh_main(int argc, char **argv);
