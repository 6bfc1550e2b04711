/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies in JSON. First a scan of the bytes for depth and number of values, because jansson recurses and allocates by them. Then jansson, then
 * the rows: a member is taken if its path is the name of a row, entered if names go on behind its path, and refused otherwise.
 */
#include "service/front/front_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include "base/str.h"

enum { PATH_MAX_TEXT = 200 };

struct walk {
    struct api_fields *fields; /* NULL: only checked */
    struct front_fault *fault;
};

/* What does not fit is cut: it is for people. */
static void shown_path(char out[static PATH_MAX_TEXT], const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    vsnprintf(out, PATH_MAX_TEXT, fmt, args);
    va_end(args);
}

static int scan_size(const char *s, size_t len, struct front_fault *ret) {
    size_t depth = 0, values = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        if (quoted) {
            quoted = s[i] != '"';
            i += s[i] == '\\';
            continue;
        }
        quoted = s[i] == '"';
        depth += s[i] == '{' || s[i] == '[';
        depth -= depth && (s[i] == '}' || s[i] == ']');
        values += s[i] == ',' || s[i] == '{' || s[i] == '[';
        if (depth > JSON_DEPTH_MAX || values > JSON_VALUES_MAX)
            return fault_set(ret, 400, API_PROBLEM_BAD_JSON,
                             depth > JSON_DEPTH_MAX ? "nested more than %d deep" : "more than %d values",
                             depth > JSON_DEPTH_MAX ? (int)JSON_DEPTH_MAX : (int)JSON_VALUES_MAX);
    }
    return 0;
}

static int walk_object(struct walk *w, const struct api_schema *s, json_t *object, const char *prefix, const char *shown);

static int json_add(struct walk *w, const struct api_check *c, const char *key, const char *text, size_t len) {
    if (!w->fields || c->field == 0)
        return 0;
    return key ? api_fields_add_pair(w->fields, c->field, key, text, len) : api_fields_add(w->fields, c->field, text, len);
}

static int take_object(struct walk *w, const struct api_check *c, json_t *value, const char *key, const char *shown) {
    struct walk inner = {NULL, w->fault};
    char *text;
    int r;

    if (!json_is_object(value))
        return fault_check(w->fault, shown, c);
    r = walk_object(&inner, c->sub, value, "", shown);
    if (r < 0)
        return r;
    text = json_dumps(value, JSON_SORT_KEYS | JSON_COMPACT);
    r = !text ? -ENOMEM : json_add(w, c, key, text, strlen(text));
    free(text);
    return r;
}

/* shown: its path in messages. key: of a map. */
static int take_item(struct walk *w, const struct api_check *c, json_t *value, const char *key, const char *shown) {
    char number[24];

    if (c->type == API_TYPE_OBJECT)
        return take_object(w, c, value, key, shown);
    if (c->type == API_TYPE_STRING) {
        if (!json_is_string(value) || !api_check_text(c, json_string_value(value), json_string_length(value)))
            return fault_check(w->fault, shown, c);
        return json_add(w, c, key, json_string_value(value), json_string_length(value));
    }
    if (c->type == API_TYPE_BOOLEAN && json_is_boolean(value))
        return json_add(w, c, key, json_is_true(value) ? "1" : "0", 1);
    if (c->type == API_TYPE_INTEGER && json_is_integer(value) && json_integer_value(value) >= 0) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        if (api_check_text(c, number, strlen(number)))
            return json_add(w, c, key, number, strlen(number));
    }
    return fault_check(w->fault, shown, c);
}

static int take_array(struct walk *w, const struct api_check *c, json_t *value, const char *shown) {
    size_t i;
    json_t *item;

    if (!json_is_array(value) || json_array_size(value) > c->max_items || json_array_size(value) < c->min_items)
        return fault_check(w->fault, shown, c);
    json_array_foreach(value, i, item) {
        char path[PATH_MAX_TEXT];
        int r;

        shown_path(path, "%s[%zu]", shown, i);
        r = take_item(w, c, item, NULL, path);
        if (r < 0)
            return r;
    }
    return 0;
}

