/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the person at the terminal: always stderr, always "bawn: ", one line each. */
#pragma once

#include "base/macros.h"

struct err;

void log_line(const char *fmt, ...) PRINTF_LIKE(1, 2); /* "bawn: <text>" */
void log_err(const struct err *err);                   /* "bawn: <message>" */
/* The same for what is no error and no danger: a notice, or a line of the summary. Nothing if the user wants quiet. */
void log_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_set_quiet(bool quiet); /* --quiet */
bool log_is_quiet(void);
/* Redirects the lines (tests, and terminals that are in raw mode); NULL restores stderr. */
void log_set_sink(void (*sink)(const char *line, size_t len));
