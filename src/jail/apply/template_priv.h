/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "jail/apply/template.h"

/* A plan with the template's steps and size only. */
int template_read(const char *bytes, size_t len, struct plan *ret, struct err *err);
