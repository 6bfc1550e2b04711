/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/policy/policy_edit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/project.h"
#include "config/load/trust.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "policy/gateconf.h"

enum { LOCK_TRIES = 50, LOCK_PAUSE_US = 100 * 1000 };

/* A file that is being changed. */
struct editing {
    const struct policy_edit *e;
    bool create;
    char *folder, *path, *records;
    const char *name; /* in path */
    int dir;          /* locked */
    struct buf text;
    struct rules rules; /* what the text says */
    json_t *root;
    bool trusted; /* a project's file: what it has now may widen */
};
#define EDITING_INIT \
    { .dir = -1, .text = BUF_INIT(GATE_TEXT_MAX) }

static void editing_done(struct editing *ed) {
    free(ed->folder);
    free(ed->path);
    free(ed->records);
    closep(&ed->dir);
    buf_done(&ed->text);
    rules_done(&ed->rules);
    json_decref(ed->root);
}

void policy_edit_result_done(struct policy_edit_result *d) {
    free(d->path);
    *d = (struct policy_edit_result){0};
}

static int split_path(struct editing *ed, struct err *err) {
    const char *slash = strrchr(ed->path, '/');

    ed->name = slash + 1;
    ed->folder = strndup(ed->path, (size_t)(slash - ed->path));
    return ed->folder ? 0 : err_oom(err);
}

