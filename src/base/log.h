/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the person at the terminal: always stderr, always "bawn: ", one line each. */
#pragma once

#include "base/macros.h"

struct err;

void log_line(const char *fmt, ...) PRINTF_LIKE(1, 2); /* "bawn: <text>" */
void log_err(const struct err *err);                   /* "bawn: <message>" */
/* Redirects the lines (tests, and terminals that are in raw mode); NULL restores stderr. */
void log_set_sink(void (*sink)(const char *line, size_t len));
