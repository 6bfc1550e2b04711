/* SPDX-License-Identifier: Apache-2.0 */
/* --since and --until of the logs. */
#pragma once

#include "base/opt.h"

enum { LOG_TIME_SIZE = 32 };

/* For OPT_TO_CALL() with a char[LOG_TIME_SIZE]: how long ago ("10m"), or a time of the log or the beginning of one, in UTC. */
int log_time_take(const struct opt *o, const char *value, void *to, struct err *err);
