/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns and groups of hosts. */
#include "policy/host/pattern.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

void pattern_done(struct pattern *p) {
    free(p->text);
    *p = (struct pattern){0};
}

void group_done(struct group *g) {
    for (size_t i = 0; i < g->n; i++)
        pattern_done(&g->hosts[i]);
    free(g->hosts);
    free(g->name);
    *g = (struct group){0};
}

bool group_name_ok(const char *name, size_t len) {
    if (len < 2 || len > GROUP_NAME_MAX || name[0] != '@' || name[1] == '-')
        return false;
    for (size_t i = 1; i < len; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') && name[i] != '-')
            return false;
    return true;
}

static int make_pattern(struct pattern p, size_t wildcard, struct pattern *ret, struct err *err) {
    if (!p.text)
        return err_oom(err);
    p.key = p.text + wildcard;
    *ret = p;
    return 0;
}

static int parse_cidr(const char *text, size_t len, struct pattern *ret, struct err *err) {
    struct pattern p = {.kind = PATTERN_CIDR};
    char canonical[ADDR_TEXT_SIZE + 4];
    int r;

    r = cidr_parse(text, len, &p.cidr, err);
    if (r < 0)
        return r;
    cidr_format(&p.cidr, canonical);
    p.text = strdup(canonical);
    return make_pattern(p, 0, ret, err);
}

static int parse_name(const char *text, size_t len, struct pattern *ret, struct err *err) {
    struct pattern p = {.kind = PATTERN_EXACT};
    size_t wildcard = 0;
    struct host h;
    int r;

    if (len > 3 && memcmp(text, "**.", 3) == 0) {
        p.kind = PATTERN_DEEP;
        wildcard = 3;
    } else if (len > 2 && memcmp(text, "*.", 2) == 0) {
        p.kind = PATTERN_ONE;
        wildcard = 2;
    }
    if (memchr(text + wildcard, '*', len - wildcard))
        return err_set(err, -EINVAL, "'*' may only stand for whole labels in front: *.example.com, **.example.com, or ** alone");
    r = host_parse(text + wildcard, len - wildcard, &h, err);
    if (r < 0)
        return r;
    if (h.kind != HOST_NAME && wildcard)
        return err_set(err, -EINVAL, "a wildcard does not go with an address (write 10.0.0.0/8)");
    if (h.kind != HOST_NAME)
        return parse_cidr(h.text, h.len, ret, err);
    p.text = str_dupf("%.*s%s", (int)wildcard, text, h.text);
    return make_pattern(p, wildcard, ret, err);
}

int pattern_parse(const char *text, size_t len, struct pattern *ret, struct err *err) {
    if (len == 2 && memcmp(text, "**", 2) == 0)
        return make_pattern((struct pattern){.kind = PATTERN_ANY, .text = strdup("**")}, 2, ret, err);
    if (len == 1 && text[0] == '*')
        return err_set(err, -EINVAL, "write ** for every name");
    if (len && text[0] == '@') {
        if (!group_name_ok(text, len))
            return err_set(err, -EINVAL, "a group is '@' and up to %d small letters, digits or hyphens", GROUP_NAME_MAX - 1);
        return make_pattern((struct pattern){.kind = PATTERN_GROUP, .text = strndup(text, len)}, 0, ret, err);
    }
    if (len && memchr(text, '/', len))
        return parse_cidr(text, len, ret, err);
    return parse_name(text, len, ret, err);
}

const struct builtin_group *builtin_group_find(const char *name) {
    for (size_t i = 0; i < n_builtin_groups; i++)
        if (str_eq(builtin_groups[i].name, name))
            return &builtin_groups[i];
    return NULL;
}

static int add_host_line(struct group *g, const char *line, size_t len, struct err *err) {
    int r;

    while (len && strchr(" \t\r", line[len - 1]))
        len--;
    if (len == 0)
        return 0;
    if (g->n == GROUP_HOSTS_MAX)
        return err_set(err, -EINVAL, "a group has at most %d hosts", GROUP_HOSTS_MAX);
    if (VEC_ROOM(g->hosts, g->n) < 0)
        return err_oom(err);
    r = pattern_parse(line, len, &g->hosts[g->n], err);
    if (r < 0)
        return r;
    if (g->hosts[g->n++].kind == PATTERN_GROUP)
        return err_set(err, -EINVAL, "a group cannot hold a group");
    return 0;
}

int group_read(const char *name, const char *text, struct group *ret, struct err *err) {
    CLEANUP(group_done) struct group g = {.name = strdup(name)};
    unsigned line = 1;

    if (!g.name)
        return err_oom(err);
    for (; *text; line++) {
        size_t len = strcspn(text, "#\n");
        int r = add_host_line(&g, text, len, err);

        if (r < 0)
            return err_ctx(err, r, "%s, line %u", name, line);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    *ret = TAKE(g, (struct group){0});
    return 0;
}
