/* SPDX-License-Identifier: Apache-2.0 */
/* The network beyond its one word: hosts, published ports, and who is asked. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/fields/field.h"
#include "proto/gatemsg.h"

enum { HOOK_LEN_MAX = 4095 };

/* Hosts. What they mean is the policy's business, of which configuration knows nothing. */

int network_host_add_text(struct strv *list, const char *text, struct err *err) {
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return err_usage(err, "a host has no spaces or control characters");
    if (n == 0 || n > NETWORK_HOST_LEN_MAX)
        return err_usage(err, "a host has 1 to %d bytes", NETWORK_HOST_LEN_MAX);
    if (list->len >= NETWORK_HOSTS_MAX)
        return err_usage(err, "more than %d hosts (put them into a file with network rules)", NETWORK_HOSTS_MAX);
    return strv_add(list, text) < 0 ? err_oom(err) : 0;
}

static int add_host(void *list, const char *text, struct err *err) {
    return network_host_add_text(list, text, err);
}

static int hosts_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    struct strv *list = member(f, out);
    int r = field_read_strings(w, v, "an array of hosts", add_host, list, err);

    return r < 0 ? r : list->len == 0;
}

static bool allow_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return s->net.allow.len == 0;
}

static bool deny_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return true;
}

#define HOSTS .from_json = hosts_from_json, .merge = list_merge, .add_json = list_add_json, .adds_up = true
const struct field_type type_network_allow = {HOSTS, .within = allow_within};
const struct field_type type_network_deny = {HOSTS, .within = deny_within};

/* Published ports: checked here as far as they are numbers; the code that opens them knows about addresses */

/* Behind "ADDRESS:" or "[ADDRESS]:". */
static const char *ports_of(const char *text) {
    const char *colon = strchr(text, ':'), *end = strchr(text, ']');

    if (text[0] == '[')
        return end && end[1] == ':' && strchr(end + 2, ':') ? end + 2 : NULL;
    return colon && strchr(colon + 1, ':') ? colon + 1 : text;
}

int publish_add_text(struct settings *s, const char *text, struct err *err) {
    const char *ports = strlen(text) < NETWORK_HOST_LEN_MAX ? ports_of(text) : NULL;
    CLEANUP(freep) char *inside = ports ? strndup(ports, strcspn(ports, ":")) : NULL;
    const char *colon = ports ? strchr(ports, ':') : NULL;
    uint64_t number;

    if (ports && !inside)
        return err_oom(err);
    if (!ports || parse_u64(inside, 1, 65535, &number, NULL) < 0 || (colon && parse_u64(colon + 1, 0, 65535, &number, NULL) < 0))
        return err_usage(err, "'%.60s' must be a port inside, or INSIDE:OUTSIDE as in 3000:8080", text);
    if (strv_has(&s->net.publish, text))
        return 0;
    if (s->net.publish.len == GATE_PUBLISH_MAX)
        return err_usage(err, "more than %d ports", GATE_PUBLISH_MAX);
    return strv_add(&s->net.publish, text) < 0 ? err_oom(err) : 0;
}

static int read_port(struct jsonwalk *w, json_t *v, void *settings, struct err *err) {
    char number[24];

    if (!json_is_string(v) && !json_is_integer(v))
        return jsonwalk_wrong_type(w, v, "a port, or \"INSIDE:OUTSIDE\"", err);
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    return jsonwalk_ctx(w, publish_add_text(settings, json_is_string(v) ? json_string_value(v) : number, err), err);
}

static int publish_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    int r = json_is_array(v) ? jsonwalk_elements(w, v, SIZE_MAX, read_port, out, err)
                             : jsonwalk_wrong_type(w, v, "an array of ports", err);

    return r < 0 ? r : out->net.publish.len == 0;
}

static bool publish_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return s->net.publish.len == 0;
}

static int publish_merge(const struct field *f, struct settings *into, const struct settings *from) {
    int r = list_merge(f, into, from);

    return r == 0 && into->net.publish.len > GATE_PUBLISH_MAX ? -E2BIG : r;
}

const struct field_type type_publish = {
    .from_json = publish_from_json, .within = publish_within, .merge = publish_merge, .add_json = list_add_json, .adds_up = true};

/* The hook: a program, not a command line, so that nothing in a question can ever become a word of a shell */

static int hook_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    const char *text = json_string_value(v);
    char *path;

    if (!text)
        return jsonwalk_wrong_type(w, v, "a string", err);
    if ((text[0] != '/' && !(str_starts(text, "~/") && w->home)) || strlen(text) > HOOK_LEN_MAX)
        return jsonwalk_fail(w, err, "must be the path of a program, absolute or starting with ~/");
    path = text[0] == '/' ? strdup(text) : str_dupf("%s%s", w->home, text + 1);
    if (!path)
        return err_oom(err);
    free(out->question.hook);
    out->question.hook = path;
    return 0;
}

const struct field_type type_ask_hook = {
    .from_json = hook_from_json, .within = string_within, .merge = string_merge, .add_json = string_add_json, .none = "none"};
