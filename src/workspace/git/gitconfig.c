/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/gitconfig.h"

#include <errno.h>

#include "base/str.h"

/* Follows git_parse_source() of git's config.c step by step, its corner cases included: a difference would be a key that git obeys
 * and that is not reported. */
struct gitconfig_parser {
    const char *p, *end;
    unsigned line;
    bool eof;
    char *key, *value; /* as long as the whole file, so that nothing has to be measured */
    size_t key_len, value_len, base_len;
};

/* git's isspace(): without \v and \f, whatever the locale. */
static bool is_space(int c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alpha(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key_char(int c) {
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '-';
}

static char lower(int c) {
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* The end of the file reads as one line end after the other. */
static int next_char(struct gitconfig_parser *s) {
    int c;

    if (s->p == s->end) {
        s->eof = true;
        s->line++;
        return '\n';
    }
    c = (unsigned char)*s->p++;
    if (c == '\r' && s->p < s->end && *s->p == '\n')
        c = (unsigned char)*s->p++;
    if (c == '\n')
        s->line++;
    return c;
}

static void add_key(struct gitconfig_parser *s, int c) {
    s->key[s->key_len++] = (char)c;
}

/* ` "subsection"]`, after the white space c. */
static bool read_subsection(struct gitconfig_parser *s, int c) {
    do {
        if (c == '\n')
            return false;
        c = next_char(s);
    } while (is_space(c));
    if (c != '"')
        return false;
    add_key(s, '.');
    while ((c = next_char(s)) != '"') {
        if (c == '\\')
            c = next_char(s);
        if (c == '\n')
            return false;
        add_key(s, c);
    }
    return next_char(s) == ']';
}

/* After the '['. */
static bool read_section(struct gitconfig_parser *s) {
    s->key_len = 0;
    for (;;) {
        int c = next_char(s);

        if (s->eof)
            return false;
        if (c == ']')
            break;
        if (is_space(c)) {
            if (!read_subsection(s, c))
                return false;
            break;
        }
        if (!is_key_char(c) && c != '.')
            return false;
        add_key(s, lower(c));
    }
    add_key(s, '.');
    s->base_len = s->key_len;
    return true;
}

/* What follows a backslash: the byte meant, 0 for a line that goes on, or -1. */
static int unescape(int c) {
    static const char from[] = "tbn\\\"", to[] = "\t\b\n\\\"";
    const char *found = c ? strchr(from, c) : NULL;

    if (c == '\n')
        return 0;
    return found ? to[found - from] : -1;
}

/* After the '='; up to the end of the line. White space inside becomes as many blanks, around it is dropped. */
static bool read_value(struct gitconfig_parser *s) {
    bool quote = false, comment = false;
    size_t space = 0;
    int c;

    s->value_len = 0;
    while ((c = next_char(s)) != '\n') {
        if (comment)
            continue;
        if (is_space(c) && !quote) {
            space += s->value_len > 0;
            continue;
        }
        if (!quote && (c == ';' || c == '#')) {
            comment = true;
            continue;
        }
        for (; space; space--)
            s->value[s->value_len++] = ' ';
        if (c == '"') {
            quote = !quote;
            continue;
        }
        if (c == '\\') {
            c = unescape(next_char(s));
            if (c < 0)
                return false;
            if (c == 0)
                continue;
        }
        s->value[s->value_len++] = (char)c;
    }
    s->value[s->value_len] = 0;
    return !quote;
}

/* A name that begins with c. Returns 1, 0 if the file is broken here, or what the caller's function said. */
static int read_entry(struct gitconfig_parser *s, int c, gitconfig_fn *each, void *arg, struct err *err) {
    unsigned line = s->line;
    const char *value = NULL;
    int r;

    s->key_len = s->base_len;
    add_key(s, lower(c));
    while (is_key_char(c = next_char(s)) && !s->eof)
        add_key(s, lower(c));
    add_key(s, 0);
    while (c == ' ' || c == '\t')
        c = next_char(s);
    if (c != '\n') {
        if (c != '=' || !read_value(s))
            return 0;
        value = s->value;
    }
    r = each(s->key, value, line, arg, err);
    return r < 0 ? r : 1;
}

/* Up to the next section or name; returns its first byte, 0 at the end of the file. */
static int skip(struct gitconfig_parser *s) {
    bool comment = false;

    for (;;) {
        int c = next_char(s);

        if (c == '\n' && s->eof)
            return 0;
        if (c == '\n')
            comment = false;
        else if (!comment && (c == '#' || c == ';'))
            comment = true;
        else if (!comment && !is_space(c))
            return c ? c : 1; /* NUL is no end, only a byte that is not allowed */
    }
}

static bool skip_bom(struct gitconfig_parser *s) {
    static const char bom[] = "\xef\xbb\xbf";
    size_t len = (size_t)(s->end - s->p), n = 0;

    while (n < strlen(bom) && n < len && s->p[n] == bom[n])
        n++;
    s->p += n;
    return n == 0 || n == strlen(bom);
}

static int parse_config(struct gitconfig_parser *s, gitconfig_fn *each, void *arg, struct err *err) {
    int c, r = skip_bom(s);

    while (r > 0 && (c = skip(s)) != 0) {
        if (c == '[')
            r = read_section(s);
        else
            r = is_alpha(c) ? read_entry(s, c, each, arg, err) : 0;
    }
    if (r == 0)
        return err_set(err, -EBADMSG, "git's configuration is broken at line %u", s->line);
    return r < 0 ? r : 0;
}

int gitconfig_parse(const char *data, size_t len, gitconfig_fn *each, void *arg, struct err *err) {
    /* A key is longer than what it is made of by two dots and its NUL. */
    size_t size = len + 4;
    CLEANUP(freep) char *key = NULL;
    CLEANUP(freep) char *value = NULL;
    struct gitconfig_parser s = {.p = data, .end = data + len, .line = 1};

    if (len > GITCONFIG_SIZE_MAX)
        return err_set(err, -EFBIG, "git's configuration is longer than %d bytes", GITCONFIG_SIZE_MAX);
    s.key = key = malloc(size);
    s.value = value = malloc(size);
    if (!key || !value)
        return err_oom(err);
    return parse_config(&s, each, arg, err);
}

bool gitconfig_is(const char *key, const char *section, const char *name) {
    const char *first = strchr(key, '.'), *last = strrchr(key, '.');

    return first && (size_t)(first - key) == strlen(section) && strncmp(key, section, strlen(section)) == 0 &&
           str_eq(last + 1, name);
}

static int note_format(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err UNUSED) {
    bool *sha256 = arg;

    if (str_eq(key, "extensions.objectformat"))
        *sha256 = value && str_eq(value, "sha256");
    return 0;
}

bool gitconfig_is_sha256(const char *data, size_t len) {
    bool sha256 = false;

    gitconfig_parse(data, len, note_format, &sha256, NULL);
    return sha256;
}

void gitconfig_add_quoted(struct buf *b, const char *s, size_t len) {
    buf_addc(b, '"');
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '"' || s[i] == '\\')
            buf_addc(b, '\\');
        if (s[i] == '\n')
            buf_adds(b, "\\n");
        else
            buf_addc(b, s[i]);
    }
    buf_addc(b, '"');
}
