/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as text and as JSON. */
#include "base/record.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strv.h"

enum { CELL_MAX = 64 * 1024, GAP = 2 };

/* -- values ------------------------------------------------------------------------------------------------------------- */

/* Of the kinds that are text. */
static const char *text_of(const struct column *c, const void *at) {
    if (c->kind == COLUMN_ENUM)
        return c->names[*(const int *)at];
    return c->kind == COLUMN_CHARS ? at : *(const char *const *)at;
}

static bool is_text(const struct column *c) {
    return c->kind == COLUMN_TEXT || c->kind == COLUMN_CHARS || c->kind == COLUMN_ENUM;
}

/* Of the other kinds but COLUMN_NONE; of a list: how many. */
static uint64_t number_of(const struct column *c, const void *at) {
    if (c->kind == COLUMN_LIST)
        return ((const struct strv *)at)->len;
    if (c->kind == COLUMN_BOOL)
        return *(const bool *)at;
    if (c->kind == COLUMN_INT)
        return (uint64_t) * (const int *)at;
    return c->kind == COLUMN_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static bool is_empty(const struct column *c, const void *at) {
    const char *text = is_text(c) ? text_of(c, at) : NULL;

    if (c->kind == COLUMN_NONE)
        return false;
    return is_text(c) ? !text || !*text : number_of(c, at) == 0;
}

/* -- text --------------------------------------------------------------------------------------------------------------- */

static void add_list_cell(const struct strv *list, struct buf *cell) {
    for (size_t i = 0; i < list->len; i++) {
        buf_adds(cell, i ? "," : "");
        buf_add_printable(cell, list->v[i]);
    }
}

static void add_value(const struct column *c, const void *at, struct buf *cell) {
    const char *text = is_text(c) ? text_of(c, at) : NULL;
    char shown[24];

    if (is_text(c)) {
        buf_add_printable(cell, text ? text : "");
    } else if (c->kind == COLUMN_LIST) {
        add_list_cell(at, cell);
    } else if (c->kind == COLUMN_BOOL) {
        buf_adds(cell, *(const bool *)at ? "yes" : "no");
    } else if (c->kind == COLUMN_SIZE || c->kind == COLUMN_TIME) {
        (c->kind == COLUMN_SIZE ? format_size : format_time)(*(const uint64_t *)at, shown);
        buf_adds(cell, shown);
    } else if (c->kind != COLUMN_NONE) {
        buf_addf(cell, c->kind == COLUMN_INT ? "%" PRIi64 : "%" PRIu64, number_of(c, at));
    }
}

static void add_cell(const struct column *c, const void *row, bool colours, struct buf *cell) {
    const void *at = (const char *)row + c->offset;
    const char *colour = colours && c->colour ? c->colour(row) : "";

    buf_adds(cell, colour);
    if (c->none && is_empty(c, at))
        buf_adds(cell, c->none);
    else if (c->text)
        c->text(row, cell);
    else
        add_value(c, at, cell);
    buf_adds(cell, *colour ? "\033[0m" : "");
}

/* Width on a terminal, near enough: one for each character of UTF-8. The only escape sequences are our own colours. */
static int width_of(const char *s) {
    int n = 0;

    for (; *s; s++) {
        if (*s == '\033')
            s += strcspn(s, "m");
        else
            n += (*s & 0xc0) != 0x80;
    }
    return n;
}

/* widths: as those of struct column, grown to what the cells need. */
static void add_cells(const struct strv *cells, size_t columns, int *widths, struct buf *out) {
    for (size_t i = 0; i < cells->len; i++) {
        int *width = &widths[i % columns], n = width_of(cells->v[i]);

        *width = *width < 0 ? MIN_OF(*width, -n) : MAX_OF(*width, n);
    }
    for (size_t i = 0; i < cells->len; i++) {
        bool last = i % columns == columns - 1, right = widths[i % columns] < 0;
        int pad = abs(widths[i % columns]) - width_of(cells->v[i]);

        buf_addf(out, "%*s%s", right ? pad : 0, "", cells->v[i]);
        buf_addf(out, "%*s%s", last ? 0 : GAP + (right ? 0 : pad), "", last ? "\n" : "");
    }
}

void record_cells(const struct strv *cells, size_t columns, struct buf *out) {
    int widths[RECORD_COLUMNS_MAX] = {0};

    assert(columns <= RECORD_COLUMNS_MAX);
    add_cells(cells, columns, widths, out);
}

static int add_row(const struct record_kind *k, const void *row, bool colours, struct strv *cells) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < k->n; i++) {
        CLEANUP(buf_done) struct buf cell = BUF_INIT(CELL_MAX);

        if (!k->v[i].title)
            continue;
        if (row)
            add_cell(&k->v[i], row, colours, &cell);
        else
            buf_adds(&cell, k->v[i].title);
        r = strv_add(cells, buf_str(&cell));
    }
    return r;
}

void record_table(const struct record_kind *k, const void *rows, size_t n, bool colours, struct buf *out) {
    CLEANUP(strv_done) struct strv cells = {0};
    int widths[RECORD_COLUMNS_MAX] = {0}, r = k->no_heading ? 0 : add_row(k, NULL, false, &cells);
    size_t columns = 0;

    for (size_t i = 0; i < k->n; i++)
        if (k->v[i].title) {
            assert(columns < RECORD_COLUMNS_MAX);
            widths[columns++] = k->v[i].width;
        }
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_row(k, (const char *)rows + i * k->row_size, colours, &cells);
    if (r < 0)
        out->failed = true;
    else
        add_cells(&cells, columns, widths, out);
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

static void add_member(const struct column *c, const void *at, struct jsonout *j) {
    if (is_text(c))
        jsonout_text(j, c->key, text_of(c, at));
    else if (c->kind == COLUMN_LIST)
        jsonout_list(j, c->key, at);
    else if (c->kind == COLUMN_BOOL)
        jsonout_bool(j, c->key, *(const bool *)at);
    else if (c->kind == COLUMN_TIME)
        jsonout_time(j, c->key, *(const uint64_t *)at);
    else if (c->kind == COLUMN_INT)
        jsonout_int(j, c->key, *(const int *)at);
    else if (c->kind != COLUMN_NONE)
        jsonout_u64(j, c->key, number_of(c, at));
}

void record_members(const struct record_kind *k, const void *row, struct jsonout *j) {
    for (size_t i = 0; i < k->n; i++) {
        const struct column *c = &k->v[i];
        const void *at = (const char *)row + c->offset;
        bool empty = is_empty(c, at);

        if (!c->key || (empty && c->empty == COLUMN_OMIT))
            continue;
        if (empty && c->empty == COLUMN_NULL)
            jsonout_null(j, c->key);
        else if (c->json)
            c->json(row, c->key, j);
        else
            add_member(c, at, j);
    }
}

void record_array(const struct record_kind *k, const void *rows, size_t n, const char *key, enum record_layout layout,
                  struct jsonout *j) {
    static const char *const space[] = {[RECORD_INLINE] = NULL, [RECORD_BETWEEN] = "\n ", [RECORD_LINES] = "\n  "};

    jsonout_open(j, key, '[');
    for (size_t i = 0; i < n; i++) {
        if (space[layout] && (i || layout == RECORD_LINES))
            jsonout_break(j, space[layout]);
        jsonout_open(j, NULL, '{');
        record_members(k, (const char *)rows + i * k->row_size, j);
        jsonout_close(j, '}');
    }
    if (n && layout == RECORD_LINES)
        buf_addc(j->to, '\n');
    jsonout_close(j, ']');
}
