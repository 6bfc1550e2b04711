/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of an agent out of the fields of a request. */
#include "service/task/tasksetup.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "os/fd.h"
#include "service/task/taskreq.h"

enum { SERVER_MAX = 32 * 1024 * 1024 };

/* jansson takes no text that is not UTF-8. */
static int set_text(json_t *to, const char *key, const char *text, size_t len) {
    return json_object_set_new(to, key, json_stringn(text, len)) < 0 ? -EBADMSG : 0;
}

/* A pair of a map: key NUL value. A server's value is an object, as the front wrote it. */
static int set_pair(json_t *to, const struct taskreq_field *f, bool object) {
    CLEANUP(json_decrefp) json_t *server = NULL;
    struct err ignored = {0};
    size_t key = strnlen(f->data, f->len);

    if (key == f->len)
        return -EBADMSG;
    if (!object)
        return set_text(to, f->data, f->data + key + 1, f->len - key - 1);
    if (json_parse_object(f->data + key + 1, f->len - key - 1, SERVER_MAX, &server, &ignored) < 0)
        return -EBADMSG;
    return json_object_set(to, f->data, server) < 0 ? -EBADMSG : 0;
}

/* The object of this name, made if there is none. */
static json_t *member_of(json_t *root, const char *name) {
    if (!json_object_get(root, name) && json_object_set_new(root, name, json_object()) < 0)
        return NULL;
    return json_object_get(root, name);
}

static int add_field(json_t *root, const struct taskreq_field *f) {
    static const char *const maps[] = {"skills", "mcp_servers"};
    const char *name = str_starts(f->name, "agent.") ? f->name + strlen("agent.") : "";

    if (str_eq(name, "instructions"))
        return set_text(root, name, f->data, f->len);
    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        if (str_eq(name, maps[i])) {
            json_t *to = member_of(root, name);

            return to ? set_pair(to, f, i == 1) : -ENOMEM;
        }
    return 0;
}

int tasksetup_open(const struct buf *request, struct err *err) {
    CLEANUP(json_decrefp) json_t *root = json_object();
    CLEANUP(freep) char *text = NULL;
    struct taskreq_field f;
    size_t at = 0;
    int r = root ? 0 : -ENOMEM, more = 0;

    while (r >= 0 && (more = taskreq_next(request, &at, &f)) > 0)
        r = add_field(root, &f);
    r = r < 0 ? r : more;
    if (r < 0)
        return err_sys(err, r, "read the agent's setup in the request");
    if (json_object_size(root) == 0)
        return -ENOENT;
    text = json_dumps(root, JSON_INDENT(1));
    r = text ? fd_memory("agent-setup", text, strlen(text)) : -ENOMEM;
    return r < 0 ? err_sys(err, r, "write the agent's setup") : r;
}
