/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4, from the canonical request that the gate made of the request it is about to send:
 *
 *     METHOD \n PATH \n QUERY \n name:value \n ... \n \n NAMES \n HASH-OF-BODY
 *
 * A signature is worth the request it is for; so the text is taken apart, and has to be about the host and the method that were
 * judged, now, and not for a URL that others could use later (presigned).
 */
#pragma once

#include "broker/broker.h"

enum { AWSSIGN_HEADERS_MAX = 64, AWSSIGN_SKEW_S = 15 * 60, AWSSIGN_PARTS = 4, AWSSIGN_DATE = 16 /* 20150830T123600Z */ };

struct aws_request {
    struct broker_part method, path, query, hash;
    struct {
        struct broker_part name, value;
    } headers[AWSSIGN_HEADERS_MAX]; /* sorted; without x-amz-security-token, which is ours */
    size_t n_headers;
    struct broker_part host, date;
};

/* The form alone. -EBADMSG: a line that is too much or too little, names that are not sorted or not those of NAMES, a byte that is no text. */
int awssign_parse(const char *text, size_t len, struct aws_request *ret);
/* The path to judge, after everything else was compared with req: -EACCES if it is about something else. */
int awssign_path(const struct credential *c, const struct broker_request *req, const char *text, char out[static BROKER_DATA_MAX],
                 size_t *ret_len);
/* Secret key, session token ("": none), key id. */
int awssign_secrets(const struct secret *value, struct broker_part parts[static 3]);
/* Authorization, session token ("": none), key id, secret key. value: as policy/credential/credential.h has it. */
int awssign_make(const struct credential *c, const struct aws_request *q, const struct secret *value, struct secret *work,
                 struct broker_part parts[static AWSSIGN_PARTS]);
