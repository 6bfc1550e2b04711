/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over the control socket (spec/control-socket.md). They come from the user; every field is checked all the same. */
#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

enum { REQUEST_RULE_MAX = 32 * 1024 };

/* Begins an answer with data; the caller closes it. */
static struct jsonout begin_answer(struct buf *answer) {
    struct jsonout j = {.to = answer, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", true);
    return j;
}

static void do_pending(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    struct jsonout j = begin_answer(answer);

    jsonout_text(&j, "sandbox", g->opts.sandbox);
    jsonout_key(&j, "pending");
    if (g->opts.asker)
        asker_pending_json(g->opts.asker, answer);
    else
        buf_adds(answer, "[]");
    jsonout_close(&j, '}');
}

static void do_answer(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    const char *word = json_string_value(json_object_get(request, "answer"));
    struct jsonout j;
    json_int_t id = json_integer_value(json_object_get(request, "id"));

    g->requests.note[0] = 0;
    for (int i = 0; word && i < GATE_ANSWERS; i++) {
        if (!str_eq(word, asker_answer_names[i]))
            continue;
        if (!g->opts.asker || id < 1 || id > UINT32_MAX ||
            asker_answer(g->opts.asker, (uint32_t)id, (enum gate_answer)i, json_get_text(request, "reason")) < 0)
            control_error(answer, "no such question: it was answered, or its connection has ended");
        else {
            j = begin_answer(answer);
            if (g->requests.note[0])
                jsonout_text(&j, "note", g->requests.note);
            jsonout_close(&j, '}');
        }
        return;
    }
    control_error(answer, "\"answer\" must be deny, once, session or always");
}

void gate_status_json(const struct gatekeeper *g, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_text(&j, "mode", g ? net_mode_names[policy_files_mode(g->opts.where->settings)] : "none");
    jsonout_u64(&j, "generation", g ? g->rules.generation : 0);
    jsonout_int(&j, "gate", g ? g->pid : -1);
    jsonout_bool(&j, "ready", g && g->ready);
    jsonout_u64(&j, "connections", g ? g->flows : 0);
    jsonout_key(&j, "network");
    if (g)
        netcount_json(&g->count, out);
    else
        buf_adds(out, "null");
}

static void do_status(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    struct jsonout j = begin_answer(answer);

    jsonout_int(&j, "pid", getpid());
    jsonout_text(&j, "sandbox", g->opts.sandbox);
    jsonout_text(&j, "workspace", g->opts.where->workspace);
    jsonout_strings(&j, "command", g->opts.argv, g->opts.argc);
    gate_status_json(g, answer);
    jsonout_close(&j, '}');
}

static void add_layer(struct jsonout *j, const char *layer, const char *name, bool narrow_only, const char *text) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "layer", layer);
    jsonout_text(j, "file", name);
    jsonout_bool(j, "narrow_only", narrow_only);
    jsonout_text(j, "text", text);
    jsonout_close(j, '}');
}

static void do_rules(struct gatekeeper *g, const json_t *request UNUSED, struct buf *answer) {
    CLEANUP(buf_done) struct buf session = BUF_INIT(GATE_TEXT_MAX);
    struct jsonout j = begin_answer(answer);

    rules_write(&g->rules.session, &session);
    jsonout_text(&j, "mode", net_mode_names[policy_files_mode(g->opts.where->settings)]);
    jsonout_u64(&j, "generation", g->rules.generation);
    jsonout_open(&j, "layers", '[');
    add_layer(&j, policy_layer_names[LAYER_SESSION], "this run", false, buf_str(&session));
    for (size_t i = 0; i < g->rules.files.n; i++) {
        const struct gate_layer *l = &g->rules.files.v[i];

        add_layer(&j, policy_layer_names[l->kind], l->name, l->narrow_only, l->text);
    }
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
}

/* The verb is the action (rule_action_names), whatever the rule itself says. */
static void do_rule(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    json_t *rule = json_deep_copy(json_object_get(request, "rule"));
    char *text = NULL, id[RULE_ID_MAX + 1];
    struct err err = {0};
    struct jsonout j;
    int r = -EINVAL;

    if (json_is_object(rule) && json_object_set(rule, "action", json_object_get(request, "cmd")) == 0)
        text = json_dumps(rule, JSON_COMPACT);
    if (text && strlen(text) <= REQUEST_RULE_MAX)
        r = gate_rules_add_session(&g->rules, text, id, &err);
    else
        err_set(&err, r, "\"rule\" must be an object");
    free(text);
    json_decref(rule);
    if (r < 0) {
        control_error(answer, err.msg);
        return;
    }
    gate_send_config(g);
    j = begin_answer(answer);
    jsonout_text(&j, "id", id);
    jsonout_u64(&j, "generation", g->rules.generation);
    jsonout_close(&j, '}');
}

static const struct {
    const char *cmd;
    void (*run)(struct gatekeeper *g, const json_t *request, struct buf *answer);
} commands[] = {
    {"pending", do_pending},
    {"answer", do_answer},
    {"status", do_status},
    {"rules", do_rules},
    {"allow", do_rule},
    {"deny", do_rule},
    {"request", gate_command_request},
    {"requested", gate_command_requested},
};

void gate_command(void *arg, const json_t *request, struct buf *answer) {
    const char *cmd = json_string_value(json_object_get(request, "cmd"));

    for (size_t i = 0; cmd && i < ARRAY_LEN(commands); i++)
        if (str_eq(cmd, commands[i].cmd)) {
            commands[i].run(arg, request, answer);
            return;
        }
    control_error(answer, "\"cmd\" must be pending, answer, status, rules, allow, deny, request or requested");
}
