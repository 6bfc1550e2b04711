/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's reader, with the input as records and as the body of one whose length and checksum are right. Must hold: no
 * path that comes out can leave the workspace, and a record that is read is written back as the same bytes.
 */
#include "workspace/run/journal_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t check_record(const char *data, size_t len) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(JOURNAL_RECORD_MAX + 64);
    struct journal_entry e;
    enum journal_form form;
    size_t used = journal_decode(data, len, &e, &form);

    if (used == 0)
        return 0;
    if (used > len || !journal_is_path(e.path, strlen(e.path)) || (e.kind == JOURNAL_LINK) != (e.link != NULL))
        BUG("a record that cannot be");
    journal_encode(&e, form, &again);
    if (again.len != used || memcmp(again.data, data, used) != 0)
        BUG("not what was read");
    return used;
}

/* For little-endian machines. */
static void check_body(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(JOURNAL_RECORD_MAX + 64);
    uint32_t head[2] = {(uint32_t)size, journal_checksum((const char *)data, size)};

    buf_add(&b, head, sizeof head);
    buf_add(&b, data, size);
    if (buf_ok(&b))
        check_record(b.data, b.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t at = 0, used;

    while ((used = check_record((const char *)data + at, size - at)) > 0)
        at += used;
    check_body(data, size);
    return 0;
}
