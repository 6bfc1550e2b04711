/* SPDX-License-Identifier: Apache-2.0 */
#include "review/pairs/pairs_flow.h"

#include "base/str.h"

struct pairs_flow flow_init(struct pairs *out, const struct flow_style *style, const char *s, size_t len) {
    return (struct pairs_flow){.out = out,
                               .style = style,
                               .s = s,
                               .len = len,
                               .pos = str_starts(s, "\xef\xbb\xbf") ? 3 : 0,
                               .line = 1,
                               .key = BUF_INIT(PAIRS_BYTES_MAX),
                               .scratch = BUF_INIT(PAIRS_BYTES_MAX)};
}

void flow_done(struct pairs_flow *f) {
    buf_done(&f->key);
    buf_done(&f->scratch);
}

static char peek(const struct pairs_flow *f) {
    return f->pos < f->len ? f->s[f->pos] : 0;
}

void flow_stop(struct pairs_flow *f) {
    pairs_odd(f->out, f->line);
    f->stopped = true;
}

static char next(struct pairs_flow *f) {
    char c = peek(f);

    if (f->pos < f->len)
        f->pos++;
    f->line += c == '\n';
    return c;
}

static bool at(const struct pairs_flow *f, const char *what) {
    size_t n = strlen(what);

    return f->len - f->pos >= n && memcmp(f->s + f->pos, what, n) == 0;
}

void flow_rest_of_line(struct pairs_flow *f) {
    while (f->pos < f->len && f->s[f->pos] != '\n')
        f->pos++;
}

static void skip_block(struct pairs_flow *f) {
    while (f->pos < f->len && !at(f, "*/"))
        next(f);
    if (f->pos >= f->len)
        flow_stop(f);
    else
        f->pos += 2;
}

char flow_blank(struct pairs_flow *f) {
    while (peek(f) == ' ' || peek(f) == '\t' || (peek(f) == '\r' && f->s[f->pos + 1] == '\n'))
        f->pos++;
    return peek(f);
}

char flow_space(struct pairs_flow *f) {
    for (;;) {
        char c = flow_blank(f);

        if (c == '\n' || c == '\r')
            next(f);
        else if (f->style->hash ? c == '#' : at(f, "//"))
            flow_rest_of_line(f);
        else if (!f->style->hash && at(f, "/*"))
            skip_block(f);
        else
            return c;
    }
}

static int hex4(const char *s) {
    static const char digits[] = "0123456789abcdef";
    int v = 0;

    for (int i = 0; i < 4; i++) {
        const char *d = s[i] ? strchr(digits, s[i] | 0x20) : NULL;

        if (!d)
            return -1;
        v = v * 16 + (int)(d - digits);
    }
    return v;
}

/* Halves of surrogate pairs stay halves: they are only compared and shown, and what shows them escapes them. */
static void add_code(struct buf *b, unsigned c) {
    if (c < 0x80) {
        buf_addc(b, (char)c);
        return;
    }
    if (c < 0x800) {
        buf_addc(b, (char)(0xc0 | c >> 6));
    } else {
        buf_addc(b, (char)(0xe0 | c >> 12));
        buf_addc(b, (char)(0x80 | (c >> 6 & 0x3f)));
    }
    buf_addc(b, (char)(0x80 | (c & 0x3f)));
}

/* An escape of which this reader does not know the meaning could spell a name that the tables know. */
static void escape(struct pairs_flow *f, struct buf *b) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = next(f);
    const char *plain = c ? strchr(from, c) : NULL;
    int code = c == 'u' && f->len - f->pos >= 4 ? hex4(f->s + f->pos) : -1;

    if (plain) {
        buf_addc(b, to[plain - from]);
    } else if (code >= 0) {
        f->pos += 4;
        add_code(b, (unsigned)code);
    } else if (c != '\n') {
        pairs_odd(f->out, f->line);
        buf_addc(b, c);
    }
}

static void quoted_triple(struct pairs_flow *f, struct buf *b, const char *mark) {
    f->pos += 3;
    while (f->pos < f->len && !at(f, mark)) {
        char c = next(f);

        if (c == '\\' && mark[0] == '"')
            escape(f, b);
        else
            buf_addc(b, c);
    }
    if (f->pos >= f->len)
        flow_stop(f);
    else
        f->pos += 3;
}

static void quoted(struct pairs_flow *f, struct buf *b) {
    char quote = next(f);

    for (;;) {
        char c = peek(f);

        if (f->pos >= f->len || (c == '\n' && !f->style->fold)) {
            flow_stop(f);
            return;
        }
        next(f);
        if (c == '\\' && quote == '"')
            escape(f, b);
        else if (c != quote)
            buf_addc(b, c);
        else if (quote == '\'' && f->style->fold && peek(f) == quote) /* YAML: '' is one quote */
            buf_addc(b, next(f));
        else
            return;
    }
}

static void plain(struct pairs_flow *f, struct buf *b, const char *ends) {
    size_t start = f->pos, stop;

    while (f->pos < f->len && !strchr(ends, f->s[f->pos])) {
        if (f->style->hash && f->s[f->pos] == '#' && f->pos > start && (f->s[f->pos - 1] == ' ' || f->s[f->pos - 1] == '\t'))
            break;
        next(f);
    }
    for (stop = f->pos; stop > start && strchr(" \t\r", f->s[stop - 1]); stop--)
        ;
    buf_add(b, f->s + start, stop - start);
}

