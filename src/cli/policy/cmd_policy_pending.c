/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "ops/audit_verb.h"
#include "ops/policy/policy_live.h"
#include "supervisor/control/control_client.h"

enum { OPT_JSON = 1, OPT_ONCE, OPT_SESSION, OPT_ALWAYS };
enum { PATIENCE_MS = 3000 };

static const struct opt pending_opts[] = {
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};
static const struct opt approve_opts[] = {
    {OPT_ONCE, 0, "once", NULL, "only what waits now (default)", NULL},
    {OPT_SESSION, 0, "session", NULL, "until the sandbox ends", NULL},
    {OPT_ALWAYS, 0, "always", NULL, "for good: writes a rule into your own file", NULL},
};

struct pending_request {
    bool json;
    const char *how;
};

static int take(void *arg, int id, const char *value, struct err *err) {
    static const char *const how[] = {[OPT_ONCE] = "once", [OPT_SESSION] = "session", [OPT_ALWAYS] = "always"};
    struct pending_request *q = arg;

    if (id == OPT_JSON) {
        q->json = true;
        return 0;
    }
    if (q->how && !str_eq(q->how, how[id]))
        return err_usage(err, "--once, --session and --always exclude each other");
    q->how = how[id];
    return 0;
}

/* A question that waits, and who asks it. */
struct pending_waiting {
    char pid[24];
    const char *socket, *name; /* of a run without one: the pid */
    long long id;
    const json_t *v;
};

typedef int waiting_fn(const struct pending_waiting *w, void *arg, struct err *err);

struct asking {
    waiting_fn *fn;
    void *arg;
    int r; /* of the first that failed, with its message */
    struct err *err;
};

static void take_answer(void *arg, const char *socket, const char *text, size_t len) {
    struct pending_waiting w = {.socket = socket};
    struct asking *a = arg;
    json_t *answer = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *list = json_object_get(answer, "pending");

    policy_live_pid(socket, w.pid);
    w.name = json_string_value(json_object_get(answer, "sandbox"));
    for (size_t k = 0; a->r >= 0 && k < json_array_size(list); k++) {
        w.v = json_array_get(list, k);
        w.id = json_integer_value(json_object_get(w.v, "id"));
        a->r = a->fn(&w, a->arg, a->err);
    }
    json_decref(answer);
}

/* A sandbox that ends while it is asked, or whose supervisor does not answer, has nothing that waits. */
static int each_waiting(waiting_fn *fn, void *arg, struct err *err) {
    struct asking a = {.fn = fn, .arg = arg, .err = err};
    int r = control_call_all("{\"cmd\": \"pending\"}", PATIENCE_MS, take_answer, &a, err);

    return r < 0 ? r : a.r;
}

static void add_text(struct buf *b, const char *before, const struct pending_waiting *w, const char *key) {
    const char *text = json_string_value(json_object_get(w->v, key));

    if (!text || !text[0])
        return;
    buf_adds(b, before);
    buf_add_printable(b, text);
}

static int add_line(const struct pending_waiting *w, void *arg, struct err *err) {
    long long port = json_integer_value(json_object_get(w->v, "port"));
    struct buf *b = arg;

    buf_addf(b, "%s-%lld", w->pid, w->id);
    if (w->name && !str_eq(w->name, w->pid)) {
        buf_adds(b, "  ");
        buf_add_printable(b, w->name);
    }
    add_text(b, "  ", w, "host");
    if (port)
        buf_addf(b, ":%lld", port);
    add_text(b, " ", w, "method");
    add_text(b, " ", w, "path");
    add_text(b, "  ", w, "reason");
    buf_addc(b, '\n');
    return 0;
}

static int add_object(const struct pending_waiting *w, void *arg, struct err *err) {
    CLEANUP(freep) char *text = json_dumps(w->v, JSON_ENSURE_ASCII);
    struct buf *b = arg;

    if (!text || text[0] != '{')
        return err_oom(err);
    buf_addf(b, "%s\n  {\"ask\": \"%s-%lld\", \"sandbox\": %s, \"name\": ", b->len > 1 ? "," : "", w->pid, w->id, w->pid);
    buf_add_json(b, w->name ? w->name : w->pid);
    buf_addf(b, "%s%s", text[1] == '}' ? "" : ", ", text + 1);
    return 0;
}

