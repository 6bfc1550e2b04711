/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The YAML that people write for tools: nested keys, lists, block texts, values in brackets. Aliases, tags, explicit keys and
 * whatever else the language has are odd here.
 */
#include "base/str.h"
#include "review/pairs/pairs_flow.h"

static const struct flow_style style = {.assign = ':', .hash = true, .fold = true, .plain_ends = ",]}\n"};

struct yaml_level {
    size_t column;  /* of its names */
    size_t key_len; /* of the key above it */
    bool list;      /* opened by a dash */
};
struct yaml_reader {
    struct pairs_flow f;
    struct yaml_level levels[PAIRS_DEPTH_MAX];
    size_t depth;
};

static void emit_yaml(struct yaml_reader *r, const char *value, size_t len) {
    while (len && strchr(" \t\r", value[len - 1]))
        len--;
    pairs_add(r->f.out, buf_str(&r->f.key), r->f.key.len, value, len, r->f.line);
}

/* Closes the names at or after this column. */
static void close_levels(struct yaml_reader *r, size_t column) {
    while (r->depth && r->levels[r->depth - 1].column >= column)
        flow_cut(&r->f, r->levels[--r->depth].key_len);
}

static void open_level(struct yaml_reader *r, size_t column, bool list) {
    if (r->depth == PAIRS_DEPTH_MAX)
        flow_stop(&r->f);
    else
        r->levels[r->depth++] = (struct yaml_level){column, r->f.key.len, list};
}

/* Where the ':' after a name is, in this line; 0: it is no name. */
static size_t name_end(const struct pairs_flow *f) {
    size_t i = f->pos;

    if (f->s[i] == '{' || f->s[i] == '[')
        return 0;
    if (f->s[i] == '"' || f->s[i] == '\'') {
        char quote = f->s[i++];

        while (i < f->len && f->s[i] != quote && f->s[i] != '\n')
            i += f->s[i] == '\\' && quote == '"' && i + 1 < f->len ? 2 : 1;
        for (i++; i < f->len && f->s[i] == ' '; i++)
            ;
        return i < f->len && f->s[i] == ':' ? i : 0;
    }
    for (; i < f->len && f->s[i] != '\n'; i++) {
        if (f->s[i] == ':' && strchr(" \t\r\n", f->s[i + 1]))
            return i;
        if (f->s[i] == '#' && i > f->pos && f->s[i - 1] == ' ')
            return 0;
    }
    return 0;
}

/* | and >: every line that is indented more than the key is text. Each is a value, so that a new one is seen. */
static void block(struct yaml_reader *r, size_t column) {
    struct pairs_flow *f = &r->f;

    flow_rest_of_line(f);
    while (f->pos < f->len) {
        size_t start = f->pos + 1, i = start, end;

        while (i < f->len && f->s[i] == ' ')
            i++;
        end = i + strcspn(f->s + i, "\n");
        if (i < f->len && strchr("\r\n", f->s[i]) == NULL && i - start <= column)
            return;
        f->pos = MIN_OF(end, f->len);
        f->line++;
        if (end > i)
            emit_yaml(r, f->s + i, end - i);
    }
}

/* The value after a name or a dash; column: of the name. */
static void value(struct yaml_reader *r, size_t column) {
    struct pairs_flow *f = &r->f;
    char c = flow_blank(f);

    if (c == '&') { /* an anchor: its name says nothing */
        f->pos += strcspn(f->s + f->pos, " \t\n");
        c = flow_blank(f);
    }
    if (c == 0 || c == '\n' || c == '#') {
        flow_rest_of_line(f);
    } else if (c == '|' || c == '>') {
        block(r, column);
    } else if (c == '{' || c == '[' || c == '"' || c == '\'') {
        flow_value(f);
        if (!f->stopped && (c = flow_blank(f)) && c != '\n' && c != '#')
            pairs_odd(f->out, f->line);
        flow_rest_of_line(f);
    } else {
        size_t n = strcspn(f->s + f->pos, "\n");
        const char *comment = memmem(f->s + f->pos, n, " #", 2);

        if (c == '*' || c == '!' || c == '?')
            pairs_odd(f->out, f->line);
        emit_yaml(r, f->s + f->pos, comment ? (size_t)(comment - (f->s + f->pos)) : n);
        flow_rest_of_line(f);
    }
}

static void named(struct yaml_reader *r, size_t column, size_t end) {
    struct pairs_flow *f = &r->f;

    close_levels(r, column);
    open_level(r, column, false);
    if (f->stopped || !flow_name(f, ":\n")) {
        flow_stop(f);
        return;
    }
    if (f->pos < end) /* a name with a ':' in it */
        buf_add(&f->key, f->s + f->pos, end - f->pos);
    f->pos = end + 1;
    value(r, column);
}

/* "- " opens an element; what follows it may be a name, at its own column. Returns that column. */
static size_t dashes(struct yaml_reader *r, size_t column) {
    struct pairs_flow *f = &r->f;

    while (!f->stopped && f->s[f->pos] == '-' && strchr(" \t\r\n", f->s[f->pos + 1])) {
        size_t start = f->pos;

        close_levels(r, column + 1); /* a list may be at the column of its key */
        if (r->depth && r->levels[r->depth - 1].column == column && r->levels[r->depth - 1].list)
            flow_cut(f, r->levels[--r->depth].key_len);
        open_level(r, column, true);
        buf_adds(&f->key, "[]");
        pairs_add(f->out, buf_str(&f->key), f->key.len, "{", 1, f->line);
        f->pos++;
        flow_blank(f);
        column += f->pos - start;
    }
    return column;
}

static void line(struct yaml_reader *r) {
    struct pairs_flow *f = &r->f;
    size_t start = f->pos, column, end;

    while (f->s[f->pos] == ' ')
        f->pos++;
    if (f->pos >= f->len || strchr("\r\n#", f->s[f->pos])) {
        flow_rest_of_line(f);
        return;
    }
    column = f->pos - start;
    if (column == 0 && (str_starts(f->s + f->pos, "---") || str_starts(f->s + f->pos, "..."))) {
        close_levels(r, 0);
        flow_rest_of_line(f);
        return;
    }
    if (f->s[f->pos] == '\t' || f->s[f->pos] == '%')
        pairs_odd(f->out, f->line);
    column = dashes(r, column);
    end = f->stopped ? 0 : name_end(f);
    if (end)
        named(r, column, end);
    else if (!f->stopped)
        value(r, column); /* an element, or a value that goes on */
}

void pairs_read_yaml(struct pairs *p, const char *data, size_t len) {
    struct yaml_reader r = {.f = flow_init(p, &style, data, len)};

    while (!r.f.stopped && r.f.pos < r.f.len) {
        line(&r);
        if (r.f.pos < r.f.len && r.f.s[r.f.pos] == '\n') {
            r.f.pos++;
            r.f.line++;
        } else if (r.f.pos < r.f.len && !r.f.stopped) {
            flow_stop(&r.f);
        }
    }
    flow_done(&r.f);
}
