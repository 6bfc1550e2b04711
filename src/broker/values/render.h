/* SPDX-License-Identifier: Apache-2.0 */
/* How a value goes into one request. Everything is written into `work`, which the caller zeroes. */
#pragma once

#include "broker/broker.h"

enum { RENDER_WORK_MAX = 3 * CREDENTIAL_VALUE_MAX + 64 * 1024, RENDER_PARTS_MAX = 4, RENDER_COVER_PARTS = 3 };

/* The path that a request of BROKER_VALUE or BROKER_SIGV4 is for, written to out. -EBADMSG: its data is not what it has to be. */
int render_path(const struct credential *c, const struct broker_request *req, const uint8_t *data,
                char out[static BROKER_DATA_MAX], size_t *ret_len);
/* The parts of the answer: how many, or -errno. They point into work and value. */
int render_answer(const struct credential *c, const struct broker_request *req, const uint8_t *data, const struct secret *value,
                  struct secret *work, struct broker_part parts[static RENDER_PARTS_MAX]);

/* Appends; false: no room. */
bool render_put(struct secret *work, const void *p, size_t len);
