/* SPDX-License-Identifier: Apache-2.0 */
/* Containers that nothing belongs to any more: found by their label, and removed. */
#include <errno.h>

#include "base/str.h"
#include "engine/container/container_box.h"
#include "os/process.h"

enum { RM_WORDS = 4, IDS_MAX = 64 * 1024, SAID_MAX = 16 * 1024 };

/* label NULL: those whose supervisor is dead; else that one's. */
static bool is_stale(const char *of, const char *label, bool remote) {
    unsigned long long start;
    int pid;

    if (label)
        return str_eq(of, label);
    return container_label_parse(of, remote, &pid, &start) == 0 && process_is_dead(pid, start);
}

static int add_ids(char *lines, const char *label, bool remote, struct strv *ret) {
    for (char *line = lines; line && *line;) {
        char *end = strchr(line, '\n'), *of = strchr(line, ' ');

        if (end)
            *end = 0;
        if (of && is_stale(of + 1, label, remote) && strv_addf(ret, "%.*s", (int)(of - line), line) < 0)
            return -ENOMEM;
        line = end ? end + 1 : NULL;
    }
    return 0;
}

static int list_stale(const struct container_box *b, const char *label, struct strv *ret) {
    CLEANUP(buf_done) struct buf ids = BUF_INIT(IDS_MAX), said = BUF_INIT(SAID_MAX);
    char *const list[] = {
        (char *)(uintptr_t)b->kind->program,      "ps", "--all", "--filter", ("label=" CONTAINER_LABEL), "--format",
        (char *)(uintptr_t)b->kind->label_format, NULL};
    int r = container_call(&b->cli, list, NULL, &ids, &said);

    return r != 0 ? r : add_ids(ids.data, label, b->remote, ret);
}

int container_remove(const struct container_box *b, const char *label) {
    CLEANUP(strv_done) struct strv rm = {0}, left = {0};
    CLEANUP(buf_done) struct buf said = BUF_INIT(SAID_MAX);
    int r;

    if (!b->kind->label_format) /* it died with its supervisor, or is found otherwise */
        return 0;
    if (strv_add(&rm, b->kind->program) < 0 || strv_add(&rm, "rm") < 0 || strv_add(&rm, "--force") < 0 ||
        strv_add(&rm, "--volumes") < 0)
        return -ENOMEM;
    r = list_stale(b, label, &rm);
    if (r != 0 || rm.len == RM_WORDS)
        return r;
    container_call(&b->cli, rm.v, NULL, NULL, &said); /* fails where another run removes one, too */
    r = list_stale(b, label, &left);
    return r != 0 ? r : left.len ? -EBUSY : 0;
}
