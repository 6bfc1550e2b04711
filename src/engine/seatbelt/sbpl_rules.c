/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From rules in the syntax of .gitignore to denials of a profile.
 *
 * Each pattern that excludes becomes one denial, of the path itself and of what is below. "!pattern" after it takes out the path itself; what is below only
 * if it is the same pattern, as in "NAME, !NAME/". A regular expression cannot say that a folder was excluded first, so
 * in any other case more is denied than git would exclude, never less.
 *
 * A pattern with several parts would be escaped by renaming a folder on its way: these folders cannot be moved or removed.
 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/seatbelt/sbpl.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/ignore_glob.h"

struct sbpl_rule {
    bool negative, dir_only;
    char *text;       /* the pattern without '!' and '/' around it */
    char *name;       /* the last part, if that has no wildcard; else NULL */
    bool path;        /* else it is a name, at any depth */
    struct buf regex; /* of the path below the file's folder, without anchors */
    struct strv ways; /* the same of each folder on the way */
    struct strv deep; /* the same of any folder that "**" may stand for */
};

struct sbpl_rules {
    struct sbpl_rule *v;
    size_t n;
};

static void rules_done(struct sbpl_rules *s) {
    for (size_t i = 0; i < s->n; i++) {
        free(s->v[i].text);
        free(s->v[i].name);
        buf_done(&s->v[i].regex);
        strv_done(&s->v[i].ways);
        strv_done(&s->v[i].deep);
    }
    free(s->v);
}

/* -- regular expressions ---------------------------------------------------------------------------------------------------- */

static bool is_letter(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* loose: in every spelling. What takes something out of a denial is never loose. */
static void add_byte(struct buf *out, unsigned char c, bool loose) {
    if (loose && is_letter(c))
        buf_addf(out, "[%c%c]", c | 0x20, c & ~0x20);
    else if (c < 0x80 && strchr(".[](){}*+?^$|\\", c))
        buf_addf(out, "\\%c", c);
    else
        buf_addc(out, (char)c);
}

static void add_plain(struct buf *out, const char *text) {
    for (; *text; text++)
        add_byte(out, (unsigned char)*text, false);
}

static bool set_has(const struct glob_set *s, unsigned c) {
    return s->bits[c / 64] >> c % 64 & 1;
}

/* Alternatives, because a bracket has rules of its own about ']', '^' and '-'. Bytes that are no ASCII: any character. */
static void add_class(struct buf *out, const struct glob_set *s, bool loose) {
    bool more = false;

    for (unsigned c = 0x80; loose && c < 0x100; c++)
        if (set_has(s, c)) {
            buf_adds(out, "[^/]");
            return;
        }
    buf_addc(out, '(');
    for (unsigned c = 1; c < 0x80; c++)
        if (set_has(s, c) && c != '/') {
            buf_adds(out, more ? "|" : "");
            add_byte(out, (unsigned char)c, loose);
            more = true;
        }
    buf_addc(out, ')');
}

static void add_token(struct buf *out, const struct ignore_glob *g, const struct glob_token *t, bool loose) {
    switch ((enum glob_kind)t->kind) {
    case GLOB_BYTE:
        add_byte(out, t->byte, loose);
        break;
    case GLOB_ANY:
        buf_adds(out, loose ? "[^/]" : "[ -.0-~]"); /* one byte, which is no part of a longer character */
        break;
    case GLOB_CLASS:
        add_class(out, &g->sets[t->set], loose);
        break;
    case GLOB_STAR:
        buf_adds(out, "[^/]*");
        break;
    case GLOB_DEEP:
        buf_adds(out, ".*");
        break;
    case GLOB_FOLDERS:
        buf_adds(out, "(.*/)?");
        break;
    }
}

/* -ENOMEM; *ret is NULL if a wildcard is in it. */
static int last_name(const struct ignore_glob *g, char **ret) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(IGNORE_LINE_MAX);

    for (size_t i = 0; i < g->n; i++) {
        const struct glob_token *t = &g->tokens[i];
        bool ends = t->kind == GLOB_FOLDERS || (t->kind == GLOB_BYTE && t->byte == '/');

        if (ends)
            buf_clear(&name);
        else if (t->kind != GLOB_BYTE)
            return 0;
        else
            buf_addc(&name, (char)t->byte);
    }
    *ret = buf_take(&name);
    return *ret ? 0 : -ENOMEM;
}

