/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two requests of OAuth: a form goes out, JSON comes back. https only, but for this machine itself (tests). Certificates
 * are checked against the host's, or SSL_CERT_FILE; proxies are those of the environment. Redirects are not followed: the form
 * has a token.
 */
#pragma once

#include "base/secret.h"

struct err;
struct vault;

enum { HTTP_BODY_MAX = 256 * 1024, HTTP_FORM_MAX = 128 * 1024 };

struct http_reply {
    long status;
    struct secret body;
};

struct http_login { /* HTTP Basic (RFC 6749, 2.3.1) */
    const char *user;
    const struct secret *password;
};

void http_reply_done(struct http_reply *r);

struct http_field {
    const char *key, *value; /* value NULL: it is left out */
    size_t len;              /* of the value; 0: up to its NUL */
};

/* "key=value&..." URL-encoded. form was empty. */
int http_form_make(const struct http_field *fields, size_t n, struct secret *form, struct err *err);
/* Appends to a form of HTTP_FORM_MAX bytes. -E2BIG. */
int http_form_add(struct secret *form, const char *key, const char *value, size_t len);
/* login may be NULL. 0 for any answer, whatever its status; -ETIMEDOUT, or -ENOKEY and why no answer came. */
int http_post(const struct vault *v, const char *url, const struct secret *form, const struct http_login *login,
              struct http_reply *ret, struct err *err);
