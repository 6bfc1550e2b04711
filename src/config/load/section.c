/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a section of a file, key by key, as the table of fields says. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/layer.h"

enum { KEY_MAX = 64 };

struct section {
    struct layer *out;
    struct jsonwalk *w;
    unsigned where;
    bool positions;
};

/* The part of a dotted key that belongs below prefix: of "resources.memory" below "resources", "memory". */
static const char *below(const char *key, const char *prefix) {
    size_t n = strlen(prefix);

    if (n == 0)
        return key;
    return strncmp(key, prefix, n) == 0 && key[n] == '.' ? key + n + 1 : NULL;
}

/* A setting that is known, but in another place: "memory" is meant to be "resources.memory". */
static const char *misplaced(const struct section *s, const char *key) {
    for (size_t i = 0; i < n_fields; i++) {
        const char *dot = strrchr(fields[i].key, '.');

        if (fields[i].where & s->where && str_eq(dot ? dot + 1 : fields[i].key, key))
            return fields[i].key;
    }
    return NULL;
}

static int unknown_key(const struct section *s, const char *prefix, const char *key, struct err *err) {
    CLEANUP(buf_done) struct buf known = BUF_INIT(1024);
    CLEANUP(strv_done) struct strv names = {0};
    const char *near;

    for (size_t i = 0; i < n_fields; i++) {
        const char *rest = fields[i].where & s->where ? below(fields[i].key, prefix) : NULL;
        char name[KEY_MAX];

        if (!rest)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
        if (strv_has(&names, name))
            continue;
        buf_addf(&known, "%s%s", names.len ? ", " : "", name);
        if (strv_add(&names, name) < 0)
            return err_oom(err);
    }
    near = str_nearest(key, (const char *const *)names.v, names.len);
    return jsonwalk_unknown_key(s->w, near ? near : misplaced(s, key), buf_str(&known), err);
}

static int read_value(struct section *s, const struct field *f, json_t *v, struct err *err) {
    int r;

    if (f->type->from_json)
        return f->type->from_json(f, s->w, v, &s->out->values, err);
    if (!json_is_string(v))
        return jsonwalk_wrong_type(s->w, v, "a string", err);
    r = f->type->from_text(f, json_string_value(v), &s->out->values, err);
    return jsonwalk_ctx(s->w, r, err);
}

/* The other name of a setting that has two ("enabled" and "mode", "runtime" and "engine"). */
static const char *other_key(const struct section *s, const struct field *f) {
    for (size_t i = 0; i < n_fields; i++)
        if (&fields[i] != f && fields[i].id == f->id && fields[i].where & s->where)
            return fields[i].key;
    return f->key;
}

static int read_field(struct section *s, const struct field *f, json_t *v, struct err *err) {
    struct layer *l = s->out;
    int r;

    if (layer_has(l, f->id))
        return jsonwalk_fail(s->w, err, "says the same thing as another key here ('%s'); keep one of them", other_key(s, f));
    r = read_value(s, f, v, err);
    if (r < 0)
        return r;
    if (r > 0 && s->where != IN_FLOOR) /* an empty list adds nothing, but as a floor it forbids everything */
        return 0;
    layer_mark(l, f->id);
    l->enable_only |= f->type == &type_enabled && l->values.mode == MODE_AUTO;
    if (s->positions)
        l->at[f->id] = jsonwalk_position(s->w);
    return 0;
}

static int read_keys(struct section *s, json_t *object, const char *prefix, struct err *err);

static int read_key(struct section *s, const char *prefix, const char *key, json_t *v, struct err *err) {
    const struct field *f;
    char full[KEY_MAX];

    snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", key);
    f = field_find(full, s->where);
    if (f)
        return read_field(s, f, v, err);
    if (!field_is_group(full, s->where))
        return unknown_key(s, prefix, key, err);
    if (!json_is_object(v))
        return jsonwalk_wrong_type(s->w, v, "an object", err);
    return read_keys(s, v, full, err);
}

static int read_keys(struct section *s, json_t *object, const char *prefix, struct err *err) {
    const char *key;
    json_t *v;

    json_object_foreach(object, key, v) {
        int r;

        if (s->w->depth == 0 && str_eq(key, "$schema") && json_is_string(v))
            continue;
        jsonwalk_enter(s->w, key);
        r = read_key(s, prefix, key, v, err);
        if (r < 0)
            return r;
        jsonwalk_leave(s->w);
    }
    return 0;
}

/* Engine "none" is a spelling of mode off. */
static int settle_none(struct section *s, struct err *err) {
    struct layer *l = s->out;

    if (!layer_has(l, SETTING_ENGINE) || s->where == IN_FLOOR || !str_eq(l->values.engine, "none"))
        return 0;
    if (layer_has(l, SETTING_ENABLED) && l->values.mode != MODE_OFF)
        return jsonwalk_fail(s->w, err, "engine 'none' means no sandbox, but mode asks for one");
    l->values.mode = MODE_OFF;
    l->at[SETTING_ENABLED] = l->at[SETTING_ENGINE];
    layer_mark(l, SETTING_ENABLED);
    return 0;
}

int layer_read(struct layer *l, struct jsonwalk *w, json_t *object, unsigned where, bool positions, struct err *err) {
    struct section s = {l, w, where, positions};
    int r;

    if (!json_is_object(object))
        return jsonwalk_wrong_type(w, object, "an object", err);
    r = read_keys(&s, object, "", err);
    return r < 0 ? r : settle_none(&s, err);
}
