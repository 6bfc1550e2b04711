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

/* like: another such folder, or NULL. Links of its certs/ that are the same get one name more, which costs no inode: on ext4 hundreds of new ones,
 * where as many were just removed, take a tenth of a second. A link cannot be changed, so that nothing is shared by it. */
int folder_make(const char *path, const char *like, const struct trust_source *from, struct err *err);

/* Copies the host's folder of certificates. Links that also work inside the sandbox (the same folder, /usr) stay links. The rest
 * becomes files, if everyone may read them. Left out: `skip` (NULL-terminated), and what leads nowhere. like: a copy that was
 * made before, -1: none. */
int folder_copy_certs(const char *from, int to, int like, const char *const *skip, struct err *err);
