/* SPDX-License-Identifier: Apache-2.0 */
/* Names: owned strings, NULL = none; among them the engines. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

enum { NAME_LEN_MAX = 64, IMAGE_LEN_MAX = 512 };

static const char *string_get(const struct field *f, const struct settings *s) {
    return *(char *const *)member_of(f, s);
}

static int string_take(const struct field *f, const char *text, struct settings *out, struct err *err) {
    return str_set(member(f, out), text) < 0 ? err_oom(err) : 0;
}

int string_merge(const struct field *f, struct settings *into, const struct settings *from) {
    return str_set(member(f, into), string_get(f, from));
}

void string_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    if (string_get(f, s))
        buf_add_json(b, string_get(f, s));
    else
        buf_adds(b, "null");
}

bool string_within(const struct field *f, const struct settings *s, const struct settings *than) {
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
    {"auto", 2}, {"native", 2}, {"docker", 2},       {"podman", 2}, {"microvm", 4}, {"gvisor", 3},
    {"lima", 4}, {"sbx", 4},    {"sandbox-exec", 1}, {"none", 0},   {"fake", 0},    {"kubernetes", 1},
};

static int engine_strength(const char *name, int *ret, struct err *err) {
    const char *names[ARRAY_LEN(engines)];

    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        if (str_eq(engines[i].name, name)) {
            *ret = engines[i].strength;
            return 0;
        }
        names[i] = engines[i].name;
    }
    return field_unknown_word(name, "an engine", names, ARRAY_LEN(names), err);
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

static int add_engine(void *list, const char *name, struct err *err) {
    int strength, r = engine_strength(name, &strength, err);

    if (r < 0)
        return r;
    return strv_add(list, name) < 0 ? err_oom(err) : 0;
}

static int engines_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    if (json_is_array(v) && (json_array_size(v) == 0 || json_array_size(v) > ARRAY_LEN(engines)))
        return jsonwalk_fail(w, err, "must name at least one engine, each once");
    return field_read_strings(w, v, "an array of engine names", add_engine, member(f, out), err);
}

static bool engines_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return false; /* the list itself must reach the code that resolves "auto" */
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
