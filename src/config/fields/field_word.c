/* SPDX-License-Identifier: Apache-2.0 */
/* Words: enums of C, all as wide as an int; and switches. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

static_assert(sizeof(enum network) == sizeof(int) && sizeof(enum ssh_agent) == sizeof(int) &&
                  sizeof(enum sandbox_mode) == sizeof(int) && sizeof(enum ask_mode) == sizeof(int) &&
                  sizeof(enum system_view) == sizeof(int) && sizeof(enum system_ids) == sizeof(int),
              "words are read and written as int");

struct field_word {
    const char *text;
    int value;
    int grants; /* the more, the more it allows */
};

enum { WORDS_MAX = 8 };

/* The first spelling of a value is the one that is printed. */
static const struct field_word network_words[WORDS_MAX] = {{"none", NETWORK_NONE, 0},       {"list", NETWORK_LIST, 1},
                                                           {"limited", NETWORK_LIMITED, 2}, {"full", NETWORK_FULL, 3},
                                                           {"off", NETWORK_NONE, 0},        {"on", NETWORK_FULL, 3}};
static const struct field_word ask_words[WORDS_MAX] = {{"auto", ASK_AUTO, 1}, {"never", ASK_NEVER, 0}, {"wait", ASK_WAIT, 2}};
static const struct field_word ssh_words[WORDS_MAX] = {
    {"off", SSH_AGENT_OFF, 0}, {"auto", SSH_AGENT_AUTO, 1}, {"on", SSH_AGENT_ON, 2}};
static const struct field_word system_words[WORDS_MAX] = {{"read-only", SYSTEM_READ_ONLY, 0}, {"writable", SYSTEM_WRITABLE, 1}};
static const struct field_word ids_words[WORDS_MAX] = {
    {"auto", SYSTEM_IDS_AUTO, 1}, {"one", SYSTEM_IDS_ONE, 0}, {"many", SYSTEM_IDS_MANY, 1}};
static const struct field_word mode_words[WORDS_MAX] = {
    {"auto", MODE_AUTO, 1}, {"require", MODE_REQUIRE, 0}, {"off", MODE_OFF, 2}};

static int word_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    const char *names[WORDS_MAX];
    size_t n = 0;

    for (const struct field_word *w = f->type->words; n < WORDS_MAX && w[n].text; n++) {
        if (str_eq(w[n].text, text)) {
            *(int *)member(f, out) = w[n].value;
            return 0;
        }
        names[n] = w[n].text;
    }
    return field_unknown_word(text, "known", names, n, err);
}

static const struct field_word *word_of(const struct field *f, const struct settings *s) {
    for (const struct field_word *w = f->type->words; w->text; w++)
        if (w->value == *(const int *)member_of(f, s))
            return w;
    BUG("a value without a word");
}

static void word_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    buf_addf(b, "\"%s\"", word_of(f, s)->text);
}

static bool word_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return word_of(f, s)->grants <= word_of(f, than)->grants;
}

static int word_merge(const struct field *f, struct settings *into, const struct settings *from) {
    *(int *)member(f, into) = *(const int *)member_of(f, from);
    return 0;
}

#define WORD .within = word_within, .merge = word_merge, .add_json = word_add_json
const struct field_type type_network = {WORD, .from_text = word_from_text, .words = network_words};
const struct field_type type_ask = {WORD, .from_text = word_from_text, .words = ask_words};
const struct field_type type_system = {WORD, .from_text = word_from_text, .words = system_words};
const struct field_type type_system_ids = {WORD, .from_text = word_from_text, .words = ids_words};
const struct field_type type_ssh_agent = {WORD, .from_text = word_from_text, .words = ssh_words};

static int mode_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    if (s->mode == MODE_OFF) /* changing this silently would run the command in a place the user did not ask for */
        return err_set(err, -EPERM, "running without a sandbox was asked for (%s), but the organisation requires one",
                       s->origin[SETTING_ENABLED]);
    s->mode = floor->mode;
    return 0;
}

static int enabled_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    if (!json_is_boolean(v))
        return jsonwalk_wrong_type(w, v, "true or false", err);
    out->mode = json_is_true(v) ? MODE_AUTO : MODE_OFF;
    return 0;
}

const struct field_type type_mode = {WORD, .from_text = word_from_text, .words = mode_words, .clamp = mode_clamp};
const struct field_type type_enabled = {WORD, .from_json = enabled_from_json, .words = mode_words, .clamp = mode_clamp};

/* Switches: true grants more */

static int bool_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    if (!json_is_boolean(v))
        return jsonwalk_wrong_type(w, v, "true or false", err);
    *(bool *)member(f, out) = json_is_true(v);
    return 0;
}

static bool bool_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return *(const bool *)member_of(f, s) <= *(const bool *)member_of(f, than);
}

static int bool_merge(const struct field *f, struct settings *into, const struct settings *from) {
    *(bool *)member(f, into) = *(const bool *)member_of(f, from);
    return 0;
}

static void bool_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    buf_adds(b, *(const bool *)member_of(f, s) ? "true" : "false");
}

#define SWITCH .from_json = bool_from_json, .within = bool_within, .merge = bool_merge, .add_json = bool_add_json
const struct field_type type_bool = {SWITCH};
const struct field_type type_nested = {SWITCH, .not_from_project = true}; /* it takes the second fence away */
