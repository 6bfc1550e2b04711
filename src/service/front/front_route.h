/* SPDX-License-Identifier: Apache-2.0 */
/* From the target of a request to its route and fields, by the tables of proto/api/apitable.h. */
#pragma once

#include "proto/api/apifield.h"
#include "service/front/front_fault.h"
#include "service/front/front_uri.h"

struct route_match {
    const struct api_route *route; /* NULL: none with this method */
    unsigned methods;              /* set of 1 << enum api_method that this path has; 0: there is no such path */
};
/* method: enum api_method, or -1. A parameter in the path that does not pass its check makes another path of it. */
struct route_match route_find(const struct uri *u, int method);
struct route_match route_find_in(const struct api_route *v, size_t n, const struct uri *u, int method);
/* "GET, HEAD, POST, OPTIONS" */
void route_allow(unsigned methods, struct buf *b);

/* How a header is looked up; NULL: it is not there. */
typedef const char *route_header_fn(void *arg, const char *name);
/* The parameters of path, query and headers. -EINVAL with *ret, -E2BIG, -ENOMEM */
int route_fields(const struct api_route *r, const struct uri *u, route_header_fn *header, void *arg, struct api_fields *f,
                 struct front_fault *ret);
