/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup/log_line.h"

#include <jansson.h>

#include "base/str.h"

/* Members that every line has, or that say nothing to people. */
static bool is_common(const char *key) {
    static const char *const keys[] = {"seq", "time", "type", "sandbox", "run",  "tenant", "user",
                                       "uid", "pid",  "prev", "hash",    "argv", "argc",   "argv_sha256"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_eq(keys[i], key))
            return true;
    return false;
}

static void add_word(struct buf *out, const char *word) {
    CLEANUP(buf_done) struct buf quoted = BUF_INIT(LOG_LINE_MAX);

    buf_add_shell(&quoted, word);
    buf_add_printable(out, buf_str(&quoted));
}

static const char *text_of(const json_t *v, const char *key) {
    const char *s = json_string_value(json_object_get(v, key));

    return s ? s : "";
}

static void add_list(struct buf *out, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));

        buf_adds(out, i ? " " : "");
        add_word(out, word ? word : "?");
    }
}

static void add_member(struct buf *out, const char *key, const json_t *value) {
    const char *text = json_string_value(value);

    if (is_common(key) || (text && !text[0]))
        return;
    buf_addc(out, ' ');
    buf_add_printable(out, key);
    buf_addc(out, '=');
    if (text)
        add_word(out, text);
    else if (json_is_array(value))
        add_list(out, value);
    else if (json_is_integer(value))
        buf_addf(out, "%lld", (long long)json_integer_value(value));
    else
        buf_adds(out, json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "?");
}

bool log_line_text(const char *line, size_t len, struct buf *out) {
    json_t *v = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    const char *key, *who = text_of(v, "sandbox");
    const json_t *argv = json_object_get(v, "argv");
    json_t *value;

    if (!json_is_object(v)) {
        json_decref(v);
        return false;
    }
    buf_add_printable(out, text_of(v, "time"));
    buf_addc(out, ' ');
    buf_add_printable(out, who[0] ? who : "-");
    buf_addc(out, ' ');
    buf_add_printable(out, text_of(v, "type"));
    json_object_foreach(v, key, value) add_member(out, key, value);
    if (argv) {
        buf_adds(out, " $ ");
        add_list(out, argv);
        if ((size_t)json_integer_value(json_object_get(v, "argc")) > json_array_size(argv))
            buf_adds(out, " ...");
    }
    buf_addc(out, '\n');
    json_decref(v);
    return true;
}

bool log_line_json(const char *line, size_t len, bool terminal, struct buf *out) {
    json_t *v = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    bool is = json_is_object(v);
    CLEANUP(freep) char *text = is && terminal ? json_dumps(v, JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;

    json_decref(v);
    if (!is)
        return false;
    if (terminal)
        buf_adds(out, text ? text : "{}");
    else
        buf_add(out, line, len);
    buf_addc(out, '\n');
    return true;
}
