/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy ls`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "ops/policy/policy_live.h"

struct policy_ls_request {
    struct policy_here_opts view;
    bool json, groups;
    const char *sandbox;
};

#define TO(kind, member) OPT_TO_##kind(struct policy_ls_request, member)
static const struct opt opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
    {0, 0, "groups", NULL, "also list the hosts of the built-in groups", NULL, TO(FLAG, groups)},
    {0, 0, "sandbox", "SANDBOX", "what a running one (its name, or its pid) has in force, answers to questions included",
     "@sandbox", TO(TEXT, sandbox)},
    POLICY_VIEW_OPTS(struct policy_ls_request, view),
};

/* The layers as they are asked: those that grant from the strongest on, then those that can only take away. */
static size_t order_layers(const struct policy *p, enum policy_layer_kind ret[static LAYERS]) {
    size_t n = 0;

    for (int narrow = 0; narrow < 2; narrow++)
        for (enum policy_layer_kind k = 0; k < LAYERS; k++)
            if (p->layers[k].present && p->layers[k].narrow_only == narrow)
                ret[n++] = k;
    return n;
}

static void add_json_layer(const struct policy_here *v, enum policy_layer_kind kind, struct jsonout *j) {
    const struct policy_layer *l = &v->policy.layers[kind];

    jsonout_open(j, NULL, '{');
    jsonout_text(j, "layer", policy_layer_names[kind]);
    jsonout_text(j, "file", policy_files_source(&v->files, policy_layer_names[kind]));
    jsonout_bool(j, "narrow_only", l->narrow_only);
    jsonout_text(j, "mode", l->rules.mode == NET_UNSET ? NULL : net_mode_names[l->rules.mode]);
    jsonout_text(j, "unlisted", rule_action_names[l->rules.unlisted]);
    jsonout_open(j, "rules", '[');
    for (size_t i = 0; i < l->rules.len; i++) {
        jsonout_break(j, "\n    ");
        rule_add_json(&l->rules.v[i], j->to);
    }
    jsonout_close(j, ']');
    jsonout_close(j, '}');
}

static void add_json_groups(struct jsonout *j) {
    jsonout_open(j, "groups", '{');
    for (size_t i = 0; i < n_builtin_groups; i++) {
        CLEANUP(group_done) struct group g = {0};

        if (group_read(builtin_groups[i].name, builtin_groups[i].text, &g, NULL) < 0)
            continue;
        jsonout_break(j, "\n  ");
        jsonout_open(j, g.name, '[');
        for (size_t k = 0; k < g.n; k++)
            jsonout_text(j, NULL, g.hosts[k].text);
        jsonout_close(j, ']');
    }
    jsonout_close(j, '}');
}

static void add_json_policy(const struct policy_here *v, struct buf *b) {
    enum rule_action unlisted;
    enum net_mode mode = policy_mode(&v->policy, &unlisted);
    enum policy_layer_kind kinds[LAYERS];
    size_t n = order_layers(&v->policy, kinds);
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "mode", mode == NET_UNSET ? "list" : net_mode_names[mode]);
    jsonout_text(&j, "origin", v->settings.origin[SETTING_NETWORK]);
    jsonout_text(&j, "unlisted", rule_action_names[unlisted]);
    jsonout_open(&j, "layers", '[');
    for (size_t i = 0; i < n; i++) {
        jsonout_break(&j, "\n  ");
        add_json_layer(v, kinds[i], &j);
    }
    buf_addc(b, '\n');
    jsonout_close(&j, ']');
    add_json_groups(&j);
    jsonout_list(&j, "notes", &v->files.notes);
    jsonout_close(&j, '}');
    buf_addc(b, '\n');
}

static void add_mode(const struct policy_here *v, struct buf *b) {
    static const char *const texts[NET_MODES] = {
        [NET_NONE] = "mode none: no network, whatever the rules say",
        [NET_LIMITED] = "mode limited: ports 80 and 443 of any public host, and what the rules say",
        [NET_FULL] = "mode full: any public host, but for what the rules deny",
    };
    enum rule_action unlisted;
    const char *text = texts[policy_mode(&v->policy, &unlisted)];

    buf_adds(b, text ? text : "mode list: what the rules allow; a host in no rule is ");
    if (!text && unlisted == RULE_ASK && v->policy.can_ask)
        buf_addf(b, "asked about%s", v->settings.question.mode == ASK_AUTO ? " on a terminal and denied without one" : "");
    else if (!text)
        buf_adds(b, "denied");
    buf_adds(b, " (network: ");
    buf_add_printable(b, v->settings.origin[SETTING_NETWORK]);
    buf_adds(b, ")\n");
}

static void add_what(const struct rule *rule, struct buf *b) {
    char size[24];

    for (size_t i = 0; i < rule->n_ports; i++) {
        buf_addf(b, i ? ",%u" : " ports %u", rule->ports[i].first);
        if (rule->ports[i].last != rule->ports[i].first)
            buf_addf(b, "-%u", rule->ports[i].last);
    }
    for (size_t i = 0; i < rule->methods.len; i++)
        buf_addf(b, "%s%s", i ? "," : " ", rule->methods.v[i]);
    for (size_t i = 0; i < rule->paths.len; i++)
        buf_addf(b, " %s", rule->paths.v[i]);
    if (rule->max_body) {
        format_size(rule->max_body, size);
        buf_addf(b, " up to %s", size);
    }
    if (rule->inspect != INSPECT_IF_NEEDED)
        buf_adds(b, rule->inspect == INSPECT_YES ? " inspected" : " not inspected");
    buf_adds(b, rule->allow_private ? " private addresses too" : "");
    if (rule->comment) {
        buf_adds(b, "  # ");
        buf_add_printable(b, rule->comment);
    }
}

static void add_rule_line(const struct rule *rule, struct buf *b) {
    CLEANUP(buf_done) struct buf hosts = BUF_INIT(POLICY_OUTPUT_MAX), what = BUF_INIT(POLICY_OUTPUT_MAX);

    for (size_t i = 0; i < rule->n_hosts; i++)
        buf_addf(&hosts, "%s%s", i ? " " : "", rule->hosts[i].text);
    add_what(rule, &what);
    buf_addf(b, "  %-6s%-28s %-*s%s\n", rule_action_names[rule->action], rule->id, what.len ? 28 : 0, buf_str(&hosts),
             buf_str(&what));
}

static void add_text_policy(const struct policy_here *v, bool groups, struct buf *b) {
    enum policy_layer_kind kinds[LAYERS];
    size_t n = order_layers(&v->policy, kinds);

    add_mode(v, b);
    for (size_t i = 0; i < n; i++) {
        const struct policy_layer *l = &v->policy.layers[kinds[i]];

        buf_addf(b, "\n%s", policy_layer_names[kinds[i]]);
        if (kinds[i] != LAYER_BUILTIN) {
            buf_adds(b, ": ");
            buf_add_printable(b, policy_files_source(&v->files, policy_layer_names[kinds[i]]));
        }
        buf_adds(b, l->narrow_only ? " (can only deny)\n" : "\n");
        if (l->rules.mode != NET_UNSET)
            buf_addf(b, "  mode %s\n", net_mode_names[l->rules.mode]);
        for (size_t k = 0; k < l->rules.len; k++)
            add_rule_line(&l->rules.v[k], b);
    }
    for (size_t i = 0; groups && i < n_builtin_groups; i++)
        buf_addf(b, "\n%s\n%s", builtin_groups[i].name, builtin_groups[i].text);
}

static void add_live_layer(const json_t *layer, struct buf *out) {
    buf_adds(out, out->len ? "\n" : "");
    buf_add_printable(out, json_get_text(layer, "layer"));
    buf_adds(out, ": ");
    buf_add_printable(out, json_get_text(layer, "file"));
    buf_adds(out, json_get_bool(layer, "narrow_only") ? " (can only deny)\n" : "\n");
    for (const char *line = json_get_text(layer, "text"); *line; line += strcspn(line, "\n"), line += *line == '\n') {
        CLEANUP(freep) char *one = strndup(line, strcspn(line, "\n"));

        buf_add_printable(out, one ? one : "");
        buf_addc(out, '\n');
    }
}

static int list_live(const char *sandbox, bool json, struct buf *out, struct err *err) {
    CLEANUP(json_decrefp) json_t *answer = NULL;
    CLEANUP(freep) char *text = NULL;
    int r = policy_live_rules(sandbox, &answer, err);
    const json_t *layers = json_object_get(answer, "layers");

    for (size_t i = 0; !json && i < json_array_size(layers); i++)
        add_live_layer(json_array_get(layers, i), out);
    if (r < 0 || !json)
        return r;
    text = json_dumps(answer, JSON_ENSURE_ASCII);
    buf_adds(out, text ? text : "");
    buf_addc(out, '\n');
    return 0;
}

static int list_rules(const struct policy_ls_request *q, struct buf *out, struct err *err) {
    CLEANUP(policy_here_done) struct policy_here view = POLICY_HERE_INIT;
    int r;

    if (q->sandbox)
        return list_live(q->sandbox, q->json, out, err);
    r = policy_here_open(&q->view, &view, err);
    if (r < 0)
        return r;
    if (q->json) {
        add_json_policy(&view, out);
        return 0;
    }
    add_text_policy(&view, q->groups, out);
    verb_say(&view.files.notes);
    return 0;
}

static int run_policy_ls(struct verb_call *c, struct err *err) {
    struct policy_ls_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    r = r < 0 ? r : list_rules(&q, &c->out, err);
    policy_here_opts_done(&q.view);
    return r < 0 ? r : 0;
}

const struct verb verb_policy_ls = {
    .name = "policy ls",
    .summary = "list the network rules in force, in order",
    .synopsis = "[options]",
    .description =
        "Lists the network rules that a sandbox started here would have, in the order in which they are asked: the first rule that "
        "matches, in the first layer that has one, decides. Layers that can only deny stand at the end; each of them is asked as "
        "well.\n\n"
        "    sandbox        --allow and --deny, networkAllow and networkDeny\n"
        "    project        .bawn/network.json in the workspace; can only deny until you trust it ('bawn trust')\n"
        "    user           ~/.config/bawn/network.json\n"
        "    built-in       @registries, @models and @git, unless a file has a mode\n"
        "    organisation   /etc/bawn/network.json; can only deny",
    VERB_OPTS(opts),
    .run = run_policy_ls,
};
