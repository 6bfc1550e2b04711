/* SPDX-License-Identifier: Apache-2.0 */
/* A NULL-terminated, growing vector of strings that it owns. Adding fails only when memory runs out. */
#pragma once

#include "base/macros.h"

struct strv {
    char **v; /* NULL-terminated once something was added */
    size_t len, cap;
};

void strv_done(struct strv *s);
int strv_add(struct strv *s, const char *item); /* copies */
int strv_add_take(struct strv *s, char *item);  /* owns item from now on, also on failure */
int strv_addf(struct strv *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
int strv_add_all(struct strv *s, const struct strv *from); /* copies */
bool strv_has(const struct strv *s, const char *item);
