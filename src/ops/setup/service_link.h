/* SPDX-License-Identifier: Apache-2.0 */
/* Asks bawnd for a one-time link to its dashboard, over its unix socket; and starts one where none runs. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;

enum { SERVICE_URL_MAX = 512, SERVICE_TIME_MAX = 40 };

struct service_link {
    char url[SERVICE_URL_MAX], expires[SERVICE_TIME_MAX];
};

/* socket: NULL: the user's own service, then the machine's. -ECONNREFUSED: none answers there (no message). */
int service_link_get(const char *socket, struct service_link *ret, struct err *err);

/* Starts the bawnd beside our program, and asks it. It ends with us; the caller waits for *ret_pid. */
int service_start(struct service_link *ret, pid_t *ret_pid, struct err *err);
