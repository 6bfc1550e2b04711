/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a supervisor, or the same one to all. */
#include "ops/policy/policy_live.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/audit_verb.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "policy/rules/rule.h"
#include "supervisor/control/control_client.h"

enum { PATIENCE_MS = 3000 };

static void pid_of_socket(const char *socket, char ret[static 24]) {
    const char *slash = strrchr(socket, '/'), *name = slash ? slash + 1 : socket;

    snprintf(ret, 24, "%.*s", (int)strspn(name, "0123456789"), name);
}

static int find_pid(const char *pid, char **ret, struct err *err) {
    CLEANUP(strv_done) struct strv sockets = {0};
    char one[24];
    int r = control_list(&sockets, err);

    for (size_t i = 0; r >= 0 && i < sockets.len; i++) {
        pid_of_socket(sockets.v[i], one);
        if (str_eq(one, pid)) {
            *ret = strdup(sockets.v[i]);
            return *ret ? 0 : err_oom(err);
        }
    }
    return r < 0 ? r : err_usage(err, "no sandbox with a network runs under pid %.20s", pid);
}

static int find_name(const char *name, char **ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = name, .need = SANDBOX_RUNNING}, &p, err);

    return r < 0 ? r : sandbox_control(&p.box, ret, err);
}

/* Digits are a pid before they are a name. */
static int find_socket(const char *which, char **ret, struct err *err) {
    struct err no_pid = {0};
    int r = which[0] && strspn(which, "0123456789") == strlen(which) ? find_pid(which, ret, &no_pid) : -ENOENT;

    if (r == 0 || find_name(which, ret, err) == 0)
        return 0;
    if (no_pid.code)
        *err = no_pid;
    return err->code;
}

static int call_sandbox(const char *which, const char *request, json_t **ret, struct err *err) {
    CLEANUP(freep) char *socket = NULL;
    int r = find_socket(which, &socket, err);

    return r < 0 ? r : sandbox_call(socket, request, ret, err);
}

int policy_live_add(const char *which, const struct rule *rule, char **ret_id, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(CONTROL_LINE_MAX);
    CLEANUP(json_decrefp) json_t *answer = NULL;
    const char *id;
    int r;

    buf_addf(&request, "{\"cmd\": \"%s\", \"rule\": ", rule->action == RULE_DENY ? "deny" : "allow");
    rule_add_json(rule, &request);
    buf_addc(&request, '}');
    r = buf_ok(&request) ? call_sandbox(which, buf_str(&request), &answer, err) : err_oom(err);
    if (r < 0)
        return r;
    id = json_get_text(answer, "id");
    *ret_id = strdup(id[0] ? id : rule->hosts[0].text);
    return *ret_id ? 0 : err_oom(err);
}

int policy_live_rules(const char *which, json_t **ret, struct err *err) {
    return call_sandbox(which, "{\"cmd\": \"rules\"}", ret, err);
}

/* -- questions ----------------------------------------------------------------------------------------------------------- */

void policy_add_text(struct buf *b, const char *before, const json_t *v, const char *key) {
    const char *text = json_get_text(v, key);

    if (!text[0])
        return;
    buf_adds(b, before);
    buf_add_printable(b, text);
}

struct pending_walk {
    pending_fn *fn;
    void *arg;
    int r; /* of the first that failed, with its message */
    struct err *err;
};

static void take_questions(void *arg, const char *socket, const char *text, size_t len) {
    CLEANUP(json_decrefp) json_t *answer = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(answer, "pending");
    struct pending_question q = {.socket = socket, .name = json_string_value(json_object_get(answer, "sandbox"))};
    struct pending_walk *w = arg;

    pid_of_socket(socket, q.pid);
    for (size_t i = 0; w->r >= 0 && i < json_array_size(list); i++) {
        q.v = json_array_get(list, i);
        q.id = json_integer_value(json_object_get(q.v, "id"));
        w->r = w->fn(&q, w->arg, w->err);
    }
}

int policy_pending_each(pending_fn *fn, void *arg, struct err *err) {
    struct pending_walk w = {.fn = fn, .arg = arg, .err = err};
    int r = control_call_all("{\"cmd\": \"pending\"}", PATIENCE_MS, take_questions, &w, err);

    return r < 0 ? r : w.r;
}

struct pending_choice {
    const char *pid; /* NULL: any */
    size_t pid_len;
    uint64_t id;
    size_t found;
    char **socket; /* a copy */
};

static int parse_choice(const char *text, struct pending_choice *ret, struct err *err) {
    const char *dash = strchr(text, '-');

    ret->pid = dash ? text : NULL;
    ret->pid_len = dash ? (size_t)(dash - text) : 0;
    if (parse_u64(dash ? dash + 1 : text, 0, UINT32_MAX, &ret->id, NULL) < 0)
        return err_usage(err, "'%.40s' is not the number of a question (see 'bawn policy pending')", text);
    return 0;
}

static int match_choice(const struct pending_question *q, void *arg, struct err *err) {
    struct pending_choice *c = arg;

    if ((uint64_t)q->id != c->id || (c->pid && (strlen(q->pid) != c->pid_len || strncmp(q->pid, c->pid, c->pid_len) != 0)))
        return 0;
    c->found++;
    return str_set(c->socket, q->socket) < 0 ? err_oom(err) : 0;
}

static int send_answer(const char *socket, uint64_t id, const char *how, const char *said, char **ret_note, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(CONTROL_LINE_MAX);
    CLEANUP(json_decrefp) json_t *answer = NULL;
    int r;

    buf_addf(&request, "{\"cmd\": \"answer\", \"id\": %llu, \"answer\": \"%s\"", (unsigned long long)id, how);
    if (said) {
        buf_adds(&request, ", \"reason\": ");
        buf_add_json(&request, said);
    }
    buf_addc(&request, '}');
    r = buf_ok(&request) ? sandbox_call(socket, buf_str(&request), &answer, err) : err_usage(err, "the reason is too long");
    if (r < 0 || !json_get_text(answer, "note")[0])
        return r;
    *ret_note = strdup(json_get_text(answer, "note"));
    return *ret_note ? 0 : err_oom(err);
}

int policy_pending_answer(const char *which, const char *how, const char *said, char **ret_note, struct err *err) {
    CLEANUP(freep) char *socket = NULL;
    struct pending_choice c = {.socket = &socket};
    int r = parse_choice(which, &c, err);

    r = r < 0 ? r : policy_pending_each(match_choice, &c, err);
    if (r < 0)
        return r;
    if (c.found == 0)
        return err_usage(err, "no question '%.40s' is waiting (see 'bawn policy pending')", which);
    if (c.found > 1)
        return err_usage(err, "several sandboxes have a question %s: write PID-%s", which, which);
    r = audit_verb_word(AUDIT_POLICY, "", str_eq(how, "deny") ? "question rejected" : "question approved", which, err);
    return r < 0 ? r : send_answer(socket, c.id, how, said, ret_note, err);
}
