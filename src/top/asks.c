/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that wait, and answers to them. */
#include <unistd.h>

#include "audit/audit.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/policy/policy_live.h"
#include "os/clock.h"
#include "supervisor/control/control_client.h"
#include "supervisor/network/asker.h"
#include "top/top.h"

enum { PATIENCE_MS = 250 };

static void add_ask(struct top_asks *a, const char *socket, const json_t *answer, const json_t *v) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct top_ask *ask = &a->v[a->n];

    if (strlen(socket) >= sizeof ask->socket)
        return;
    *ask = (struct top_ask){.id = json_integer_value(json_object_get(v, "id"))};
    snprintf(ask->socket, sizeof ask->socket, "%s", socket);
    policy_add_text(&b, "", answer, "sandbox");
    policy_add_text(&b, "  ", v, "host");
    if (json_integer_value(json_object_get(v, "port")))
        buf_addf(&b, ":%lld", (long long)json_integer_value(json_object_get(v, "port")));
    policy_add_text(&b, " ", v, "method");
    policy_add_text(&b, " ", v, "login");
    policy_add_text(&b, " ", v, "path");
    if (json_object_get(v, "request"))
        policy_add_text(&b, "  ", v, "reason");
    buf_addf(&b, "  (%lld s)", (long long)json_integer_value(json_object_get(v, "seconds")));
    snprintf(ask->text, sizeof ask->text, "%s", buf_str(&b));
    a->n++;
}

static void take_answer(void *arg, const char *socket, const char *text, size_t len) {
    json_t *answer = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *list = json_object_get(answer, "pending");
    struct top_asks *a = arg;

    for (size_t i = 0; a->n < TOP_ASKS_MAX && i < json_array_size(list); i++)
        add_ask(a, socket, answer, json_array_get(list, i));
    json_decref(answer);
}

/* By socket, then by number, so that a list that is read again has the same order. */
static int compare_asks(const void *x, const void *y) {
    const struct top_ask *a = x, *b = y;
    int by = strcmp(a->socket, b->socket);

    return by ? by : (a->id > b->id) - (a->id < b->id);
}

/* What was chosen stays chosen wherever it is now; when it is gone the user has not seen the next one yet. */
static void choose_again(struct top_asks *a, const struct top_ask *before) {
    for (size_t i = 0; before && i < a->n; i++)
        if (a->v[i].id == before->id && str_eq(a->v[i].socket, before->socket)) {
            a->chosen = i;
            return;
        }
    a->chosen = a->n ? MIN_OF(a->chosen, a->n - 1) : 0;
    a->chosen_ms = clock_ms();
}

void asks_refresh(struct top_asks *a) {
    struct top_ask before;
    struct err ignored = {0};
    bool had = a->n > 0;

    if (had)
        before = a->v[a->chosen];
    a->n = 0;
    control_call_all("{\"cmd\": \"pending\"}", PATIENCE_MS, take_answer, a, &ignored);
    qsort(a->v, a->n, sizeof *a->v, compare_asks);
    choose_again(a, had ? &before : NULL);
}

void asks_next(struct top_asks *a) {
    if (a->n < 2)
        return;
    a->chosen = (a->chosen + 1) % a->n;
    a->chosen_ms = clock_ms();
}

/* As `bawn policy approve` writes it: <pid>-<id>. */
static int note_answer(const struct top_ask *a, const char *how, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    CLEANUP(freep) char *home = NULL, *name = NULL;
    const char *file = strrchr(a->socket, '/') + 1;
    int r = paths_home(environ, &home, err);

    name = str_dupf("%.*s-%lld", (int)strcspn(file, "."), file, a->id);
    audit_add(&b, "what", str_eq(how, "deny") ? "question rejected" : "question approved");
    audit_add(&b, "name", name);
    return r < 0 ? r : audit_note(environ, home, AUDIT_POLICY, buf_str(&b), err);
}

int asks_answer(const struct top_asks *a, const char *how, struct err *err) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    const struct top_ask *ask = &a->v[a->chosen];
    char request[128];
    int r;

    if (a->n == 0 || clock_ms() < a->chosen_ms + ASKER_DEAF_MS)
        return 0;
    r = note_answer(ask, how, err);
    if (r < 0)
        return r;
    snprintf(request, sizeof request, "{\"cmd\": \"answer\", \"id\": %lld, \"answer\": \"%s\"}", ask->id, how);
    return control_call(ask->socket, request, &answer, err);
}
