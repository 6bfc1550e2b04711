/* SPDX-License-Identifier: Apache-2.0 */
/* TOML by lines: tables, dotted keys, values in brackets that go on over lines. */
#include "review/pairs/pairs_flow.h"

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
