/* SPDX-License-Identifier: Apache-2.0 */
/* Nested values in brackets, as JSON, TOML and YAML have them in common. For the readers of pairs.h. */
#pragma once

#include "review/pairs/pairs.h"

struct flow_style {
    char assign;            /* ':' or '=' */
    bool hash;              /* comments begin with '#', else with two slashes or slash and star */
    bool triple;            /* """ and ''' */
    bool fold;              /* a quoted string goes on in the next line */
    const char *plain_ends; /* a value without quotes ends before these */
};

struct pairs_flow {
    struct pairs *out;
    const struct flow_style *style;
    const char *s; /* s[len] is 0 */
    size_t len, pos;
    unsigned line, depth;
    struct buf key;     /* of the value that is read; names are added and cut off again */
    struct buf scratch; /* the value */
    bool stopped;       /* something was not understood: the rest is left */
};

struct pairs_flow flow_init(struct pairs *out, const struct flow_style *style, const char *s, size_t len);
void flow_done(struct pairs_flow *f);

/* Reads the value at pos, whatever it is, and leaves pos after it. */
void flow_value(struct pairs_flow *f);
/* Reads a name, with or without quotes, and appends it to the key after a step; false: there is none. */
bool flow_name(struct pairs_flow *f, const char *plain_ends);
char flow_blank(struct pairs_flow *f); /* over spaces and tabs only */
void flow_cut(struct pairs_flow *f, size_t key_len);
void flow_rest_of_line(struct pairs_flow *f); /* to the line end, not over it */
void flow_stop(struct pairs_flow *f);
