/* SPDX-License-Identifier: Apache-2.0 */
/* Between mux*.c. */
#pragma once

#include "link/mux.h"

enum {
    MUX_BLOCKS = LINK_BYTES_MAX / LINK_BLOCK,
    MUX_BLOCKS_NEW = LINK_WINDOW / LINK_BLOCK + 1, /* one more than the bytes need: the first one is partly passed on */
    MUX_BLOCKS_GROWN = LINK_WINDOW_MAX / LINK_BLOCK + 1,
    MUX_GROWN_MAX = (MUX_BLOCKS - LINK_CHANNELS * MUX_BLOCKS_NEW) / (MUX_BLOCKS_GROWN - MUX_BLOCKS_NEW),
    MUX_NONE = 0xffff
};

/* mux_in.c: parses what has come. */
int mux_parse(struct mux *m);
/* mux_out.c: makes frames, if the last ones are written; writes them. */
void mux_fill(struct mux *m);
void mux_flush(struct mux *m);
void mux_bye(struct mux *m, const char *why);
void mux_hello(struct mux *m);
/* mux_chan.c */
struct chan *chan_use(struct mux *m, uint16_t id, const struct link_open *o, bool ours);
void chan_free(struct mux *m, struct chan *c);
void chan_receive(struct mux *m, struct chan *c, const uint8_t *bytes, size_t len);
void chan_drain(struct mux *m, struct chan *c);                         /* what is queued, to wfd */
long chan_read(struct mux *m, struct chan *c, uint8_t *to, size_t max); /* 0: nothing now, or no more */
void chan_close_read(struct chan *c);
void chan_received_end(struct mux *m, struct chan *c, uint32_t error);
bool chan_reads(const struct chan *c); /* there is something to wait for at rfd */
bool chan_is_message(enum link_kind kind);
