/* SPDX-License-Identifier: Apache-2.0 */
/* Included before everything else by the build (-include): functions that must not be called. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Macros of fortified headers; a poisoned name may not be one. */
#undef sprintf
#undef vsprintf
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef system

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf gets atoi atol atof system popen tmpnam mktemp strtok
