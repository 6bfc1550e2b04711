/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a client of `bawn mcp`. Must hold: however the bytes are cut, the same messages and errors come, and each error is one line. */
#include "base/str.h"
#include "mcp/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_message(void *arg, const struct rpc_message *m) {
    struct buf *seen = arg;

    if (!m->method || (m->params && !json_is_object(m->params)))
        BUG("not a message");
    rpc_begin_answer(seen, m->id, "result");
    rpc_add_text(seen, m->method, strlen(m->method));
    buf_adds(seen, "}\n");
}

static void on_refuse(void *arg, const json_t *id, enum rpc_code code, const char *why) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(1 << 20);
    struct buf *seen = arg;
    json_t *back;

    rpc_add_error(&line, id, code, why);
    back = json_loadb(buf_str(&line), line.len, JSON_REJECT_DUPLICATES, NULL);
    if (!back || memchr(line.data, '\n', line.len) != line.data + line.len - 1)
        BUG("an error that is not one line of JSON");
    json_decref(back);
    buf_add(seen, line.data, line.len);
}

static void feed_all(const uint8_t *data, size_t size, size_t step, struct buf *seen) {
    struct rpc_reader r = RPC_READER_INIT;

    r.message = on_message;
    r.refuse = on_refuse;
    r.arg = seen;
    for (size_t at = 0; at < size; at += step)
        rpc_feed(&r, (const char *)data + at, MIN_OF(step, size - at));
    rpc_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf once = BUF_INIT(64 << 20), again = BUF_INIT(64 << 20);
    CLEANUP(buf_done) struct buf text = BUF_INIT(64 << 20);
    json_t *back;

    feed_all(data, size, size + 1, &once);
    feed_all(data, size, 3, &again);
    if (once.len != again.len || memcmp(buf_str(&once), buf_str(&again), once.len) != 0)
        BUG("it matters how the bytes are cut");
    rpc_add_text(&text, (const char *)data, size);
    back = json_loadb(buf_str(&text), text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_string(back) || memchr(buf_str(&text), '\n', text.len))
        BUG("not a string");
    json_decref(back);
    return 0;
}
