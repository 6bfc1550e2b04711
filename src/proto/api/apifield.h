/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a request (spec/api-protocol.md): a sorted list of numbers with texts.
 *
 *     CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
 *     r = api_fields_read(&f, msg.body, msg.len);                   what the other side sent
 *     r = r < 0 ? r : api_fields_check(&f, route, &fault);          every row of the table; nothing else is in it
 *     id = api_field_get(&f, API_FIELD_ID, 0);                      NULL: it is not there
 *
 * Every text has a NUL behind it that is not counted. A field of a map is two texts: api_field_key() and api_field_get().
 */
#pragma once

#include "base/buf.h"
#include "proto/api/apitable.h"

enum {
    API_FIELDS_MAX = 8192,           /* values in a request */
    API_FIELDS_BYTES_MAX = 32 << 20, /* of an encoded request */
    API_BEARER_MAX = 256,            /* what no client can send has checks of its own */
    API_REQUEST_ID_MAX = 64
};

struct api_value {
    uint16_t field;
    uint32_t len, key_len; /* of a map: len bytes behind the key's NUL; else key_len is 0 */
    bool is_pair;
    size_t at; /* in text */
};

struct api_fields {
    struct buf text;
    struct api_value *v; /* sorted by field after api_fields_read() and api_fields_write() */
    size_t n;
};
#define API_FIELDS_INIT \
    { .text = BUF_INIT(API_FIELDS_BYTES_MAX + 2 * API_FIELDS_MAX) }

void api_fields_done(struct api_fields *f);

/* -- building ------------------------------------------------------------------------------------------------------------- */

/* 0, -E2BIG: more than a request may have, -ENOMEM */
int api_fields_add(struct api_fields *f, unsigned field, const char *text, size_t len);
int api_fields_adds(struct api_fields *f, unsigned field, const char *text);
int api_fields_add_number(struct api_fields *f, unsigned field, uint64_t n);
int api_fields_add_pair(struct api_fields *f, unsigned field, const char *key, const char *text, size_t len);
/* Sorts them (values of one field stay in their order) and appends the bytes of all. 0, -E2BIG, -ENOMEM */
int api_fields_write(struct api_fields *f, struct buf *b);

/* -- reading -------------------------------------------------------------------------------------------------------------- */

/* f is new. -EBADMSG: cut, not sorted, too many. Which of them are pairs says the table: api_fields_check(). */
int api_fields_read(struct api_fields *f, const void *data, size_t len);

struct api_fault {
    unsigned field;      /* 0: none in particular */
    const char *problem; /* "is not a field of this operation" */
};
/* -EINVAL: *ret says which field is wrong. Finds the keys of maps. */
int api_fields_check(struct api_fields *f, const struct api_route *r, struct api_fault *ret);

/* The i-th value of a field; NULL: there is none. ret_len may be NULL. */
const char *api_field_get(const struct api_fields *f, unsigned field, size_t i);
const char *api_field_bytes(const struct api_fields *f, unsigned field, size_t i, size_t *ret_len);
const char *api_field_key(const struct api_fields *f, unsigned field, size_t i);
size_t api_field_count(const struct api_fields *f, unsigned field);
/* Of a checked request. */
bool api_field_bool(const struct api_fields *f, unsigned field, bool otherwise);
uint64_t api_field_number(const struct api_fields *f, unsigned field, uint64_t otherwise);
