/* SPDX-License-Identifier: Apache-2.0 */
/* The user's own actions in the audit log. */
#include "ops/audit_verb.h"

#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "workspace/change/change.h"

/* A byte of a path may need six in JSON. */
enum { LIST_MAX = 32 * 1024, LISTED = 64, TEXT_CUT = 1024 };

int audit_verb(enum audit_type type, const char *run, const struct buf *members, struct err *err) {
    const struct audit_ids ids = {.log = "user", .sandbox = "", .run = run, .tenant = ""};
    CLEANUP(freep) char *home = NULL, *state = NULL;
    CLEANUP(audit_freep) struct audit *a = NULL;
    int r = buf_ok(members) ? paths_home(environ, &home, err) : err_oom(err);

    r = r < 0 ? r : paths_state_if_home(environ, home, "", &state, err);
    if (r < 0 || !state)
        return r;
    r = audit_new(state, &ids, &a, err);
    return r < 0 ? r : audit_write(a, type, buf_str(members), err);
}

int audit_verb_word(enum audit_type type, const char *run, const char *what, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", what);
    audit_add(&b, "name", name);
    return audit_verb(type, run, &b, err);
}

static void add_item(struct buf *b, const char *text, size_t n) {
    CLEANUP(freep) char *cut = strndup(text, TEXT_CUT);

    buf_adds(b, n ? "," : "");
    buf_add_json(b, cut ? cut : "");
}

void audit_verb_list(struct buf *b, const char *key, const struct strv *list) {
    size_t before = b->len;

    buf_addf(b, "%s\"%s\":[", b->len ? "," : "", key);
    for (size_t i = 0; i < list->len && i < LISTED && b->len - before < LIST_MAX / 2; i++)
        add_item(b, list->v[i], i);
    buf_addc(b, ']');
}

int audit_verb_changes(enum audit_type type, const char *run, const char *what, const struct change_set *s,
                       const struct strv *only, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", what);
    audit_add_number(&b, "changes", (int64_t)s->n);
    if (only && only->len)
        audit_verb_list(&b, "only", only);
    buf_adds(&b, ",\"paths\":[");
    for (size_t i = 0; i < s->n && i < LISTED && b.len < LIST_MAX; i++)
        add_item(&b, s->v[i].path, i);
    buf_addc(&b, ']');
    return audit_verb(type, run, &b, err);
}
