/* SPDX-License-Identifier: Apache-2.0 */
/* Values and passphrases on their way in: a pipe, a file, or a terminal that does not show them. */
#pragma once

#include "base/secret.h"

struct err;

/* What one terminal line can hold: N_TTY drops the rest without a word. */
enum { INPUT_LINE_MAX = 4095 };

/* Everything up to the end, at most max bytes, without one trailing newline. ret was empty. -E2BIG with exit status 64. */
int input_read(int fd, size_t max, struct secret *ret, struct err *err);

/* Asks on /dev/tty without echo. -ENXIO with no message if this process has no terminal. A signal that ends or stops us
 * finds the terminal as it was; after a stop the question is asked again. */
int input_ask(const char *question, size_t max, struct secret *ret, struct err *err);
