#include "base/err.h"
#include "base/str.h"
#include "supervisor/control_client.h"
#include "top/top.h"

static json_t *call(const char *socket, const char *request) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    struct err ignored = {0}; /* a sandbox that ends while it is asked has nothing that waits */

    if (control_call(socket, request, &answer, &ignored) < 0)
        return NULL;
    return json_loadb(buf_str(&answer), answer.len, JSON_REJECT_DUPLICATES, NULL);
}

static void add_text(struct buf *b, const char *before, const json_t *v, const char *key) {
    const char *text = json_string_value(json_object_get(v, key));

    if (text && text[0]) {
        buf_adds(b, before);
        buf_add_printable(b, text);
    }
}

static void add_ask(struct top_asks *a, const char *socket, const json_t *v) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct top_ask *ask = &a->v[a->n];

    if (strlen(socket) >= sizeof ask->socket)
        return;
    *ask = (struct top_ask){.id = json_integer_value(json_object_get(v, "id"))};
    snprintf(ask->socket, sizeof ask->socket, "%s", socket);
    add_text(&b, "", v, "host");
    buf_addf(&b, ":%lld", (long long)json_integer_value(json_object_get(v, "port")));
    add_text(&b, " ", v, "method");
    add_text(&b, " ", v, "path");
    buf_addf(&b, "  (%lld s)", (long long)json_integer_value(json_object_get(v, "seconds")));
    snprintf(ask->text, sizeof ask->text, "%s", buf_str(&b));
    a->n++;
}

void asks_refresh(struct top_asks *a) {
    CLEANUP(strv_done) struct strv sockets = {0};
    struct err ignored = {0};

    a->n = 0;
    if (control_list(&sockets, &ignored) < 0)
        return;
    for (size_t i = 0; i < sockets.len; i++) {
        json_t *answer = call(sockets.v[i], "{\"cmd\": \"pending\"}"), *list = json_object_get(answer, "pending");

        for (size_t k = 0; a->n < TOP_ASKS_MAX && k < json_array_size(list); k++)
            add_ask(a, sockets.v[i], json_array_get(list, k));
        json_decref(answer);
    }
}

void asks_answer(const struct top_ask *a, const char *how) {
    char request[128];

    snprintf(request, sizeof request, "{\"cmd\": \"answer\", \"id\": %lld, \"answer\": \"%s\"}", a->id, how);
    json_decref(call(a->socket, request));
}