static int add_glob(const struct ignore_glob *g, struct sbpl_rule *r) {
    for (size_t i = 0; i < g->n; i++) {
        const struct glob_token *t = &g->tokens[i];
        bool wide = i > 0 && (t->kind == GLOB_FOLDERS || t->kind == GLOB_DEEP);

        if (t->kind == GLOB_BYTE && t->byte == '/' && strv_add(&r->ways, buf_str(&r->regex)) < 0)
            return -ENOMEM;
        if (wide && strv_add(&r->deep, buf_str(&r->regex)) < 0)
            return -ENOMEM;
        add_token(&r->regex, g, t, !r->negative);
    }
    return buf_ok(&r->regex) ? last_name(g, &r->name) : -ENOMEM;
}

/* -- the lines of a file ---------------------------------------------------------------------------------------------------- */

static size_t trimmed(const char *s, size_t len) {
    if (len && s[len - 1] == '\r')
        len--;
    while (len && s[len - 1] == ' ' && !(len > 1 && s[len - 2] == '\\'))
        len--;
    return len;
}

/* The same reading as in ignore_list.c, which tests/integration/test_seatbelt.py compares. */
static int take_line(struct sbpl_rules *s, const char *line, size_t len) {
    struct ignore_glob g = {0};
    struct sbpl_rule r = {.regex = BUF_INIT(SBPL_MAX)};
    int made;

    len = trimmed(line, len);
    if (len == 0 || *line == '#')
        return 0;
    r.negative = *line == '!';
    line += r.negative;
    len -= r.negative;
    r.dir_only = len && line[len - 1] == '/';
    len -= r.dir_only;
    r.path = memchr(line, '/', len);
    if (r.path && *line == '/') {
        line++;
        len--;
    }
    made = len ? glob_compile(line, len, r.path, &g) : 0;
    r.text = made > 0 ? strndup(line, len) : NULL;
    made = made <= 0 ? made : r.text ? add_glob(&g, &r) : -ENOMEM;
    glob_done(&g);
    if (r.text && made == 0 && VEC_ADD(s->v, s->n, r) == 0)
        return 0;
    free(r.text);
    free(r.name);
    buf_done(&r.regex);
    strv_done(&r.ways);
    strv_done(&r.deep);
    return r.text ? -ENOMEM : made;
}

static int read_source(const struct ignore_source *src, struct sbpl_rules *ret) {
    const char *s = src->data, *end = s + src->len;
    int r = 0;

    if (src->len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
        s += 3;
    while (r == 0 && s < end) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));

        stop = stop ? stop : end;
        r = take_line(ret, s, (size_t)(stop - s));
        s = stop + 1;
    }
    return r;
}

/* -- denials ---------------------------------------------------------------------------------------------------------------- */

struct rules_out {
    struct buf *out;
    char *base; /* "^/real/workspace/dir/" as an expression */
    enum sbpl_what what;
    struct strv ways; /* that are denied already */
};

static void add_regex(struct rules_out *o, const struct sbpl_rule *r, const char *regex, const char *end) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(SBPL_MAX);

    buf_addf(&text, "%s%s%s%s", o->base, r->path ? "" : "(.*/)?", regex, end);
    o->out->failed |= !buf_ok(&text);
    buf_adds(o->out, "(regex ");
    sbpl_quote(o->out, buf_str(&text));
    buf_addc(o->out, ')');
}

/* Not if no path has both names at its end. */
static bool is_exception(const struct sbpl_rule *n, const struct sbpl_rule *of) {
    return n->negative && !(n->name && of->name && strcasecmp(n->name, of->name) != 0);
}

static void add_exceptions(struct rules_out *o, const struct sbpl_rules *s, size_t at) {
    for (size_t i = at + 1; i < s->n; i++) {
        const struct sbpl_rule *n = &s->v[i];

        if (!is_exception(n, &s->v[at]))
            continue;
        buf_adds(o->out, "\n    (require-not ");
        buf_adds(o->out, n->dir_only ? "(require-all (vnode-type DIRECTORY) " : "");
        add_regex(o, n, buf_str(&n->regex), "$");
        buf_adds(o->out, n->dir_only ? "))" : ")");
    }
}