/* The user's own file may be a link, as those have it who keep their settings in git; what it leads to is changed. */
static int open_user(struct editing *ed, struct err *err) {
    char *target;
    int r = paths_config(environ, ed->e->home, "network.json", &ed->path, err);

    if (r < 0)
        return r;
    if (!ed->path)
        return err_set(err, -ENOENT, "there is no home folder to keep rules in");
    target = realpath(ed->path, NULL);
    if (target) {
        free(ed->path);
        ed->path = target;
    }
    r = split_path(ed, err);
    r = r < 0 || !ed->create ? r : paths_make_dirs(ed->folder, err);
    if (r < 0)
        return r;
    ed->dir = open(ed->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ed->dir < 0 ? err_sys(err, -errno, "open '%s'", ed->folder) : 0;
}

/* The workspace is the agent's too: no link on the way is followed. */
static int open_project(struct editing *ed, struct err *err) {
    CLEANUP(closep) int top = open(ed->e->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    ed->path = str_dupf("%s/%s", ed->e->workspace, PROJECT_NETWORK_FILE);
    r = ed->path ? split_path(ed, err) : err_oom(err);
    if (r < 0)
        return r;
    if (top < 0)
        return err_sys(err, -errno, "open '%s'", ed->e->workspace);
    if (ed->create && mkdirat(top, ".bawn", 0755) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "create '%s'", ed->folder);
    ed->dir = safepath_open(top, ".bawn", O_RDONLY | O_DIRECTORY);
    return ed->dir < 0 ? err_sys(err, ed->dir, "open '%s'", ed->folder) : 0;
}

/* Not for ever: a sandbox can lock a folder of its workspace as well. */
static int lock(const struct editing *ed, struct err *err) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(ed->dir, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return err_sys(err, -errno, "lock '%s'", ed->folder);
        usleep(LOCK_PAUSE_US);
    }
    return err_set(err, -EBUSY, "somebody else is changing '%s'", ed->path);
}

static int find_trust(struct editing *ed, bool exists, struct err *err) {
    char hash[SHA256_HEX_SIZE];
    int r = trust_file(environ, ed->e->home, &ed->records, err);

    if (r < 0 || ed->e->target != POLICY_TARGET_PROJECT)
        return r;
    sha256_hex(buf_str(&ed->text), ed->text.len, hash);
    if (exists && ed->records)
        return trust_check(ed->records, ed->path, hash, &ed->trusted, err);
    ed->trusted = !exists && ed->records; /* then every word of it will be the user's */
    return 0;
}

static int read_text(struct editing *ed, struct err *err) {
    CLEANUP(closep) int fd = safepath_open(ed->dir, ed->name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    json_error_t e;
    int r = 0;

    if (fd < 0 && fd != -ENOENT)
        return err_sys(err, fd, "open '%s'", ed->path);
    if (fd >= 0)
        r = paths_read_fd(fd, ed->path, GATE_TEXT_MAX, &ed->text, err);
    r = r < 0 ? r : find_trust(ed, fd >= 0, err);
    if (r < 0)
        return r;
    if (fd < 0)
        buf_adds(&ed->text, "{}");
    r = rules_read(ed->path, buf_str(&ed->text), ed->text.len, &ed->rules, err);
    if (r < 0)
        return r;
    ed->root = json_loadb(buf_str(&ed->text), ed->text.len, 0, &e);
    if (!ed->root || (!json_object_get(ed->root, "rules") && json_object_set_new(ed->root, "rules", json_array()) < 0))
        return err_oom(err);
    return 0;
}

static int begin(struct editing *ed, struct err *err) {
    int r = ed->e->target == POLICY_TARGET_USER ? open_user(ed, err) : open_project(ed, err);

    r = r < 0 ? r : lock(ed, err);
    return r < 0 ? r : read_text(ed, err);
}

static void add_value(json_t *v, struct buf *b) {
    CLEANUP(freep) char *text = json_dumps(v, JSON_ENCODE_ANY);

    if (text)
        buf_adds(b, text);
    else
        b->failed = true;
}

/* One rule, and one group, on each line. */
static void add_lines(json_t *v, struct buf *b) {
    bool object = json_is_object(v), first = true;
    const char *key;
    json_t *item;
    size_t i;

    buf_addc(b, object ? '{' : '[');
    json_object_foreach(v, key, item) {
        buf_adds(b, first ? "\n    " : ",\n    ");
        buf_add_json(b, key);
        buf_adds(b, ": ");
        add_value(item, b);
        first = false;
    }
    json_array_foreach(v, i, item) {
        buf_adds(b, first ? "\n    " : ",\n    ");
        add_value(item, b);
        first = false;
    }
    buf_addf(b, "%s%c", first ? "" : "\n  ", object ? '}' : ']');
}

static void print_file(json_t *root, struct buf *b) {
    const char *key;
    bool first = true;
    json_t *v;

    buf_addc(b, '{');
    json_object_foreach(root, key, v) {
        buf_adds(b, first ? "\n  " : ",\n  ");
        buf_add_json(b, key);
        buf_adds(b, ": ");
        if (json_is_object(v) || json_is_array(v))
            add_lines(v, b);
        else
            add_value(v, b);
        first = false;
    }
    buf_adds(b, "\n}\n");
}

/* What the user added to something trusted, or to nothing, is trusted: he wrote it. */
static int keep_trust(const struct editing *ed, const struct buf *text, struct err *err) {
    char hash[SHA256_HEX_SIZE];

    if (ed->e->target != POLICY_TARGET_PROJECT || !ed->trusted)
        return 0;
    sha256_hex(buf_str(text), text->len, hash);
    return trust_record(ed->records, ed->path, hash, err);
}

static int finish(struct editing *ed, enum policy_edit_what what, const char *id, struct policy_edit_result *ret,
                  struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    CLEANUP(rules_done) struct rules check = {0};
    bool project = ed->e->target == POLICY_TARGET_PROJECT;
    int r = 0;

    if (what != EDIT_NOTHING) {
        print_file(ed->root, &text);
        if (!buf_ok(&text))
            return err_set(err, -EFBIG, "'%s' would have more than %d bytes", ed->path, GATE_TEXT_MAX);
        r = rules_read(ed->path, buf_str(&text), text.len, &check, err);
        r = r < 0 ? r
                  : paths_publish_at(ed->dir, ed->folder, ed->name, project ? 0644 : 0600, buf_str(&text), text.len,
                                     PUBLISH_REPLACE, err);
        r = r < 0 ? r : keep_trust(ed, &text, err);
    }
    if (r < 0)
        return r;
    *ret = (struct policy_edit_result){.what = what, .path = TAKE_PTR(ed->path), .untrusted = project && !ed->trusted};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    return 0;
}

static const struct rule *find_same(const struct rules *rules, const struct rule *rule) {
    for (size_t i = 0; i < rules->len; i++)
        if (rule_same(&rules->v[i], rule))
            return &rules->v[i];
    return NULL;
}

static int move_to_front(struct editing *ed, const struct rule *same, struct policy_edit_result *ret, struct err *err) {
    size_t at = (size_t)(same - ed->rules.v);
    json_t *list = json_object_get(ed->root, "rules"), *rule = json_array_get(list, at);

    if (at == 0)
        return finish(ed, EDIT_NOTHING, same->id, ret, err);
    json_object_set_new(rule, "id", json_string(same->id)); /* "rule-3" would be called otherwise in its new place */
    if (json_array_insert(list, 0, rule) < 0 || json_array_remove(list, at + 1) < 0)
        return err_oom(err);
    return finish(ed, EDIT_MOVED, same->id, ret, err);
}

int policy_edit_add(const struct policy_edit *e, const struct rule *rule, bool first, struct policy_edit_result *ret,
                    struct err *err) {
    CLEANUP(editing_done) struct editing ed = EDITING_INIT;
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    struct rule named = *rule; /* with an id; borrows the rest */
    CLEANUP(freep) char *id = NULL;
    const struct rule *same;
    json_t *list;
    int r;

    ed.e = e;
    ed.create = true;
    r = begin(&ed, err);
    if (r < 0)
        return r;
    same = find_same(&ed.rules, rule);
    if (same)
        return first ? move_to_front(&ed, same, ret, err) : finish(&ed, EDIT_NOTHING, same->id, ret, err);
    r = rule->id ? 0 : rule_give_id(&ed.rules, &named, err);
    id = rule->id ? NULL : named.id; /* NOLINT(clang-analyzer-deadcode.DeadStores): freed at the end */
    if (r < 0)
        return r;
    if (rule->id && rules_find(&ed.rules, rule->id))
        return err_usage(err, "'%s' has a rule '%s' already", ed.path, rule->id);
    rule_add_json(&named, &text);
    list = json_object_get(ed.root, "rules");
    if (json_array_insert_new(list, first ? 0 : json_array_size(list), json_loads(buf_str(&text), 0, NULL)) < 0)
        return err_oom(err);
    return finish(&ed, EDIT_ADDED, named.id, ret, err);
}

int policy_edit_remove(const struct policy_edit *e, const char *id, struct policy_edit_result *ret, struct err *err) {
    CLEANUP(editing_done) struct editing ed = EDITING_INIT;
    const struct rule *found;
    int r;

    ed.e = e;
    r = begin(&ed, err);
    if (r < 0)
        return r;
    found = rules_find(&ed.rules, id);
    if (!found)
        return err_set(err, -ENOENT, "'%s' has no rule '%s' (see 'bawn policy ls')", ed.path, id);
    json_array_remove(json_object_get(ed.root, "rules"), (size_t)(found - ed.rules.v));
    return finish(&ed, EDIT_REMOVED, id, ret, err);
}
