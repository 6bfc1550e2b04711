/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task printed, as one line of the table: UTF-8 without control characters and not wider than its place. And files of tasks: what is
 * accepted has tasks with names that can name a sandbox, each once, and a command or an agent.
 */
#include "base/err.h"
#include "base/str.h"
#include "cli/run/batch_table.h"
#include "registry/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COLUMNS = 40 };

static void check_line(const char *text, size_t size) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(4 * COLUMNS);
    const char *s;
    size_t columns = 0;

    batch_last_line(text, size, COLUMNS, &line);
    s = buf_str(&line);
    if (!buf_ok(&line) || strlen(s) != line.len || !str_is_utf8(s))
        BUG("not a string of UTF-8");
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            BUG("a control character");
        columns += ((unsigned char)*s & 0xc0) != 0x80;
    }
    if (columns > COLUMNS || strstr(buf_str(&line), "\xe2\x80\xae") || strstr(buf_str(&line), "\xc2\x9b"))
        BUG("too wide, or deceptive");
}

static void check_tasks(const char *text, size_t size) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct err err = {0};

    if (batch_parse(&b, "fuzz", text, size, &err) < 0)
        return;
    if (!b.n)
        BUG("a file without tasks");
    for (size_t i = 0; i < b.n; i++)
        if (box_check_name(b.v[i].name, &err) < 0 || batch_find(&b, b.v[i].name) != &b.v[i] ||
            (!b.v[i].command.len && !b.v[i].agent))
            BUG("a task that cannot be run");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(freep) char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    check_line(text, size);
    check_tasks(text, size);
    return 0;
}
