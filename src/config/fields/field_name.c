/* SPDX-License-Identifier: Apache-2.0 */
/* Names: owned strings, NULL = none; among them the engines. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

enum { NAME_LEN_MAX = 64, IMAGE_LEN_MAX = 512 };

static int string_set(const struct field *f, struct settings *s, const char *text) {
    char **owner = member(f, s);
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        return -ENOMEM;
    free(*owner);
    *owner = copy;
    return 0;
}

static const char *string_get(const struct field *f, const struct settings *s) {
    return *(char *const *)member_of(f, s);
}

static int string_take(const struct field *f, const char *text, struct settings *out, struct err *err) {
    int r = string_set(f, out, text);

    return r < 0 ? err_oom(err) : 0;
}

static int string_merge(const struct field *f, struct settings *into, const struct settings *from) {
    return string_set(f, into, string_get(f, from));
}

static void string_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    if (string_get(f, s))
        buf_add_json(b, string_get(f, s));
    else
        buf_adds(b, "null");
}

static bool string_within(const struct field *f, const struct settings *s, const struct settings *than) {
    const char *a = string_get(f, s), *b = string_get(f, than);

    return !a || (b && str_eq(a, b));
}

bool profile_name_is_good(const char *name) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    return *name && *name != '.' && strlen(name) <= NAME_LEN_MAX && strspn(name, good) == strlen(name);
}

static int profile_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    if (!strchr(text, '/') && !profile_name_is_good(text))
        return err_usage(err, "'%.80s' is not the name of a profile (letters, digits, '.', '_', '-'; at most %d)", text,
                         NAME_LEN_MAX);
    return string_take(f, text, out, err);
}

/* The image becomes an argument of a container engine: nothing in it may look like an option or like two words. */
static int image_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p <= ' ' || *p == 0x7f)
            return err_usage(err, "'%.80s' is not the name of an image (it has spaces or control characters)", text);
    if (!*text || *text == '-' || strlen(text) > IMAGE_LEN_MAX)
        return err_usage(err, "'%.80s' is not the name of an image", text);
    return string_take(f, text, out, err);
}

const struct field_type type_profile = {
    .from_text = profile_from_text, .within = string_within, .merge = string_merge, .add_json = string_add_json, .none = "none"};
const struct field_type type_image = {
    .from_text = image_from_text, .within = string_within, .merge = string_merge, .add_json = string_add_json, .none = "none"};

/* Engines: how strong the wall between sandbox and host kernel is. "auto" promises what native does. */

static const struct {
    const char *name;
    int strength;
} engines[] = {
    {"auto", 2}, {"native", 2},       {"docker", 2}, {"podman", 2}, {"microvm", 4},    {"gvisor", 3},
    {"lima", 4}, {"sandbox-exec", 1}, {"none", 0},   {"fake", 0},   {"kubernetes", 1},
};

static int engine_strength(const char *name, int *ret, struct err *err) {
    CLEANUP(buf_done) struct buf known = BUF_INIT(256);
    const char *names[ARRAY_LEN(engines)];
    const char *near;

    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        if (str_eq(engines[i].name, name)) {
            *ret = engines[i].strength;
            return 0;
        }
        names[i] = engines[i].name;
        buf_addf(&known, "%s%s", i ? ", " : "", names[i]);
    }
    near = str_nearest(name, names, ARRAY_LEN(names));
    if (near)
        return err_usage(err, "'%.60s' is not an engine (did you mean '%s'?)", name, near);
    return err_usage(err, "'%.60s' is not an engine (one of: %s)", name, buf_str(&known));
}

static int engine_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    int strength, r = engine_strength(text, &strength, err);

    return r < 0 ? r : string_take(f, text, out, err);
}

static bool engine_within(const struct field *f, const struct settings *s, const struct settings *than) {
    int wish = 0, now = 0;

    if (str_eq(s->engine, than->engine))
        return true;
    return engine_strength(s->engine, &wish, NULL) == 0 && engine_strength(than->engine, &now, NULL) == 0 && wish > now;
}

const struct field_type type_engine = {
    .from_text = engine_from_text, .within = engine_within, .merge = string_merge, .add_json = string_add_json};

/* The organisation's list of engines */

static int engines_from_json(const struct field *f, struct doc_reader *rd, json_t *v, struct settings *out, struct err *err) {
    if (!json_is_array(v))
        return reader_wrong_type(rd, v, "an array of engine names", err);
    if (json_array_size(v) == 0 || json_array_size(v) > ARRAY_LEN(engines))
        return reader_fail(rd, err, "must name at least one engine, each once");
    for (size_t i = 0; i < json_array_size(v); i++) {
        json_t *item = json_array_get(v, i);
        int strength, r;

        reader_enter_index(rd, i);
        if (!json_is_string(item))
            return reader_wrong_type(rd, item, "a string", err);
        r = engine_strength(json_string_value(item), &strength, err);
        if (r < 0)
            return reader_ctx(rd, r, err);
        reader_leave(rd);
        if (strv_add(&out->allowed_engines, json_string_value(item)) < 0)
            return err_oom(err);
    }
    return 0;
}

static bool engines_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return false; /* the list itself must reach whoever resolves "auto" */
}

static int engines_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    const struct strv *allowed = &floor->allowed_engines;
    CLEANUP(buf_done) struct buf names = BUF_INIT(512);

    for (size_t i = 0; i < allowed->len; i++) {
        buf_addf(&names, "%s%s", i ? ", " : "", allowed->v[i]);
        if (strv_add(&s->allowed_engines, allowed->v[i]) < 0)
            return err_oom(err);
    }
    if (str_eq(s->engine, "auto"))
        return allowed->len == 1 ? string_take(&fields[SETTING_ENGINE], allowed->v[0], s, err) : 0;
    if (strv_has(allowed, s->engine))
        return 0;
    return err_set(err, -EPERM, "engine '%s' (%s) is not one the organisation allows (%s)", s->engine, s->origin[SETTING_ENGINE],
                   buf_str(&names));
}

const struct field_type type_engines = {.from_json = engines_from_json, .within = engines_within, .clamp = engines_clamp};
