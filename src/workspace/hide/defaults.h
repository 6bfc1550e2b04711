/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts as a secret by default: the rules that hold in a workspace without `.sandboxignore`, the text
 * that `bawn init` writes, and what `bawn init --check` asks for. One table makes all three.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct ignore;

enum { DEFAULTS_TEXT_MAX = 16 * 1024, DEFAULTS_SAMPLES = 3 };

#define DEFAULTS_ORIGIN "(built-in)"

struct ignore_default {
    const char *line;                      /* a pattern, a comment or an empty line */
    const char *samples[DEFAULTS_SAMPLES]; /* a pattern that hides: files that must be hidden by it; else all NULL */
};

extern const struct ignore_default ignore_defaults[];
extern const size_t n_ignore_defaults;

void defaults_text(struct buf *b);
int defaults_add(struct ignore *ig, struct err *err);
