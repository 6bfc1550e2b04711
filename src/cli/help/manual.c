/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help texts and lookup of verbs. The man page is in manual_roff.c; both walk the same tables.
 */
#include "cli/help/manual.h"

#include <unistd.h>

#include "base/str.h"

enum { WIDTH = 80, INDENT = 2, LABEL_MAX = 26, SUGGEST_MAX = 128, SUGGEST_LEN = 32 };

const struct verb *manual_find(const struct manual *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->verbs[i]->name, name))
            return m->verbs[i];
    return NULL;
}

/* "ls" for the verb "profile ls" of the group "profile"; NULL for a verb that is not in it. */
static const char *word_in_group(const struct verb *v, const char *group) {
    size_t len = strlen(group);

    return str_starts(v->name, group) && v->name[len] == ' ' ? v->name + len + 1 : NULL;
}

bool manual_is_group(const struct manual *m, const char *word) {
    for (size_t i = 0; i < m->n; i++)
        if (word_in_group(m->verbs[i], word))
            return true;
    return false;
}

/* "polcy ls": compared as a whole. "policy lss": with the second words of that group only, whose first word is right. */
bool manual_nearest(const struct manual *m, const char *word, struct buf *b) {
    char text[SUGGEST_MAX][SUGGEST_LEN], group[SUGGEST_LEN];
    const char *names[SUGGEST_MAX], *near, *space = strchr(word, ' ');
    size_t n = 0;
    bool grouped;

    snprintf(group, sizeof group, "%.*s", (int)(space ? space - word : 0), word);
    grouped = space && manual_is_group(m, group);
    for (size_t i = 0; i < m->n && n < SUGGEST_MAX; i++) {
        const char *name = grouped ? word_in_group(m->verbs[i], group) : m->verbs[i]->name;

        if (!name)
            continue;
        snprintf(text[n], sizeof text[n], "%.*s", (int)(space ? strlen(name) : strcspn(name, " ")), name);
        names[n] = text[n];
        n++;
    }
    near = str_nearest(grouped ? space + 1 : word, names, n);
    if (near)
        buf_addf(b, "%s%s%s", grouped ? group : "", grouped ? " " : "", near);
    return near != NULL;
}

bool manual_colours(const char *when) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    if (when && !str_eq(when, "auto"))
        return str_eq(when, "always");
    if (no_color && *no_color) /* https://no-color.org: any value, but not an empty one */
        return false;
    return isatty(STDOUT_FILENO) && term && !str_eq(term, "dumb");
}

void manual_heading(struct buf *b, const char *text, bool colour) {
    buf_addf(b, "%s%s%s%s\n", b->len ? "\n" : "", colour ? "\033[1m" : "", text, colour ? "\033[0m" : "");
}

/* Columns that a text takes: bytes that do not continue a UTF-8 character. */
static size_t columns(const char *s, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* Appends text with breaks at spaces. The first line goes on at column `at`, the others start at `indent`. */
static void wrap(struct buf *b, const char *text, size_t text_len, size_t at, size_t indent) {
    const char *end = text + text_len;
    const char *gap = "";

    while (text < end) {
        size_t len = MIN_OF(strcspn(text, " \n"), (size_t)(end - text)), width = columns(text, len);

        if (*gap && at + 1 + width > WIDTH) {
            buf_addf(b, "\n%*s", (int)indent, "");
            at = indent;
            gap = "";
        }
        buf_adds(b, gap);
        buf_add(b, text, len);
        at += strlen(gap) + width;
        gap = " ";
        text += len;
        text += strspn(text, " \n");
    }
    buf_addc(b, '\n');
}

/* "  label      text", the text on its own line when the label is too long. */
static void row(struct buf *b, const char *label, size_t label_max, const char *text) {
    size_t width = columns(label, strlen(label)), text_at = INDENT + label_max + 2;

    buf_addf(b, "%*s%s", INDENT, "", label);
    if (width > label_max)
        buf_addf(b, "\n%*s", (int)text_at, "");
    else
        buf_addf(b, "%*s", (int)(text_at - INDENT - width), "");
    wrap(b, text, strlen(text), text_at, text_at);
}

bool manual_next_paragraph(struct manual_paragraph *p) {
    const char *end;

    p->next += strspn(p->next, "\n");
    if (!*p->next)
        return false;
    end = strstr(p->next, "\n\n");
    p->text = p->next;
    p->len = end ? (size_t)(end - p->next) : strlen(p->next);
    p->verbatim = p->text[0] == ' ';
    p->next += p->len;
    while (p->len && p->text[p->len - 1] == '\n')
        p->len--;
    return true;
}

static void describe_text(struct buf *b, const char *description) {
    struct manual_paragraph p = {.next = description};

    while (manual_next_paragraph(&p)) {
        buf_addc(b, '\n');
        if (p.verbatim) {
            buf_add(b, p.text, p.len);
            buf_addc(b, '\n');
        } else {
            wrap(b, p.text, p.len, 0, 0);
        }
    }
}

static size_t longest_name(const struct manual *m) {
    size_t longest = 0;

    for (size_t i = 0; i < m->n; i++)
        longest = MAX_OF(longest, strlen(m->verbs[i]->name));
    return MIN_OF(longest, (size_t)LABEL_MAX);
}

void manual_overview(const struct manual *m, const char *group, bool colour, struct buf *b) {
    manual_heading(b, "Usage", colour);
    buf_addf(b, "  bawn %s%sCOMMAND [options] ...\n", group ? group : "", group ? " " : "");
    manual_heading(b, "Commands", colour);
    for (size_t i = 0; i < m->n; i++)
        if (!group || word_in_group(m->verbs[i], group))
            row(b, m->verbs[i]->name, longest_name(m), m->verbs[i]->summary);
    buf_adds(b, "\nMore: 'bawn help COMMAND', and the whole manual with 'bawn help --man | man -l -'.\n");
}

static void option_row(struct buf *b, const struct opt *o) {
    CLEANUP(buf_done) struct buf label = BUF_INIT(256);

    if (o->letter)
        buf_addf(&label, "-%c", o->letter);
    if (o->name)
        buf_addf(&label, "%s--%s", o->letter ? ", " : "    ", o->name);
    if (o->arg)
        buf_addf(&label, "%s%s", o->arg[0] == '[' ? "" : " ", o->arg);
    row(b, buf_str(&label), LABEL_MAX, o->help);
}

void manual_verb(const struct verb *v, bool colour, struct buf *b) {
    manual_heading(b, "Usage", colour);
    buf_addf(b, "  bawn %s%s%s\n", v->name, v->synopsis && *v->synopsis ? " " : "", v->synopsis ? v->synopsis : "");
    buf_addc(b, '\n');
    buf_addc(b, (char)(v->summary[0] >= 'a' && v->summary[0] <= 'z' ? v->summary[0] - 'a' + 'A' : v->summary[0]));
    wrap(b, v->summary + 1, strlen(v->summary + 1), 1, 0);
    if (v->description)
        describe_text(b, v->description);
    manual_heading(b, "Options", colour);
    for (size_t i = 0; i < v->n_opts; i++)
        option_row(b, &v->opts[i]);
    for (size_t i = 0; i < v->n_opts; i++)
        if (v->opts[i].name && str_eq(v->opts[i].name, "help"))
            return;
    row(b, "-h, --help", LABEL_MAX, "this text");
}
