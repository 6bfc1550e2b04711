/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a client that is refused: more of them never change what it was taken for, and each kind has its answer. */
#include "base/buf.h"
#include "gateway/flow/refuse_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(enum wire wire) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    wire_refuse(wire, "Bawn denied a.example:1", &b);
    if (!buf_ok(&b) || b.len == 0)
        BUG("no answer");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* of exactly that size */
    enum wire before = WIRE_MORE, wire = WIRE_MORE;

    if (!exact)
        return 0;
    for (size_t n = 0; n <= size && n <= 16; n++) {
        memcpy(exact, data, n);
        wire = wire_of_bytes(exact, n);
        if (wire >= WIRES || (before != WIRE_MORE && wire != before))
            BUG("another protocol with more bytes");
        before = wire;
    }
    if (size > 16 && wire == WIRE_MORE)
        BUG("never enough");
    if (wire != WIRE_MORE && wire != WIRE_NONE)
        check_answer(wire);
    if (size >= 2)
        wire_of_port((uint16_t)(data[0] << 8 | data[1]));
    free(exact);
    return 0;
}
