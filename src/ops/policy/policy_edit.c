/* SPDX-License-Identifier: Apache-2.0 */
/* One editor for all files with network rules, and what adding or removing a rule means. */
#include "ops/policy/policy_edit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/project.h"
#include "config/load/trust.h"
#include "ops/audit_verb.h"
#include "ops/edit_lock.h"
#include "ops/policy/policy_here.h"
#include "ops/policy/policy_live.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "policy/gateconf.h"

enum { SPREAD_DEPTH = 2 };

/* A file that is being changed. */
struct editing {
    const struct policy_edit *e;
    bool create;
    char *home, *workspace;
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
    free(ed->home);
    free(ed->workspace);
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
    free(d->id);
    free(d->denied);
    *d = (struct policy_edit_result){0};
}

static int split_path(struct editing *ed, struct err *err) {
    const char *slash = strrchr(ed->path, '/');

    ed->name = slash + 1;
    ed->folder = strndup(ed->path, (size_t)(slash - ed->path));
    return ed->folder ? 0 : err_oom(err);
}

/* No folder is as good as no rules, if none is to be added: ed->dir stays -1 then. */
static int refuse_folder(struct editing *ed, int r, struct err *err) {
    ed->dir = -1;
    return r == -ENOENT && !ed->create ? 0 : err_sys(err, r, "open '%s'", ed->folder);
}

/* The user's own file may be a link, for settings in git. Its target is changed. */
static int open_user(struct editing *ed, struct err *err) {
    char *target;
    int r = paths_config(environ, ed->home, "network.json", &ed->path, err);

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
    return ed->dir < 0 ? refuse_folder(ed, -errno, err) : 0;
}

