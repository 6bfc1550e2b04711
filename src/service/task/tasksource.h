/* SPDX-License-Identifier: Apache-2.0 */
/* What a workspace begins with: shape.source of a request (tasksource.c). */
#pragma once

struct buf;
struct err;

/* Fills the current directory, as the tenant. Nothing if the request names neither a repository nor another run. */
int tasksource_fill(const struct buf *request, const char *bawn, struct err *err);
/* The host of a repository's address, with its port, malloc'ed; -EINVAL: it is none that can be cloned. */
int tasksource_host(const char *url, char **ret, struct err *err);
