/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in of a TOML file of settings: statement by statement, so that values stay as they are written. Comments do not: people
 * comment old tokens out. Statements of the preset come first, and what they set is not taken from the user's file.
 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/agent/agent_config.h"

enum { KEY_MAX = 2048 };

struct toml_reader {
    const char *at;
    char table[KEY_MAX]; /* names with CONFIG_STEP between them */
};

struct toml_statement {
    const char *text; /* the whole of it, without the end of the line */
    size_t len;
    const char *value; /* NULL: a table's header */
    char key[KEY_MAX]; /* with the table's */
};

/* Names with dots, quotes and spaces around them. Returns what follows; NULL: not understood. */
static const char *take_key(const char *p, const char *ends, char key[static KEY_MAX], size_t at) {
    for (;;) {
        const char *end;
        char quote;

        p += strspn(p, " \t");
        quote = *p == '"' || *p == '\'' ? *p++ : 0;
        end = quote ? strchr(p, quote) : p + strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
        if (!end || (!quote && end == p) || at + (size_t)(end - p) + 2 >= KEY_MAX || memchr(p, '\n', (size_t)(end - p)))
            return NULL;
        if (at)
            key[at++] = CONFIG_STEP;
        memcpy(key + at, p, (size_t)(end - p));
        at += (size_t)(end - p);
        key[at] = 0;
        p = end + (quote != 0);
        p += strspn(p, " \t");
        if (*p != '.')
            return strchr(ends, *p) && *p ? p : NULL;
        p++;
    }
}

/* Behind a string that begins here. */
static const char *skip_string(const char *p) {
    char quote = *p;
    bool triple = p[1] == quote && p[2] == quote;

    for (p += triple ? 3 : 1; *p; p++) {
        if (*p == '\\' && quote == '"' && p[1])
            p++;
        else if (triple ? p[0] == quote && p[1] == quote && p[2] == quote : *p == quote)
            return p + (triple ? 3 : 1);
        else if (!triple && *p == '\n')
            return NULL;
    }
    return NULL;
}

/* Behind a value; NULL: it does not end. */
static const char *skip_value(const char *p) {
    int depth = 0;

    while (*p && (depth > 0 || (*p != '\n' && *p != '#'))) {
        if (*p == '"' || *p == '\'') {
            p = skip_string(p);
            if (!p)
                return NULL;
            continue;
        }
        if (*p == '#')
            p += strcspn(p, "\n");
        depth += *p == '[' || *p == '{' ? 1 : *p == ']' || *p == '}' ? -1 : 0;
        p += *p != 0;
    }
    return depth == 0 ? p : NULL;
}

static bool take_header(struct toml_reader *r, struct toml_statement *ret) {
    const char *p = r->at + 1 + (r->at[1] == '[');

    p = take_key(p, "]", r->table, 0);
    if (!p)
        return false;
    p += 1 + (p[1] == ']');
    ret->len = (size_t)(p - r->at);
    snprintf(ret->key, sizeof ret->key, "%s", r->table);
    r->at = p + strcspn(p, "\n");
    return true;
}

static bool take_pair(struct toml_reader *r, struct toml_statement *ret) {
    const char *p, *end;
    size_t n = strlen(r->table);

    memcpy(ret->key, r->table, n + 1);
    p = take_key(r->at, "=", ret->key, n);
    if (!p)
        return false;
    ret->value = p + 1 + strspn(p + 1, " \t");
    end = skip_value(ret->value);
    if (!end || end == ret->value)
        return false;
    ret->len = (size_t)(end - r->at);
    r->at = end + strcspn(end, "\n");
    return true;
}

/* 1; 0 at the end; -EINVAL. */
static int next_statement(struct toml_reader *r, struct toml_statement *ret) {
    for (;;) {
        r->at += strspn(r->at, " \t\r\n");
        if (*r->at != '#')
            break;
        r->at += strcspn(r->at, "\n");
    }
    *ret = (struct toml_statement){.text = r->at};
    if (!*r->at)
        return 0;
    return (*r->at == '[' ? take_header(r, ret) : take_pair(r, ret)) ? 1 : -EINVAL;
}