static int run_pending(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_words words = {0};
    struct pending_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 0, &words, &err);

    if (r == 0 && q.json)
        buf_addc(&out, '[');
    r = r < 0 ? r : each_waiting(q.json ? add_object : add_line, &out, &err);
    if (r == 0 && q.json)
        buf_adds(&out, "]\n");
    else if (r == 0 && out.len == 0)
        log_line("no sandbox is waiting for an answer");
    return r < 0 ? verb_fail(self, &err) : policy_print(self, &out, 0);
}

/* "4711-3", or "3" if only one sandbox has a question of that number. */
struct choice {
    const char *pid; /* NULL: any */
    size_t pid_len;
    uint64_t id;
    size_t found;
    char *socket;
};

static void choice_done(struct choice *c) {
    free(c->socket);
}

static int parse_choice(const char *text, struct choice *ret, struct err *err) {
    const char *dash = strchr(text, '-');

    ret->pid = dash ? text : NULL;
    ret->pid_len = dash ? (size_t)(dash - text) : 0;
    if (parse_u64(dash ? dash + 1 : text, 0, UINT32_MAX, &ret->id, NULL) < 0)
        return err_usage(err, "'%.40s' is not the number of a question (see 'bawn policy pending')", text);
    return 0;
}

static int match(const struct pending_waiting *w, void *arg, struct err *err) {
    struct choice *c = arg;

    if ((uint64_t)w->id != c->id || (c->pid && (strlen(w->pid) != c->pid_len || strncmp(w->pid, c->pid, c->pid_len) != 0)))
        return 0;
    c->found++;
    free(c->socket);
    c->socket = strdup(w->socket);
    return c->socket ? 0 : err_oom(err);
}

static int answer(const char *text, const char *how, struct err *err) {
    CLEANUP(choice_done) struct choice c = {0};
    char request[128];
    json_t *reply;
    int r = parse_choice(text, &c, err);

    r = r < 0 ? r : each_waiting(match, &c, err);
    if (r < 0)
        return r;
    if (c.found == 0)
        return err_usage(err, "no question '%.40s' is waiting (see 'bawn policy pending')", text);
    if (c.found > 1)
        return err_usage(err, "several sandboxes have a question %s: write PID-%s", text, text);
    snprintf(request, sizeof request, "{\"cmd\": \"answer\", \"id\": %llu, \"answer\": \"%s\"}", (unsigned long long)c.id, how);
    r = audit_verb_word(AUDIT_POLICY, "", str_eq(how, "deny") ? "question rejected" : "question approved", text, err);
    r = r < 0 ? r : policy_live_call(c.socket, request, &reply, err);
    if (r == 0)
        json_decref(reply);
    return r;
}

static int run_answer(const struct verb *self, int argc, char **argv, const char *usual) {
    struct policy_words words = {0};
    struct pending_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);
    const char *how = q.how ? q.how : usual;

    if (r == 0)
        r = words.n == 1 ? answer(words.v[0], how, &err) : err_usage(&err, "which question? (see 'bawn policy pending')");
    if (r == 0)
        log_line("answered: %s", how);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int run_approve(const struct verb *self, int argc, char **argv) {
    return run_answer(self, argc, argv, "once");
}

static int run_reject(const struct verb *self, int argc, char **argv) {
    return run_answer(self, argc, argv, "deny");
}

const struct verb verb_policy_pending = {
    .name = "policy pending",
    .summary = "list connections that wait for your answer",
    .synopsis = "[options]",
    .description =
        "Lists what your running sandboxes wait for: the question's number, host and request. Answer with 'bawn policy approve' "
        "or 'reject'; without an answer in time (askTimeout) it is denied.",
    .opts = pending_opts,
    .n_opts = ARRAY_LEN(pending_opts),
    .run = run_pending,
};

const struct verb verb_policy_approve = {
    .name = "policy approve",
    .summary = "let a connection that waits go on",
    .synopsis = "[options] ID",
    .description =
        "ID is the number that 'bawn policy pending' shows, as in 4711-3; the part behind the hyphen is enough if only one "
        "sandbox has such a question.",
    .opts = approve_opts,
    .n_opts = ARRAY_LEN(approve_opts),
    .run = run_approve,
};

const struct verb verb_policy_reject = {
    .name = "policy reject",
    .summary = "refuse a connection that waits",
    .synopsis = "ID",
    .description = "ID is the number that 'bawn policy pending' shows.",
    .run = run_reject,
};