/* Returns false if there was nothing. */
static bool scalar(struct pairs_flow *f, struct buf *b, const char *ends) {
    char c = peek(f);
    size_t start = f->pos;

    if (f->style->triple && (at(f, "\"\"\"") || at(f, "'''")))
        quoted_triple(f, b, c == '"' ? "\"\"\"" : "'''");
    else if (c == '"' || c == '\'')
        quoted(f, b);
    else
        plain(f, b, ends);
    return f->pos > start;
}

void flow_cut(struct pairs_flow *f, size_t key_len) {
    if (f->key.data)
        f->key.data[f->key.len = key_len] = 0;
}

bool flow_name(struct pairs_flow *f, const char *plain_ends) {
    size_t start;

    if (f->key.len)
        buf_addc(&f->key, PAIR_STEP);
    start = f->key.len;
    if (!scalar(f, &f->key, plain_ends) || f->stopped || !buf_ok(&f->key))
        return false;
    for (size_t i = start; i < f->key.len; i++)
        if (f->key.data[i] == PAIR_STEP || f->key.data[i] == 0)
            f->key.data[i] = '?';
    return true;
}

static void emit(struct pairs_flow *f, const char *value, size_t len, unsigned line) {
    pairs_add(f->out, buf_str(&f->key), f->key.len, value, len, line);
    if (!buf_ok(&f->key) || !buf_ok(&f->scratch) || !buf_ok(&f->out->text))
        flow_stop(f);
}

static void member(struct pairs_flow *f) {
    const char ends[] = {f->style->assign, '\n', ',', '}', 0};
    size_t len = f->key.len;

    if (!flow_name(f, ends) || flow_space(f) != f->style->assign) {
        flow_stop(f);
    } else {
        next(f);
        flow_value(f);
    }
    flow_cut(f, len);
}

static void element(struct pairs_flow *f) {
    size_t len = f->key.len;

    buf_adds(&f->key, "[]");
    if (peek(f) == '{')
        emit(f, "{", 1, f->line);
    flow_value(f);
    flow_cut(f, len);
}

static void container(struct pairs_flow *f) {
    char close = next(f) == '{' ? '}' : ']';

    if (++f->depth > PAIRS_DEPTH_MAX)
        flow_stop(f);
    while (!f->stopped) {
        char c = flow_space(f);

        if (c == close) {
            next(f);
            break;
        }
        if (c == ',')
            next(f);
        else if (f->pos >= f->len || c == '}' || c == ']')
            flow_stop(f);
        else if (close == '}')
            member(f);
        else
            element(f);
    }
    f->depth--;
}

void flow_value(struct pairs_flow *f) {
    char c = flow_space(f);
    unsigned line = f->line;

    if (c == '{' || c == '[') {
        container(f);
        return;
    }
    buf_clear(&f->scratch);
    if (!scalar(f, &f->scratch, f->style->plain_ends))
        flow_stop(f);
    else
        emit(f, buf_str(&f->scratch), f->scratch.len, line);
}

/* A parser library keeps one of two equal keys, and which one is not the same in every program: here both are seen. */
void pairs_read_json(struct pairs *p, const char *data, size_t len) {
    static const struct flow_style style = {.assign = ':', .plain_ends = ",]} \t\r\n\"'{[:/"};
    CLEANUP(flow_done) struct pairs_flow f = flow_init(p, &style, data, len);

    if (flow_space(&f))
        flow_value(&f);
    if (!f.stopped && (flow_space(&f) || f.pos < f.len))
        flow_stop(&f);
}

/* -- TOML ----------------------------------------------------------------------------------------------------------------- */

/* TOML by lines: tables, dotted keys, values in brackets that go on over lines. */

static const struct flow_style style = {.assign = '=', .hash = true, .triple = true, .plain_ends = ",]}\n"};

/* a."b.c".d, up to one of the ends; the names are appended to the key. */
static bool dotted(struct pairs_flow *f, const char *ends) {
    do {
        flow_blank(f);
        if (!flow_name(f, ends))
            return false;
    } while (flow_blank(f) == '.' && f->pos++ < f->len);
    return true;
}

/* [a.b] or [[a.b]]: everything that follows is in it. */
static void table(struct pairs_flow *f, size_t *ret_prefix) {
    bool element = f->s[f->pos + 1] == '[';

    f->pos += element ? 2 : 1;
    flow_cut(f, 0);
    if (!dotted(f, ".]\n") || f->s[f->pos] != ']' || (element && f->s[f->pos + 1] != ']')) {
        flow_stop(f);
        return;
    }
    f->pos += element ? 2 : 1;
    if (element) {
        buf_adds(&f->key, "[]");
        pairs_add(f->out, buf_str(&f->key), f->key.len, "{", 1, f->line);
    }
    *ret_prefix = f->key.len;
}

static void assignment(struct pairs_flow *f) {
    if (!dotted(f, ".=\n") || flow_blank(f) != '=') {
        flow_stop(f);
        return;
    }
    f->pos++;
    if (flow_blank(f) == '\n' || f->pos >= f->len)
        flow_stop(f);
    else
        flow_value(f);
}

void pairs_read_toml(struct pairs *p, const char *data, size_t len) {
    CLEANUP(flow_done) struct pairs_flow f = flow_init(p, &style, data, len);
    size_t prefix = 0;

    for (char c; !f.stopped && (c = flow_space(&f));) {
        if (c == '[') {
            table(&f, &prefix);
        } else {
            assignment(&f);
            flow_cut(&f, prefix);
        }
        c = f.stopped ? '\n' : flow_blank(&f);
        if (c && c != '\n' && c != '#')
            flow_stop(&f);
    }
    if (!f.stopped && f.pos < f.len)
        flow_stop(&f);
}