static int take_map(struct walk *w, const struct api_check *c, json_t *value, const char *shown) {
    const char *key;
    json_t *item;

    if (!json_is_object(value) || json_object_size(value) > c->max_items)
        return fault_check(w->fault, shown, c);
    json_object_foreach(value, key, item) {
        char path[PATH_MAX_TEXT];
        int r;

        if (!api_check_key(c, key, strlen(key)))
            return fault_check(w->fault, shown, c);
        shown_path(path, "%s.%.100s", shown, key);
        r = take_item(w, c, item, key, path);
        if (r < 0)
            return r;
    }
    return 0;
}

static int take_row(struct walk *w, const struct api_check *c, json_t *value, const char *shown) {
    switch (c->shape) {
    case API_SHAPE_ARRAY:
        return take_array(w, c, value, shown);
    case API_SHAPE_MAP:
        return take_map(w, c, value, shown);
    case API_SHAPE_ONE:
        break;
    }
    return take_item(w, c, value, NULL, shown);
}

/* The row of this name; NULL and *ret_inside: names go on behind it. */
static const struct api_check *find_member(const struct api_schema *s, const char *name, bool *ret_inside) {
    size_t len = strlen(name);

    *ret_inside = false;
    for (size_t i = 0; i < s->n; i++) {
        const struct api_check *c = &s->v[i];

        if (c->in != API_IN_BODY || strncmp(c->name, name, len) != 0)
            continue;
        if (c->name[len] == 0)
            return c;
        *ret_inside |= c->name[len] == '.';
    }
    return NULL;
}

static int walk_missing(struct walk *w, const struct api_schema *s, json_t *object, const char *prefix, const char *shown) {
    size_t len = strlen(prefix);

    for (size_t i = 0; i < s->n; i++) {
        const struct api_check *c = &s->v[i];
        const char *rest = c->name + len;
        char path[PATH_MAX_TEXT];

        if (c->in != API_IN_BODY || !c->required || strncmp(c->name, prefix, len) != 0 || strchr(rest, '.') ||
            json_object_get(object, rest))
            continue;
        shown_path(path, "%s%s%s", shown, shown[0] ? "." : "", rest);
        return fault_field(w->fault, path, "is missing");
    }
    return 0;
}

/* prefix: of the rows' names, "" or with a dot at its end. */
static int walk_object(struct walk *w, const struct api_schema *s, json_t *object, const char *prefix, const char *shown) {
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        char name[PATH_MAX_TEXT], path[PATH_MAX_TEXT], inner[PATH_MAX_TEXT];
        const struct api_check *c;
        bool inside, fits;
        int r;

        shown_path(path, "%s%s%.100s", shown, shown[0] ? "." : "", key);
        fits = !strchr(key, '.') && (size_t)snprintf(name, sizeof name, "%s%s", prefix, key) < sizeof name - 1;
        c = fits ? find_member(s, name, &inside) : NULL;
        if (c) {
            r = take_row(w, c, value, path);
        } else if (fits && inside && json_is_object(value)) {
            snprintf(inner, sizeof inner, "%.*s.", (int)sizeof inner - 2, name);
            r = walk_object(w, s, value, inner, path);
        } else {
            r = fault_field(w->fault, path, fits && inside ? "must be an object" : "is not a field of this operation");
        }
        if (r < 0)
            return r;
    }
    return walk_missing(w, s, object, prefix, shown);
}

int front_json_fields(const char *data, size_t len, const struct api_route *r, struct api_fields *f, struct front_fault *ret) {
    struct walk w = {f, ret};
    json_error_t error;
    json_t *body;
    int result = scan_size(data, len, ret);

    if (result < 0)
        return result;
    body = json_loadb(data, len, JSON_REJECT_DUPLICATES, &error);
    if (!body)
        return fault_set(ret, 400, API_PROBLEM_BAD_JSON, "line %d, column %d: %.200s", error.line, error.column, error.text);
    result = json_is_object(body) ? walk_object(&w, r->schema, body, "", "")
                                  : fault_set(ret, 400, API_PROBLEM_BAD_JSON, "the body must be an object");
    json_decref(body);
    return result;
}
