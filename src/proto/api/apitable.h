/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API is, as tables that tools/openapi makes from spec/openapi.yaml: routes, and for each the fields that a request may have with
 * the check of each. bawn-front builds requests by them, and bawnd checks every request by the same rows again (apifield.h).
 *
 * A field is a parameter or a member of the body. Its name is its path in the body ("shape.limits.cpus"), or the parameter's in small
 * letters with underscores ("last_event_id"). The same name has the same number in all operations; its check may differ.
 */
#pragma once

#include "base/macros.h"
#include "proto/api/api_tables.h"

struct buf;

enum api_method { API_METHOD_GET, API_METHOD_PUT, API_METHOD_POST, API_METHOD_PATCH, API_METHOD_DELETE, API_METHODS };
enum api_scope { API_SCOPE_ANY, API_SCOPE_TENANT, API_SCOPE_ADMIN };
enum api_body { API_BODY_NONE, API_BODY_JSON, API_BODY_BYTES };
enum api_answer { API_ANSWER_JSON, API_ANSWER_BYTES, API_ANSWER_STREAM, API_ANSWER_EITHER, API_ANSWER_WEBSOCKET };
enum api_in { API_IN_PATH, API_IN_QUERY, API_IN_HEADER, API_IN_BODY };
enum api_shape { API_SHAPE_ONE, API_SHAPE_ARRAY, API_SHAPE_MAP };
enum api_type { API_TYPE_STRING, API_TYPE_INTEGER, API_TYPE_BOOLEAN, API_TYPE_OBJECT };
enum api_check_kind {
    API_CHECK_NONE,
    API_CHECK_ABSOLUTE,
    API_CHECK_DECIMAL,
    API_CHECK_DURATION,
    API_CHECK_HOST,
    API_CHECK_ID,
    API_CHECK_NAME,
    API_CHECK_NUMBER,
    API_CHECK_PATH,
    API_CHECK_PRINTABLE,
    API_CHECK_SIZE,
    API_CHECK_TIME,
    API_CHECK_VARIABLE,
    API_CHECKS
};

struct api_schema;

struct api_check {
    uint16_t field;   /* enum api_field; 0: a member of an object in a map, which has no number */
    const char *name; /* as in messages */
    const char *wire; /* as the client writes it */
    enum api_in in;
    enum api_shape shape;
    enum api_type type; /* of each item */
    enum api_check_kind check, key_check;
    bool required;
    uint32_t min, max; /* bytes of a text */
    uint32_t min_items, max_items, key_max;
    uint64_t minimum, maximum;
    const char *const *values;    /* NULL-terminated; NULL: any */
    const struct api_schema *sub; /* of API_TYPE_OBJECT */
};

struct api_schema {
    const struct api_check *v;
    size_t n;
};

struct api_route {
    enum api_op op;
    enum api_method method;
    const char *path; /* "/v1/runs/{id}" */
    const char *id;   /* operationId */
    enum api_scope scope;
    enum api_body body;
    enum api_answer answer;
    unsigned status;     /* when all is well */
    const char *content; /* type of the answer; NULL: it has no body */
    uint64_t body_max;   /* of API_BODY_BYTES; 0: what the configuration has */
    const struct api_schema *schema;
};

extern const struct api_route api_routes[]; /* by operation: api_routes[op - 1] */
extern const size_t n_api_routes;
extern const char *const api_op_names[API_OPS];           /* by enum; [0] is NULL */
extern const char *const api_field_names[API_FIELDS];     /* the same */
extern const char *const api_problem_names[API_PROBLEMS]; /* codes of problems, by enum */
extern const char *const api_method_names[API_METHODS];

const struct api_route *api_route_of(unsigned op); /* NULL: there is none */
/* The row of a field in an operation; NULL: it has no such field. */
const struct api_check *api_route_check(const struct api_route *r, unsigned field);

/* Whether one text passes, as its row says: of an item of an array, or of a value of a map, too. Numbers are decimal, booleans 1 or 0. */
bool api_check_text(const struct api_check *c, const char *text, size_t len);
bool api_check_key(const struct api_check *c, const char *text, size_t len);
bool api_check_is(enum api_check_kind kind, const char *text, size_t len);
/* What the row demands, for people: "must be an integer from 1 to 10000". */
void api_check_demand(const struct api_check *c, struct buf *b);
