/* SPDX-License-Identifier: Apache-2.0 */
/* Finds routes and takes their parameters. */
#include "service/front/front_route.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static const struct api_check *next_in_path(const struct api_route *r, size_t *i) {
    while (*i < r->schema->n && r->schema->v[*i].in != API_IN_PATH)
        (*i)++;
    return *i < r->schema->n ? &r->schema->v[(*i)++] : NULL;
}

/* Calls for each parameter of the path; false: it is another path. f may be NULL. */
static bool match_path(const struct api_route *r, const struct uri *u, struct api_fields *f, int *error) {
    const char *at = r->path;
    size_t n = 0, row = 0;

    for (; *at == '/'; n++) {
        size_t len = strcspn(at + 1, "/");
        const struct uri_text *have = &u->segment[n];

        if (n >= u->n_segments)
            return false;
        if (at[1] == '{') {
            const struct api_check *c = next_in_path(r, &row);

            if (!c || !api_check_text(c, have->text, have->len))
                return false;
            if (f && *error == 0)
                *error = api_fields_add(f, c->field, have->text, have->len);
        } else if (have->len != len || memcmp(have->text, at + 1, len) != 0) {
            return false;
        }
        at += 1 + len;
    }
    return n == u->n_segments;
}

struct route_match route_find_in(const struct api_route *v, size_t n, const struct uri *u, int method) {
    struct route_match m = {0};

    for (size_t i = 0; i < n; i++) {
        if (!match_path(&v[i], u, NULL, NULL))
            continue;
        m.methods |= 1u << v[i].method;
        if ((int)v[i].method == method)
            m.route = &v[i];
    }
    return m;
}

struct route_match route_find(const struct uri *u, int method) {
    return route_find_in(api_routes, n_api_routes, u, method);
}

void route_allow(unsigned methods, struct buf *b) {
    for (int i = 0; i < API_METHODS; i++)
        if (methods & 1u << i)
            buf_addf(b, "%s, %s", api_method_names[i], i == API_METHOD_GET ? "HEAD, " : "");
    buf_adds(b, "OPTIONS");
}

/* Of a parameter, which is one value. */
static int add_parameter(const struct api_check *c, const char *text, size_t len, struct api_fields *f, struct front_fault *ret) {
    if (c->type == API_TYPE_BOOLEAN) {
        bool is = len == 4 && memcmp(text, "true", 4) == 0;

        if (!is && (len != 5 || memcmp(text, "false", 5) != 0))
            return fault_check(ret, c->wire, c);
        return api_fields_adds(f, c->field, is ? "1" : "0");
    }
    if (!api_check_text(c, text, len))
        return fault_check(ret, c->wire, c);
    return api_fields_add(f, c->field, text, len);
}

static const struct api_check *find_query(const struct api_route *r, const char *name) {
    for (size_t i = 0; i < r->schema->n; i++)
        if (r->schema->v[i].in == API_IN_QUERY && str_eq(r->schema->v[i].wire, name))
            return &r->schema->v[i];
    return NULL;
}

static int take_query(const struct api_route *r, const struct uri *u, struct api_fields *f, struct front_fault *ret) {
    for (size_t i = 0; i < u->n_query; i++) {
        const char *name = u->query[i].name.text;
        const struct api_check *c = find_query(r, name);
        int error;

        if (!c)
            return fault_field(ret, name, "is not a parameter of this operation");
        for (size_t j = 0; j < i; j++)
            if (str_eq(u->query[j].name.text, name))
                return fault_field(ret, name, "is there twice");
        error = add_parameter(c, u->query[i].value.text, u->query[i].value.len, f, ret);
        if (error < 0)
            return error;
    }
    return 0;
}

static bool has_query(const struct uri *u, const char *name) {
    for (size_t i = 0; i < u->n_query; i++)
        if (str_eq(u->query[i].name.text, name))
            return true;
    return false;
}

int route_fields(const struct api_route *r, const struct uri *u, route_header_fn *header, void *arg, struct api_fields *f,
                 struct front_fault *ret) {
    int error = 0;

    if (!match_path(r, u, f, &error))
        return fault_set(ret, 404, API_PROBLEM_NOT_FOUND, "there is no such path");
    error = error < 0 ? error : take_query(r, u, f, ret);
    for (size_t i = 0; error == 0 && i < r->schema->n; i++) {
        const struct api_check *c = &r->schema->v[i];
        const char *text = c->in == API_IN_HEADER ? header(arg, c->wire) : NULL;

        if (text)
            error = add_parameter(c, text, strlen(text), f, ret);
        else if (c->required && (c->in == API_IN_HEADER || (c->in == API_IN_QUERY && !has_query(u, c->wire))))
            return fault_field(ret, c->wire, "is missing");
    }
    return error;
}
