/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which certificates this host trusts, and a line that changes when they do. libc only: the supervisor compares the line of a CA's
 * folder (supervisor/credential/castock.h) with that of now before every run, without opening a certificate.
 */
#pragma once

#include <limits.h>

#include "base/macros.h"

enum { TRUST_STAMP_SIZE = PATH_MAX + 256 };

struct trust_source {
    char bundle[PATH_MAX]; /* all certificates in one file, PEM; "" if there is none */
    const char *folder;    /* one file or link for each; may not exist */
};

/* ssl_cert_file: the variable SSL_CERT_FILE, which counts if it names a file; may be NULL. */
void trust_find(const char *ssl_cert_file, struct trust_source *ret);
void trust_stamp(const struct trust_source *s, char out[static TRUST_STAMP_SIZE]);
