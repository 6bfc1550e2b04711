/* SPDX-License-Identifier: Apache-2.0 */
/* What bawnd reads from its front and the front from bawnd: first byte: direction; then a packet. The body of a REQUEST is its fields. */
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fields(const struct api_msg *m) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf again = BUF_INIT(API_BODY_MAX);
    const struct api_route *r = api_route_of(m->value);
    struct api_fault fault;

    if (!r || api_fields_read(&f, m->body, m->len) < 0)
        return;
    if (api_fields_check(&f, r, &fault) == 0) {
        for (size_t i = 0; i < f.n; i++)
            if (!api_field_get(&f, f.v[i].field, 0) || f.v[i].field >= API_FIELDS)
                BUG("a field that is not there");
        for (size_t i = 0; i < api_field_count(&f, API_FIELD_ENV); i++)
            if (r->op == API_OP_RUN_CREATE && !api_field_key(&f, API_FIELD_ENV, i))
                BUG("a variable without a name");
    } else if (!fault.problem) {
        BUG("a fault without words");
    }
    if (api_fields_write(&f, &again) < 0 || again.len != m->len || (m->len && memcmp(again.data, m->body, m->len) != 0))
        BUG("writing does not undo reading");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct api_msg m = {0};
    struct err err = {0};
    int fds[API_FDS_MAX];
    size_t n_fds = size ? data[0] >> 1 & 3 : 0;

    if (size < 1)
        return 0;
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (api_msg_unpack((const char *)data + 1, size - 1, fds, n_fds, data[0] & 1, &m, &err) != 1)
        return 0;
    if (m.len > API_INLINE_MAX || m.body[m.len] != 0 || m.n_fds != n_fds)
        BUG("a body that did not come");
    if (m.kind == API_REQUEST)
        check_fields(&m);
    for (size_t i = 0; i < 5; i++)
        if (strlen(api_msg_text(&m, i)) > m.len)
            BUG("a text that did not come");
    api_msg_done(&m);
    return 0;
}