/* The workspace is the agent's too: no link on the way is followed. */
static int open_project(struct editing *ed, struct err *err) {
    CLEANUP(closep) int top = open(ed->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    ed->path = str_dupf("%s/%s", ed->workspace, PROJECT_NETWORK_FILE);
    r = ed->path ? split_path(ed, err) : err_oom(err);
    if (r < 0)
        return r;
    if (top < 0)
        return err_sys(err, -errno, "open '%s'", ed->workspace);
    if (ed->create && mkdirat(top, ".bawn", 0755) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "create '%s'", ed->folder);
    ed->dir = safepath_open(top, ".bawn", O_RDONLY | O_DIRECTORY);
    return ed->dir < 0 ? refuse_folder(ed, ed->dir, err) : 0;
}

static int find_trust(struct editing *ed, bool exists, struct err *err) {
    char hash[SHA256_HEX_SIZE];
    int r = trust_file(environ, ed->home, &ed->records, err);

    if (r < 0 || ed->e->target != POLICY_TARGET_PROJECT)
        return r;
    sha256_hex(buf_str(&ed->text), ed->text.len, hash);
    if (exists && ed->records)
        return trust_check(ed->records, ed->path, hash, &ed->trusted, err);
    ed->trusted = !exists && ed->records; /* then every word of it will be the user's */
    return 0;
}

static int read_rules_text(struct editing *ed, struct err *err) {
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

static int begin_edit(const struct policy_edit *e, bool create, struct editing *ed, struct err *err) {
    int r = paths_home(environ, &ed->home, err);

    ed->e = e;
    ed->create = create;
    r = r < 0 ? r : paths_workspace(e->dir, &ed->workspace, err);
    if (r < 0)
        return r;
    r = e->target == POLICY_TARGET_PROJECT ? open_project(ed, err) : open_user(ed, err);
    if (r < 0 || ed->dir < 0)
        return r;
    r = edit_lock(ed->dir, ed->folder, ed->path, err);
    return r < 0 ? r : read_rules_text(ed, err);
}

/* One member on each line, and in those one rule, or one group, on each line. What is deeper is on one line. */
static void add_spread(json_t *v, int depth, struct buf *b) {
    bool object = json_is_object(v), spread = depth < SPREAD_DEPTH && (object || json_is_array(v));
    CLEANUP(freep) char *text = spread ? NULL : json_dumps(v, JSON_ENCODE_ANY);
    const char *key, *comma = "";
    json_t *item;
    size_t i;

    if (!spread) {
        buf_adds(b, text ? text : "");
        b->failed |= !text;
        return;
    }
    buf_addc(b, object ? '{' : '[');
    json_object_foreach(v, key, item) {
        buf_addf(b, "%s\n%*s", comma, 2 * depth + 2, "");
        buf_add_json(b, key);
        buf_adds(b, ": ");
        add_spread(item, depth + 1, b);
        comma = ",";
    }
    json_array_foreach(v, i, item) {
        buf_addf(b, "%s\n%*s", comma, 2 * depth + 2, "");
        add_spread(item, depth + 1, b);
        comma = ",";
    }
    if (*comma)
        buf_addf(b, "\n%*s", 2 * depth, "");
    buf_addc(b, object ? '}' : ']');
}

/* What the user added to something trusted, or to nothing, is trusted. */
static int keep_trust(const struct editing *ed, const struct buf *text, struct err *err) {
    char hash[SHA256_HEX_SIZE];

    if (ed->e->target != POLICY_TARGET_PROJECT || !ed->trusted)
        return 0;
    sha256_hex(buf_str(text), text->len, hash);
    return trust_record(ed->records, ed->path, hash, err);
}

static int finish_edit(struct editing *ed, enum policy_edit_what what, const char *id, struct policy_edit_result *ret,
                       struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    CLEANUP(rules_done) struct rules check = {0};
    bool project = ed->e->target == POLICY_TARGET_PROJECT;
    int r = 0;

    if (what != EDIT_NOTHING) {
        add_spread(ed->root, 0, &text);
        buf_addc(&text, '\n');
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
    *ret = (struct policy_edit_result){
        .what = what, .id = strdup(id), .path = TAKE_PTR(ed->path), .untrusted = project && !ed->trusted};
    return ret->id ? 0 : err_oom(err);
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
        return finish_edit(ed, EDIT_NOTHING, same->id, ret, err);
    json_object_set_new(rule, "id", json_string(same->id)); /* "rule-3" would get another name in its new place */
    if (json_array_insert(list, 0, rule) < 0 || json_array_remove(list, at + 1) < 0)
        return err_oom(err);
    return finish_edit(ed, EDIT_MOVED, same->id, ret, err);
}

static int insert_rule(struct editing *ed, const struct rule *rule, bool first, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    json_t *list = json_object_get(ed->root, "rules");

    if (rules_find(&ed->rules, rule->id))
        return err_usage(err, "'%s' already has a rule '%s'", ed->path, rule->id);
    rule_add_json(rule, &text);
    return json_array_insert_new(list, first ? 0 : json_array_size(list), json_loads(buf_str(&text), 0, NULL)) < 0 ? err_oom(err)
                                                                                                                   : 0;
}

static int add_to_file(const struct policy_edit *e, const struct rule *rule, bool first, struct policy_edit_result *ret,
                       struct err *err) {
    CLEANUP(editing_done) struct editing ed = EDITING_INIT;
    struct rule named = *rule; /* with an id; borrows the rest */
    CLEANUP(freep) char *id = NULL;
    const struct rule *same;
    int r = begin_edit(e, true, &ed, err);

    if (r < 0)
        return r;
    same = find_same(&ed.rules, rule);
    if (same)
        return first ? move_to_front(&ed, same, ret, err) : finish_edit(&ed, EDIT_NOTHING, same->id, ret, err);
    r = rule->id ? 0 : rule_give_id(&ed.rules, &named, err);
    id = rule->id ? NULL : named.id; /* NOLINT(clang-analyzer-deadcode.DeadStores): freed at the end */
    r = r < 0 ? r : insert_rule(&ed, &named, first, err);
    return r < 0 ? r : finish_edit(&ed, EDIT_ADDED, named.id, ret, err);
}

/* -- operations --------------------------------------------------------------------------------------------------------- */

/* The whole rule, comment included. */
static int log_rule(const struct policy_edit *e, const struct rule *rule, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX), text = BUF_INIT(AUDIT_LINE_MAX);

    rule_add_json(rule, &text);
    audit_add(&b, "what", "rule added");
    audit_add(&b, "where",
              e->target == POLICY_TARGET_SANDBOX ? e->sandbox
              : e->target == POLICY_TARGET_USER  ? "user"
                                                 : "project");
    audit_add(&b, "rule", buf_str(&text));
    return buf_ok(&text) ? audit_verb(AUDIT_POLICY, "", &b, err) : err_oom(err);
}

/* An exception behind a denial, or under the organisation's, does nothing. The user should hear of that at once. */
static char *find_denial(const struct policy_edit *e, const struct rule *rule) {
    CLEANUP(policy_here_done) struct policy_here here = POLICY_HERE_INIT;
    const struct policy_here_opts opts = {.dir = e->dir};
    const struct pattern *p = &rule->hosts[0];
    const struct policy_question question = {.host = p->text, .host_len = strlen(p->text)};
    const struct policy_verdict *v;
    struct policy_answer a;

    if (rule->action != RULE_ALLOW || p->kind != PATTERN_EXACT || policy_here_open(&opts, &here, NULL) < 0 ||
        policy_ask(&here.policy, &question, &a, NULL) < 0)
        return NULL;
    v = policy_answer_verdict(&a);
    return v->action == RULE_DENY ? strdup(v->reason) : NULL;
}

int policy_edit_add(const struct policy_edit *e, const struct rule *rule, bool first, struct policy_edit_result *ret,
                    struct err *err) {
    int r = log_rule(e, rule, err);

    if (r < 0)
        return r;
    if (e->target == POLICY_TARGET_SANDBOX) {
        *ret = (struct policy_edit_result){.what = EDIT_ADDED};
        return policy_live_add(e->sandbox, rule, &ret->id, err);
    }
    r = add_to_file(e, rule, first, ret, err);
    if (r == 0)
        ret->denied = find_denial(e, rule);
    return r;
}

int policy_edit_remove(const struct policy_edit *e, const char *id, struct policy_edit_result *ret, struct err *err) {
    CLEANUP(editing_done) struct editing ed = EDITING_INIT;
    const struct rule *found;
    int r = audit_verb_word(AUDIT_POLICY, "", "rule removed", id, err);

    r = r < 0 ? r : begin_edit(e, false, &ed, err);
    if (r < 0)
        return r;
    if (!ed.rules.len)
        return err_set(err, -ENOENT, "there is no rule '%s' (see 'bawn policy ls')", id);
    found = rules_find(&ed.rules, id);
    if (!found)
        return err_set(err, -ENOENT, "'%s' has no rule '%s' (see 'bawn policy ls')", ed.path, id);
    json_array_remove(json_object_get(ed.root, "rules"), (size_t)(found - ed.rules.v));
    return finish_edit(&ed, EDIT_REMOVED, id, ret, err);
}
