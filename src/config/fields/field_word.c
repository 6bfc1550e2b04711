/* SPDX-License-Identifier: Apache-2.0 */
/* Words: enums of C, all as wide as an int, whose smaller values grant less; and switches. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

static_assert(sizeof(enum network) == sizeof(int) && sizeof(enum ssh_agent) == sizeof(int) &&
                  sizeof(enum sandbox_mode) == sizeof(int) && sizeof(enum ask_mode) == sizeof(int),
              "words are read and written as int");
static_assert(NETWORK_NONE < NETWORK_LIST && NETWORK_LIST < NETWORK_LIMITED && NETWORK_LIMITED < NETWORK_FULL,
              "word_within compares them");
static_assert(ASK_NEVER < ASK_AUTO && ASK_AUTO < ASK_WAIT, "word_within compares them");
static_assert(SSH_AGENT_OFF < SSH_AGENT_AUTO && SSH_AGENT_AUTO < SSH_AGENT_ON, "word_within compares them");

struct field_word {
    const char *text;
    int value;
};

enum { WORDS_MAX = 8 };

/* The first spelling of a value is the one that is printed. */
static const struct field_word network_words[] = {{"none", NETWORK_NONE}, {"list", NETWORK_LIST}, {"limited", NETWORK_LIMITED},
                                                  {"full", NETWORK_FULL}, {"off", NETWORK_NONE},  {"on", NETWORK_FULL}};
static const struct field_word ask_words[] = {{"auto", ASK_AUTO}, {"never", ASK_NEVER}, {"wait", ASK_WAIT}};
static const struct field_word ssh_words[] = {{"off", SSH_AGENT_OFF}, {"auto", SSH_AGENT_AUTO}, {"on", SSH_AGENT_ON}};
static const struct field_word mode_words[] = {{"auto", MODE_AUTO}, {"require", MODE_REQUIRE}, {"off", MODE_OFF}};

static int word_parse(const struct field_word *words, size_t n, const char *text, int *ret, struct err *err) {
    const char *names[WORDS_MAX];

    for (size_t i = 0; i < n; i++) {
        if (str_eq(words[i].text, text)) {
            *ret = words[i].value;
            return 0;
        }
        names[i] = words[i].text;
    }
    return field_unknown_word(text, "known", names, n, err);
}

static void word_add(const struct field_word *words, size_t n, int value, struct buf *b) {
    for (size_t i = 0; i < n; i++)
        if (words[i].value == value) {
            buf_addf(b, "\"%s\"", words[i].text);
            return;
        }
}

static bool word_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return *(const int *)member_of(f, s) <= *(const int *)member_of(f, than);
}

static int word_merge(const struct field *f, struct settings *into, const struct settings *from) {
    *(int *)member(f, into) = *(const int *)member_of(f, from);
    return 0;
}

#define WORD_TYPE(name, words)                                                                                    \
    static int name##_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) { \
        return word_parse(words, ARRAY_LEN(words), text, member(f, out), err);                                    \
    }                                                                                                             \
    static void name##_add_json(const struct field *f, const struct settings *s, struct buf *b) {                 \
        word_add(words, ARRAY_LEN(words), *(const int *)member_of(f, s), b);                                      \
    }                                                                                                             \
    static_assert(ARRAY_LEN(words) <= WORDS_MAX, "word_parse has room for them")

WORD_TYPE(network, network_words);
WORD_TYPE(ask, ask_words);
WORD_TYPE(ssh_agent, ssh_words);
WORD_TYPE(mode, mode_words);

const struct field_type type_network = {
    .from_text = network_from_text, .within = word_within, .merge = word_merge, .add_json = network_add_json};
const struct field_type type_ask = {
    .from_text = ask_from_text, .within = word_within, .merge = word_merge, .add_json = ask_add_json};
const struct field_type type_ssh_agent = {
    .from_text = ssh_agent_from_text, .within = word_within, .merge = word_merge, .add_json = ssh_agent_add_json};

/* Mode: off grants most, require least */

static int mode_grants(enum sandbox_mode m) {
    static const int grants[] = {[MODE_REQUIRE] = 0, [MODE_AUTO] = 1, [MODE_OFF] = 2};

    return grants[m];
}

static bool mode_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return mode_grants(s->mode) <= mode_grants(than->mode);
}

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

#define MODE .within = mode_within, .merge = word_merge, .clamp = mode_clamp, .add_json = mode_add_json
const struct field_type type_mode = {MODE, .from_text = mode_from_text};
const struct field_type type_enabled = {MODE, .from_json = enabled_from_json};

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

const struct field_type type_bool = {
    .from_json = bool_from_json, .within = bool_within, .merge = bool_merge, .add_json = bool_add_json};
