/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/policy/policy_live.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "policy/rules/rule.h"
#include "supervisor/control/control_client.h"

void policy_live_pid(const char *socket, char ret[static 24]) {
    const char *slash = strrchr(socket, '/'), *name = slash ? slash + 1 : socket;

    snprintf(ret, 24, "%.*s", (int)strspn(name, "0123456789"), name);
}

static int find_pid(const char *pid, char **ret, struct err *err) {
    CLEANUP(strv_done) struct strv sockets = {0};
    char one[24];
    int r = control_list(&sockets, err);

    for (size_t i = 0; r >= 0 && i < sockets.len; i++) {
        policy_live_pid(sockets.v[i], one);
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

static int call(const char *which, const char *request, json_t **ret, struct err *err) {
    CLEANUP(freep) char *socket = NULL;
    int r = find_socket(which, &socket, err);

    return r < 0 ? r : sandbox_call(socket, request, ret, err);
}

int policy_live_add(const char *which, const struct rule *rule, char **ret_id, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(CONTROL_LINE_MAX);
    json_t *answer;
    const char *id;
    int r;

    buf_addf(&request, "{\"cmd\": \"%s\", \"rule\": ", rule->action == RULE_DENY ? "deny" : "allow");
    rule_add_json(rule, &request);
    buf_addc(&request, '}');
    r = buf_ok(&request) ? call(which, buf_str(&request), &answer, err) : err_oom(err);
    if (r < 0)
        return r;
    id = json_string_value(json_object_get(answer, "id"));
    *ret_id = strdup(id ? id : rule->hosts[0].text);
    json_decref(answer);
    return *ret_id ? 0 : err_oom(err);
}

static void add_layer(const json_t *layer, struct buf *out) {
    const char *name = json_string_value(json_object_get(layer, "layer")),
               *file = json_string_value(json_object_get(layer, "file"));
    const char *text = json_string_value(json_object_get(layer, "text"));

    buf_adds(out, out->len ? "\n" : "");
    buf_add_printable(out, name ? name : "");
    buf_adds(out, ": ");
    buf_add_printable(out, file ? file : "");
    buf_adds(out, json_is_true(json_object_get(layer, "narrow_only")) ? " (can only deny)\n" : "\n");
    for (const char *line = text ? text : ""; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        CLEANUP(freep) char *one = strndup(line, strcspn(line, "\n"));

        buf_add_printable(out, one ? one : "");
        buf_addc(out, '\n');
    }
}

int policy_live_rules(const char *which, bool as_json, struct buf *out, struct err *err) {
    CLEANUP(freep) char *text = NULL;
    json_t *answer, *layers;
    int r = call(which, "{\"cmd\": \"rules\"}", &answer, err);

    if (r < 0)
        return r;
    layers = json_object_get(answer, "layers");
    for (size_t i = 0; !as_json && i < json_array_size(layers); i++)
        add_layer(json_array_get(layers, i), out);
    if (as_json) {
        text = json_dumps(answer, JSON_ENSURE_ASCII);
        buf_adds(out, text ? text : "");
        buf_addc(out, '\n');
    }
    json_decref(answer);
    return 0;
}
