/* SPDX-License-Identifier: Apache-2.0 */
/* Among the files of credential.h: which strings a credential has. One list, so that none is forgotten by a copy or a free. */
#pragma once

#include "policy/credential/credential.h"

/* Of what a grant has too. */
#define CREDENTIAL_GRANTED_TEXTS(X) \
    X(name)                         \
    X(header)                       \
    X(format)                       \
    X(user)                         \
    X(query)                        \
    X(region)                       \
    X(service)                      \
    X(shape)                        \
    X(token_url)                    \
    X(device_url)                   \
    X(authorize_url)                \
    X(client_id)                    \
    X(scope)

enum { CREDENTIAL_N_GRANTED = 13, CREDENTIAL_N_TEXTS = 15 };
extern const size_t credential_texts[CREDENTIAL_N_TEXTS]; /* offsets; those that a grant has come first */

static inline char **credential_text(const struct credential *c, size_t which) {
    return (char **)((char *)(uintptr_t)c + credential_texts[which]);
}

/* A credential for S3 and a name of the form BUCKET.ENDPOINT: the endpoint in it. NULL: it is none of AWS's in this region. */
const char *credential_s3_endpoint(const struct credential *c, const char *host);
/* Is exactly this host and port among its hosts? */
bool credential_names(const struct credential *c, const char *host, uint16_t port);
/* Frees what was there. */
int credential_set_text(char **at, const char *value, size_t len);
