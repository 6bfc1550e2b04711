/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the dashboard (web/), which tools/webfiles puts into the program: bawn-front opens none. */
#pragma once

#include "base/macros.h"

struct front_page {
    const char *path; /* "/app.js"; "/" is index.html */
    const char *type;
    const char *etag; /* with its quotes */
    const unsigned char *data;
    size_t len;
};

extern const struct front_page front_pages[];
extern const size_t n_front_pages;
