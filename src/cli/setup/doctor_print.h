/* SPDX-License-Identifier: Apache-2.0 */
/* The report of `bawn doctor`, for people and for programs. */
#pragma once

#include "ops/doctor/doctor.h"

void doctor_text(const struct doctor_facts *f, bool colour, struct buf *out);
void doctor_fix_text(const struct doctor_facts *f, bool colour, struct buf *out);
void doctor_json(const struct doctor_facts *f, struct buf *out);
/* The part about engines alone, for `bawn engines`. */
void doctor_engines_text(const struct doctor_facts *f, struct buf *out);
void doctor_engines_json(const struct doctor_facts *f, struct buf *out);