/* Each string in a value may be a credential. */
static bool value_is_secret(const struct toml_statement *s) {
    const char *end = s->text + s->len, *p = s->value;
    bool any = false;

    while (p && (p = strpbrk(p, "\"'#")) && p < end) {
        const char *after = *p == '#' ? p + strcspn(p, "\n") : skip_string(p);
        CLEANUP(freep) char *text = after && *p != '#' ? strndup(p + 1, (size_t)(after - p - 2)) : NULL;

        if (text && config_is_secret(s->key, text))
            return true;
        any = true;
        p = after;
    }
    return !any && config_is_secret(s->key, NULL);
}

static bool key_holds(const char *key, const char *below) {
    size_t n = strlen(key);

    return strncmp(key, below, n) == 0 && (below[n] == 0 || below[n] == CONFIG_STEP);
}

/* A table of the preset is the preset's as a whole: TOML has each table once. */
static bool preset_has(const char *preset, const struct toml_statement *user) {
    struct toml_reader r = {.at = preset};
    struct toml_statement s;

    while (preset && next_statement(&r, &s) > 0)
        if ((key_holds(s.key, user->key) && (!s.value || !strchr(s.key, CONFIG_STEP))) ||
            (user->value && key_holds(user->key, s.key)))
            return true;
    return false;
}

static void add_statement(struct buf *to, const struct toml_statement *s) {
    const char *end = s->text + s->len;

    if (!s->value && to->len)
        buf_addc(to, '\n');
    for (const char *p = s->text, *next; p < end; p = next) {
        next = *p == '"' || *p == '\'' ? skip_string(p) : *p == '#' ? p + strcspn(p, "\n") : p + 1;
        next = next ? next : end;
        if (*p != '#')
            buf_add(to, p, (size_t)(next - p));
    }
    buf_addc(to, '\n');
}

static int take_statement(const struct agent *a, const struct config_file *f, const struct toml_statement *s,
                          struct agent_config *c, struct buf *to, struct err *err) {
    CLEANUP(freep) char *value = s->value ? strndup(s->value, (size_t)(s->text + s->len - s->value)) : NULL;
    int r = 0;

    if (s->value ? value_is_secret(s) : config_is_secret(s->key, NULL))
        return s->value ? config_note(&c->left, f->path, s->key, NULL, err) : 0;
    if (value && config_runs(a, s->key))
        r = config_note(&c->runs, f->path, s->key, value, err);
    if (r == 0)
        add_statement(to, s);
    return r;
}

/* Statements before the first table, and the rest. */
static void split_preset(const char *preset, struct buf *top, struct buf *tables) {
    struct toml_reader r = {.at = preset ? preset : ""};
    struct toml_statement s;

    while (next_statement(&r, &s) > 0)
        add_statement(r.table[0] ? tables : top, &s);
}

int config_filter_toml(const struct agent *a, struct config_file *f, const char *preset, struct agent_config *c,
                       struct err *err) {
    CLEANUP(buf_done) struct buf top = BUF_INIT(CONFIG_FILE_MAX), tables = BUF_INIT(2 * CONFIG_FILE_MAX);
    struct toml_reader reader = {.at = buf_str(&f->data)};
    struct toml_statement s;
    int r;

    if (strlen(buf_str(&f->data)) != f->data.len)
        return err_set(err, -EINVAL, "it is no TOML");
    split_preset(preset, &top, &tables);
    while ((r = next_statement(&reader, &s)) > 0) {
        if (preset_has(preset, &s))
            continue;
        r = take_statement(a, f, &s, c, reader.table[0] ? &tables : &top, err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return err_set(err, -EINVAL, "it is no TOML that is understood");
    buf_clear(&f->data);
    buf_addf(&f->data, "%s\n%s", buf_str(&top), buf_str(&tables));
    return buf_ok(&top) && buf_ok(&tables) && buf_ok(&f->data) ? 0 : err_oom(err);
}
