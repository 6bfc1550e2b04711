/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a CA, as supervisor/credential/castock.h describes it: key, certificate, and trust stores for the sandbox, which are the host's
 * with one certificate more. Made under another name beside it and renamed, so that it exists whole or not at all.
 */
#pragma once

#include "base/macros.h"
#include "broker/ca/trust_source.h"

struct err;

enum { TRUST_BUNDLE_MAX = 16 * 1024 * 1024, TRUST_FILES_MAX = 8192, TRUST_FILE_MAX = 1024 * 1024 };

int folder_make(const char *path, const struct trust_source *from, struct err *err);

/*
 * For folder.c. Copies the host's folder of certificates: links that lead somewhere inside the sandbox too (the same folder, /usr) stay
 * links, the rest becomes files, which must be readable for everyone. Left out: `skip` (NULL-terminated), and what leads nowhere.
 */
int folder_copy_certs(const char *from, int to, const char *const *skip, struct err *err);