/* A later "!" of the same pattern lets in what is below. */
static bool is_taken_back(const struct sbpl_rules *s, size_t at) {
    for (size_t i = at + 1; i < s->n; i++)
        if (s->v[i].negative && s->v[i].path == s->v[at].path && str_eq(s->v[i].text, s->v[at].text))
            return true;
    return false;
}

static const char *const denied_ops[] = {
    [SBPL_HIDE] = "file-read* file-write* file-link process-exec*", [SBPL_PROTECT] = "file-write* file-link"};

static bool has_exceptions(const struct sbpl_rules *s, size_t at) {
    for (size_t i = at + 1; i < s->n; i++)
        if (is_exception(&s->v[i], &s->v[at]))
            return true;
    return false;
}

static void add_denial(struct rules_out *o, const struct sbpl_rules *s, size_t at) {
    const struct sbpl_rule *r = &s->v[at];
    bool exceptions = has_exceptions(s, at);

    buf_addf(o->out, "(deny %s ", denied_ops[o->what]);
    buf_adds(o->out, exceptions ? "(require-all " : "");
    add_regex(o, r, buf_str(&r->regex), exceptions ? "$" : "(/|$)");
    add_exceptions(o, s, at);
    buf_adds(o->out, exceptions ? "))\n" : ")\n");
    if (exceptions && !is_taken_back(s, at)) {
        buf_addf(o->out, "(deny %s ", denied_ops[o->what]);
        add_regex(o, r, buf_str(&r->regex), "/");
        buf_adds(o->out, ")\n");
    }
}

/* The same folder is on the way of many rules. */
static bool is_new_way(struct rules_out *o, const struct sbpl_rule *r, const char *way) {
    CLEANUP(freep) char *line = str_dupf("%c%s", r->path ? '/' : '.', way);

    if (!line || strv_has(&o->ways, line))
        return !line;
    o->out->failed |= strv_add(&o->ways, line) < 0;
    return true;
}

static void add_rule(struct rules_out *o, const struct sbpl_rules *s, size_t at) {
    const struct sbpl_rule *r = &s->v[at];

    add_denial(o, s, at);
    for (size_t i = 0; i < r->ways.len; i++) {
        if (!is_new_way(o, r, r->ways.v[i]))
            continue;
        buf_adds(o->out, "(deny file-write-unlink ");
        add_regex(o, r, r->ways.v[i], "$");
        buf_adds(o->out, ")\n");
    }
    for (size_t i = 0; i < r->deep.len; i++) {
        buf_adds(o->out, "(deny file-write-unlink (require-all (vnode-type DIRECTORY) ");
        add_regex(o, r, r->deep.v[i], ".*$");
        buf_adds(o->out, "))\n");
    }
}

/* Moved, the folder of the rules would leave them behind. */
static void add_folders(struct buf *out, const char *workspace, const char *dir) {
    for (const char *slash = *dir ? strchrnul(dir, '/') : NULL; slash; slash = *slash ? strchrnul(slash + 1, '/') : NULL) {
        CLEANUP(freep) char *up = str_dupf("%s/%.*s", workspace, (int)(slash - dir), dir);

        out->failed |= !up;
        buf_adds(out, "(deny file-write-unlink (literal ");
        sbpl_quote(out, up ? up : "");
        buf_adds(out, "))\n");
    }
}

static char *make_base(const char *workspace, const char *dir) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SBPL_MAX);

    buf_addc(&b, '^');
    add_plain(&b, workspace);
    buf_addc(&b, '/');
    if (*dir) {
        add_plain(&b, dir);
        buf_addc(&b, '/');
    }
    return buf_take(&b);
}

int sbpl_add_rules(const struct ignore *rules, const char *workspace, enum sbpl_what what, struct buf *out, struct err *err) {
    const struct ignore_source *src;

    for (size_t i = 0; rules && (src = ignore_source(rules, i)); i++) {
        CLEANUP(rules_done) struct sbpl_rules s = {0};
        CLEANUP(freep) char *base = make_base(workspace, src->dir);
        struct rules_out o = {.out = out, .base = base, .what = what};

        if (!base || read_source(src, &s) < 0)
            return err_oom(err);
        add_folders(out, workspace, src->dir);
        for (size_t k = 0; k < s.n; k++)
            if (!s.v[k].negative)
                add_rule(&o, &s, k);
        strv_done(&o.ways);
    }
    return buf_ok(out) ? 0 : err_oom(err);
}
