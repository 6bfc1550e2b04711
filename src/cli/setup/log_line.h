/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the audit log for people. What it tells of is the agent's bytes: escaped, always. */
#pragma once

#include "base/buf.h"

enum { LOG_LINE_MAX = 1024 * 1024 };

/* "2026-11-15T19:54:02.123456Z bawn-dev-... exec job=1 $ make test". False: it is none. */
bool log_line_text(const char *line, size_t len, struct buf *out);
/* The same bytes as in the log; for a terminal in ASCII, so that nothing speaks to it. */
bool log_line_json(const char *line, size_t len, bool terminal, struct buf *out);
