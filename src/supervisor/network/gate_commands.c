/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over the control socket (spec/control-socket.md). They come from the user; every field is checked all the same. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/str.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

enum { REQUEST_RULE_MAX = 32 * 1024 };

static void say_error(struct buf *answer, const char *why) {
    buf_adds(answer, "{\"ok\":false,\"error\":");
    buf_add_json(answer, why);
    buf_addc(answer, '}');
}

static void do_pending(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"sandbox\":");
    buf_add_json(answer, g->opts.sandbox);
    buf_adds(answer, ",\"pending\":");
    if (g->opts.asker)
        asker_pending_json(g->opts.asker, answer);
    else
        buf_adds(answer, "[]");
    buf_addc(answer, '}');
}

static void do_answer(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    const char *word = json_string_value(json_object_get(request, "answer"));
    json_int_t id = json_integer_value(json_object_get(request, "id"));

    for (int i = 0; word && i < GATE_ANSWERS; i++) {
        if (!str_eq(word, asker_answer_names[i]))
            continue;
        if (!g->opts.asker || id < 1 || id > UINT32_MAX || asker_answer(g->opts.asker, (uint32_t)id, (enum gate_answer)i) < 0)
            say_error(answer, "no such question: it was answered, or its connection has ended");
        else
            buf_adds(answer, "{\"ok\":true}");
        return;
    }
    say_error(answer, "\"answer\" must be deny, once, session or always");
}

void gate_status_json(const struct gatekeeper *g, struct buf *out) {
    if (!g) {
        buf_adds(out, ",\"mode\":\"none\",\"generation\":0,\"gate\":-1,\"ready\":false,\"connections\":0,\"network\":null");
        return;
    }
    buf_addf(out, ",\"mode\":\"%s\",\"generation\":%" PRIu32 ",\"gate\":%d,\"ready\":%s,\"connections\":%" PRIu64 ",\"network\":",
             net_mode_names[policy_files_mode(g->opts.where->settings)], g->rules.generation, (int)g->pid,
             g->ready ? "true" : "false", g->flows);
    netcount_json(&g->count, out);
}

static void do_status(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    buf_addf(answer, "{\"ok\":true,\"pid\":%d,\"sandbox\":", (int)getpid());
    buf_add_json(answer, g->opts.sandbox);
    buf_adds(answer, ",\"workspace\":");
    buf_add_json(answer, g->opts.where->workspace);
    buf_adds(answer, ",\"command\":[");
    for (size_t i = 0; i < g->opts.argc; i++) {
        buf_adds(answer, i ? "," : "");
        buf_add_json(answer, g->opts.argv[i]);
    }
    buf_addc(answer, ']');
    gate_status_json(g, answer);
    buf_addc(answer, '}');
}

static void add_layer_json(struct buf *out, const char *layer, const char *name, bool narrow_only, const char *text) {
    buf_adds(out, "{\"layer\":");
    buf_add_json(out, layer);
    buf_adds(out, ",\"file\":");
    buf_add_json(out, name);
    buf_addf(out, ",\"narrow_only\":%s,\"text\":", narrow_only ? "true" : "false");
    buf_add_json(out, text);
    buf_addc(out, '}');
}

static void do_rules(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    CLEANUP(buf_done) struct buf session = BUF_INIT(GATE_TEXT_MAX);

    rules_write(&g->rules.session, &session);
    buf_addf(answer, "{\"ok\":true,\"mode\":\"%s\",\"generation\":%" PRIu32 ",\"layers\":[",
             net_mode_names[policy_files_mode(g->opts.where->settings)], g->rules.generation);
    add_layer_json(answer, policy_layer_names[LAYER_SESSION], "this run", false, buf_str(&session));
    for (size_t i = 0; i < g->rules.files.n; i++) {
        const struct gate_layer *l = &g->rules.files.v[i];

        buf_addc(answer, ',');
        add_layer_json(answer, policy_layer_names[l->kind], l->name, l->narrow_only, l->text);
    }
    buf_adds(answer, "]}");
}

/* The verb is the action, whatever the rule itself says. */
static void add_rule(struct gatekeeper *g, const json_t *request, const char *action, struct buf *answer) {
    json_t *rule = json_deep_copy(json_object_get(request, "rule"));
    char *text = NULL, id[RULE_ID_MAX + 1];
    struct err err = {0};
    int r = -EINVAL;

    if (json_is_object(rule) && json_object_set_new(rule, "action", json_string(action)) == 0)
        text = json_dumps(rule, JSON_COMPACT);
    if (text && strlen(text) <= REQUEST_RULE_MAX)
        r = gate_rules_add_session(&g->rules, text, id, &err);
    else
        err_set(&err, r, "\"rule\" must be an object");
    free(text);
    json_decref(rule);
    if (r < 0) {
        say_error(answer, err.msg);
        return;
    }
    gate_send_config(g);
    buf_adds(answer, "{\"ok\":true,\"id\":");
    buf_add_json(answer, id);
    buf_addf(answer, ",\"generation\":%" PRIu32 "}", g->rules.generation);
}

static void do_allow(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    add_rule(g, request, rule_action_names[RULE_ALLOW], answer);
}

static void do_deny(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    add_rule(g, request, rule_action_names[RULE_DENY], answer);
}

static const struct {
    const char *cmd;
    void (*run)(struct gatekeeper *g, const json_t *request, struct buf *answer);
} commands[] = {
    {"pending", do_pending}, {"answer", do_answer}, {"status", do_status},
    {"rules", do_rules},     {"allow", do_allow},   {"deny", do_deny},
};

void gate_command(void *arg, const json_t *request, struct buf *answer) {
    const char *cmd = json_string_value(json_object_get(request, "cmd"));

    for (size_t i = 0; cmd && i < ARRAY_LEN(commands); i++)
        if (str_eq(cmd, commands[i].cmd)) {
            commands[i].run(arg, request, answer);
            return;
        }
    say_error(answer, "\"cmd\" must be pending, answer, status, rules, allow or deny");
}
