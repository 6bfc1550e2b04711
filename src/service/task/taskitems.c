/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn-task --items HOW LIMIT PROGRAM ARG...`: what the program prints, as {"items": [...]} of the API. As the tenant, so that bawnd parses none
 * of it. HOW is the member of an object that has the list, or "lines": a JSON object on each line, the last first.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "service/task/taskfiles_priv.h"

enum { ITEMS_MAX = 64 * 1024 * 1024 };

static int take_lines(const struct buf *text, uint64_t limit, json_t *items) {
    const char *end = buf_str(text) + text->len;

    while (end > text->data && json_array_size(items) < limit) {
        const char *from = text->len ? memrchr(text->data, '\n', (size_t)(end - 1 - text->data)) : NULL;
        json_t *one;

        from = from ? from + 1 : text->data;
        one = json_loadb(from, (size_t)(end - from), JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, NULL);
        if (one && json_array_append_new(items, one) < 0)
            return -ENOMEM;
        end = from;
    }
    return 0;
}

static int take_member(const struct buf *text, const char *member, uint64_t limit, json_t *items) {
    json_t *root = json_loadb(buf_str(text), text->len, JSON_REJECT_DUPLICATES, NULL);
    json_t *list = json_is_array(root) ? root : json_object_get(root, member);
    size_t n = json_array_size(list);
    int r = json_is_array(list) ? 0 : -EBADMSG;

    for (size_t i = 0; i < MIN_OF(n, limit); i++)
        json_array_append(items, json_array_get(list, i));
    json_decref(root);
    return r;
}

static int print_items(json_t *items) {
    json_t *root = json_pack("{s:O}", "items", items);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    int r = text ? fd_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;

    free(text);
    json_decref(root);
    return r;
}

/* args: HOW LIMIT PROGRAM ARG... */
int taskfiles_items(char **args, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(ITEMS_MAX);
    CLEANUP(buf_done) struct buf said = BUF_INIT(16 * 1024);
    const struct spawn s = {.path = args[2], .argv = args + 2, .envp = environ};
    json_t *items = json_array();
    uint64_t limit;
    int r = parse_u64(args[1], 1, 1000000, &limit, err);

    if (r < 0 || !items)
        return r < 0 ? r : err_oom(err);
    r = spawn_collect(&s, &text, &said);
    if (r == 0)
        r = str_eq(args[0], "lines") ? take_lines(&text, limit, items) : take_member(&text, args[0], limit, items);
    else
        r = r > 0 ? err_set(err, -EIO, "%s", buf_str(&said)[0] ? buf_str(&said) : "it failed") : r;
    r = r < 0 ? r : print_items(items);
    json_decref(items);
    return r < 0 && !err->msg[0] ? err_sys(err, r, "list what there is") : r;
}
