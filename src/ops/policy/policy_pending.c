/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that wait, from all supervisors, and answers to them. */
#include "ops/policy/policy_pending.h"

#include <errno.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/audit_verb.h"
#include "ops/policy/policy_live.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "supervisor/control/control_client.h"

enum { PATIENCE_MS = 3000 };

struct pending_walk {
    pending_fn *fn;
    void *arg;
    int r; /* of the first that failed, with its message */
    struct err *err;
};

static void take_answer(void *arg, const char *socket, const char *text, size_t len) {
    CLEANUP(json_decrefp) json_t *answer = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(answer, "pending");
    struct pending_question q = {.socket = socket, .name = json_string_value(json_object_get(answer, "sandbox"))};
    struct pending_walk *w = arg;

    policy_live_pid(socket, q.pid);
    for (size_t i = 0; w->r >= 0 && i < json_array_size(list); i++) {
        q.v = json_array_get(list, i);
        q.id = json_integer_value(json_object_get(q.v, "id"));
        w->r = w->fn(&q, w->arg, w->err);
    }
}

int policy_pending_each(pending_fn *fn, void *arg, struct err *err) {
    struct pending_walk w = {.fn = fn, .arg = arg, .err = err};
    int r = control_call_all("{\"cmd\": \"pending\"}", PATIENCE_MS, take_answer, &w, err);

    return r < 0 ? r : w.r;
}

struct pending_choice {
    const char *pid; /* NULL: any */
    size_t pid_len;
    uint64_t id;
    size_t found;
    char *socket;
};

static void choice_done(struct pending_choice *c) {
    free(c->socket);
}

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
    return str_set(&c->socket, q->socket) < 0 ? err_oom(err) : 0;
}

int policy_pending_answer(const char *which, const char *how, struct err *err) {
    CLEANUP(choice_done) struct pending_choice c = {0};
    CLEANUP(json_decrefp) json_t *reply = NULL;
    char request[128];
    int r = parse_choice(which, &c, err);

    r = r < 0 ? r : policy_pending_each(match_choice, &c, err);
    if (r < 0)
        return r;
    if (c.found == 0)
        return err_usage(err, "no question '%.40s' is waiting (see 'bawn policy pending')", which);
    if (c.found > 1)
        return err_usage(err, "several sandboxes have a question %s: write PID-%s", which, which);
    snprintf(request, sizeof request, "{\"cmd\": \"answer\", \"id\": %llu, \"answer\": \"%s\"}", (unsigned long long)c.id, how);
    r = audit_verb_word(AUDIT_POLICY, "", str_eq(how, "deny") ? "question rejected" : "question approved", which, err);
    return r < 0 ? r : sandbox_call(c.socket, request, &reply, err);
}
