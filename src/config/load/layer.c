/* SPDX-License-Identifier: Apache-2.0 */
/* One level of settings: merged, narrowed, cut to the floor. */
#include "config/load/layer.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { VALUE_SHOWN_MAX = 1000, VALUE_MAX = 2 * DOC_SIZE_MAX, NOTE_MAX = 4 * VALUE_SHOWN_MAX + 8192 };

void layer_done(struct layer *l) {
    settings_done(&l->values);
    free(l->origin);
    free(l->file);
    free(l->via);
    *l = (struct layer){0};
}

int settings_set_origin(struct settings *s, enum setting id, const char *origin) {
    return str_set(&s->origin[id], origin);
}

/* Something that adds up has every contributor as its origin. */
static int add_origin(struct settings *s, enum setting id, const char *origin) {
    CLEANUP(freep) char *both = str_dupf("%s, %s", s->origin[id], origin);

    return both ? str_set(&s->origin[id], both) : -ENOMEM;
}

/* Of what adds up: has a weaker level said something? */
static bool has_entries(const struct settings *s, enum setting id) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(VALUE_MAX);

    settings_add_value(s, id, &json);
    return json.len > strlen("[]");
}

static int set_one(const struct layer *l, const struct field *f, struct settings *s) {
    const char *origin = l->origin_of[f->id] ? l->origin_of[f->id] : l->origin;
    bool joins = f->type->adds_up && has_entries(s, f->id);
    int r = f->type->merge(f, s, &l->values);

    /* Hosts that the user names for this sandbox are more than the same hosts in a file (policy/rules/verdict.h, Layers). */
    if (r == 0 && f->id == SETTING_NETWORK_ALLOW && l->said)
        r = strv_add_all(&s->net.said, &l->values.net.allow);
    if (r < 0)
        return r;
    return joins ? add_origin(s, f->id, origin) : settings_set_origin(s, f->id, origin);
}

/* Quoted as in a sentence: 'full', 4096, {"A": "b"}. What is cut off is said, so that nothing hides behind the cut. */
static void add_shown(const struct settings *s, enum setting id, struct buf *b) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(VALUE_MAX), text = BUF_INIT(VALUE_MAX);
    bool quoted;

    settings_add_value(s, id, &json);
    settings_add_text(s, id, &text);
    quoted = buf_str(&json)[0] == '"';
    buf_addf(b, "%s%.*s%s", quoted ? "'" : "", VALUE_SHOWN_MAX, buf_str(&text), quoted ? "'" : "");
    if (text.len > VALUE_SHOWN_MAX)
        buf_addf(b, "... (%zu %s more)", text.len - VALUE_SHOWN_MAX, str_plural(text.len - VALUE_SHOWN_MAX, "byte", "bytes"));
}

static int note_refusal(const struct layer *l, const struct field *f, struct settings *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(NOTE_MAX);

    buf_addf(&b, "%s:%u:%u: %s ", l->file, l->at[f->id].line, l->at[f->id].column, f->key);
    add_shown(&l->values, f->id, &b);
    buf_addf(&b, "%s not applied: %s", l->via ? l->via : "",
             f->type->not_from_project ? "a project may ask for less of this, not for more"
                                       : "the project is not trusted (see 'bawn trust')");
    return buf_ok(&b) ? strv_add(&s->notes, buf_str(&b)) : -ENOMEM;
}

/* A project that says "list" where a weaker level said "limited" must not get the "full" of a file that did not count before. */
static void keep_ceiling(const struct layer *l, struct settings *s) {
    if (!l->narrow_only)
        s->net.ceiling = NETWORK_FULL;
    else if (s->net.mode != NETWORK_LIST)
        s->net.ceiling = MIN_OF(s->net.ceiling, s->net.mode);
}

static int apply_one(const struct layer *l, const struct field *f, struct settings *s) {
    bool narrow = l->narrow_only || (l->project && f->type->not_from_project);

    if (f->id == SETTING_ENABLED && l->enable_only && s->mode == MODE_REQUIRE)
        return 0;
    if (!narrow || f->type->within(f, &l->values, s)) {
        if (f->id == SETTING_NETWORK)
            keep_ceiling(l, s);
        return set_one(l, f, s);
    }
    if (f->id == SETTING_PROFILE) /* its values are applied one by one as a layer of their own */
        return s->profile ? 0 : set_one(l, f, s);
    return note_refusal(l, f, s);
}

int layer_apply(const struct layer *l, struct settings *s, struct err *err) {
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        int r = layer_has(l, (enum setting)i) ? apply_one(l, &fields[i], s) : 0;

        if (r == -E2BIG)
            return err_usage(err, "%s: all levels together name more than there can be", fields[i].key);
        if (r < 0)
            return err_oom(err);
    }
    return 0;
}

static int note_cut(const struct layer *floor, enum setting id, const char *before, struct settings *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(NOTE_MAX);

    buf_addf(&b, "%s %s (%s) is more than %s allows: ", setting_names[id], before, s->origin[id], floor->origin);
    add_shown(s, id, &b);
    buf_adds(&b, " is used");
    return buf_ok(&b) ? strv_add(&s->notes, buf_str(&b)) : -ENOMEM;
}

static int cut(const struct layer *floor, const struct field *f, struct settings *s, struct err *err) {
    CLEANUP(buf_done) struct buf before = BUF_INIT(NOTE_MAX), after = BUF_INIT(NOTE_MAX);
    int r;

    add_shown(s, f->id, &before);
    r = f->type->clamp ? f->type->clamp(f, s, &floor->values, err) : f->type->merge(f, s, &floor->values);
    if (r < 0)
        return r == -ENOMEM ? err_oom(err) : err_ctx(err, r, "%s", floor->origin);
    add_shown(s, f->id, &after);
    if (str_eq(buf_str(&before), buf_str(&after)))
        return 0;
    if (!str_eq(s->origin[f->id], "built-in") && note_cut(floor, f->id, buf_str(&before), s) < 0)
        return err_oom(err);
    return settings_set_origin(s, f->id, floor->origin) < 0 ? err_oom(err) : 0;
}

int layer_apply_floor(const struct layer *floor, struct settings *s, struct err *err) {
    if (layer_has(floor, SETTING_NETWORK))
        s->net.ceiling = MIN_OF(s->net.ceiling, floor->values.net.mode);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct field *f = i == SETTING_ENGINE ? field_find("engines", IN_FLOOR) : &fields[i];
        int r;

        if (!layer_has(floor, (enum setting)i) || f->type->within(f, s, &floor->values))
            continue;
        r = cut(floor, f, s, err);
        if (r < 0)
            return r;
    }
    return 0;
}
