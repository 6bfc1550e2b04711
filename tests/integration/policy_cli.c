/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy engine behind a pipe, for test_policy_oracle.py. Reads records until the end of input: a letter, a length in decimal,
 * NUL, and that many bytes; answers each with one string and NUL, "!..." for a refusal.
 *
 *     H <host>                        "name x", "ipv4 x", "ipv6 x"
 *     A <address>                     "<class> <wrapped>"
 *     P <request target>              "<path> <second reading>"
 *     g <glob>, G <path>              "1" or "0" for the glob given last
 *     R <rules>                       "ok": rules of the user, the only layer
 *     J <host:port> SP <method> SP <path>        "<action> <rule>", method and path may be empty
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/rules/verdict.h"

static struct policy policy;
static char glob[PATH_GLOB_MAX + 1];

static void say(const char *text) {
    printf("%s%c", text, 0);
}

static void host(const char *data, size_t len) {
    static const char *const kinds[] = {[HOST_NAME] = "name", [HOST_IPV4] = "ipv4", [HOST_IPV6] = "ipv6"};
    struct err err = {0};
    struct host h;

    if (host_parse(data, len, &h, &err) < 0)
        printf("!%s%c", err.msg, 0);
    else
        printf("%s %s%c", kinds[h.kind], h.text, 0);
}

static void address(const char *data, size_t len) {
    struct addr_verdict v;
    struct addr a;

    if (addr_parse(data, len, &a) < 0) {
        say("!");
        return;
    }
    v = addr_classify(&a, NULL, 0);
    printf("%s %d%c", addr_class_names[v.class], v.wrapped, 0);
}

static void path(const char *data, size_t len) {
    static struct http_path p;
    struct err err = {0};

    if (http_path_parse(data, len, &p, &err) < 0)
        printf("!%s%c", err.msg, 0);
    else
        printf("%s %s%c", p.text, p.other, 0);
}

static void set_rules(const char *data, size_t len) {
    CLEANUP(rules_done) struct rules rules = {0};
    struct err err = {0};

    policy_done(&policy);
    if (policy_init(&policy, NET_LIST, true, &err) < 0 || rules_read("rules", data, len, &rules, &err) < 0)
        errx(1, "%s", err.msg);
    policy_set_layer(&policy, LAYER_USER, &rules, false);
    say("ok");
}

static void judge(char *data) {
    static struct http_path p;
    char *host_text = strsep(&data, " "), *method = strsep(&data, " ");
    struct policy_request req = {.method = method && *method ? method : NULL};
    struct policy_verdict v;
    struct err err = {0};
    struct host h;

    if (host_parse_with_port(host_text, strlen(host_text), &h, &req.port, &err) < 0 ||
        (data && *data && http_path_parse(data, strlen(data), &p, &err) < 0))
        errx(1, "%s", err.msg);
    req.host = &h;
    req.path = data && *data ? &p : NULL;
    policy_judge(&policy, &req, &v);
    printf("%s %s%c", rule_action_names[v.action], v.rule ? v.rule->id : "-", 0);
}

static void answer(int kind, char *data, size_t len) {
    struct err err = {0};

    switch (kind) {
    case 'H':
        host(data, len);
        break;
    case 'A':
        address(data, len);
        break;
    case 'P':
        path(data, len);
        break;
    case 'g':
        say(path_glob_parse(data, len, glob, &err) < 0 ? "!" : "ok");
        break;
    case 'G':
        say(path_glob_match(glob, data) ? "1" : "0");
        break;
    case 'R':
        set_rules(data, len);
        break;
    case 'J':
        judge(data);
        break;
    default:
        errx(1, "no record starts with '%c'", kind);
    }
}

int main(void) {
    char *number = NULL;
    size_t cap = 0;

    for (int kind; (kind = getchar()) != EOF;) {
        CLEANUP(freep) char *data = NULL;
        size_t len;

        if (getdelim(&number, &cap, 0, stdin) <= 0)
            errx(1, "the input ends within a record");
        len = strtoul(number, NULL, 10);
        data = calloc(len + 1, 1);
        if (!data || fread(data, 1, len, stdin) != len)
            errx(1, "the input ends within a record");
        answer(kind, data, len);
    }
    free(number);
    policy_done(&policy);
    return 0;
}
