/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a command. */
#include <errno.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/str.h"
#include "init/init.h"

enum { COMPARISONS_MAX = 16 * 1024 * 1024 };

/* Where the variable that `entry` ("NAME=value" or "NAME") is about stands among the first n; n if nowhere. */
static size_t find_variable(char *const *v, size_t n, const char *entry) {
    size_t len = strcspn(entry, "=");

    for (size_t i = 0; i < n; i++)
        if (strncmp(v[i], entry, len) == 0 && v[i][len] == '=')
            return i;
    return n;
}

int environment_merge(char *const *base, size_t n_base, char *const *changes, size_t n_changes, char ***ret) {
    size_t n = n_base;
    char **v;

    if (n_changes > 0 && n_base + n_changes > COMPARISONS_MAX / n_changes)
        return -E2BIG;
    v = calloc(n_base + n_changes + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    if (n_base > 0)
        memcpy(v, base, n_base * sizeof *v);
    for (size_t i = 0; i < n_changes; i++) {
        size_t at = find_variable(v, n, changes[i]);

        if (strchr(changes[i], '=')) {
            v[at] = changes[i];
            n += at == n;
        } else if (at < n) {
            memmove(v + at, v + at + 1, (n - at) * sizeof *v);
            n--;
        }
    }
    v[n] = NULL;
    *ret = v;
    return 0;
}

const char *environment_get(char *const *envp, const char *name) {
    size_t n = 0, at;

    while (envp[n])
        n++;
    at = find_variable(envp, n, name);
    return at < n ? envp[at] + strlen(name) + 1 : "";
}

/* In either case of letters: who sets HTTPS_PROXY does not want our https_proxy. */
static bool is_named(const struct init_start *s, const char *name) {
    size_t len = strlen(name);

    for (size_t i = 0; i < s->envc; i++)
        if (strncasecmp(s->envp[i], name, len) == 0 && s->envp[i][len] == '=')
            return true;
    return false;
}

/*
 * Names of servers inside, which the proxy outside cannot reach. Each client compares in its own way: curl and go understand the range,
 * urllib and node compare text, urllib with the brackets.
 */
#define OWN_NAMES "localhost,127.0.0.1,127.0.0.2,127.0.0.0/8,0.0.0.0,::1,[::1]"

/* Never socks://: Python's clients fail on it without more packages. */
int environment_add_proxy(struct init_start *s, const char *url) {
    static const char *const names[] = {"HTTP_PROXY",  "HTTPS_PROXY", "ALL_PROXY", "http_proxy",
                                        "https_proxy", "all_proxy",   "NO_PROXY",  "no_proxy"};
    char *more[ARRAY_LEN(names)], own[sizeof OWN_NAMES + sizeof(struct utsname)];
    struct utsname host = {0};
    size_t n = 0;
    char **v;
    int r;

    uname(&host);
    snprintf(own, sizeof own, OWN_NAMES ",%s", host.nodename);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (is_named(s, names[i]))
            continue;
        more[n] = str_dupf("%s=%s", names[i], strncasecmp(names[i], "NO_", 3) == 0 ? own : url);
        if (!more[n++])
            return -ENOMEM;
    }
    r = environment_merge(s->envp, s->envc, more, n, &v);
    if (r < 0)
        return r;
    s->envp = v; /* for as long as we live, as the strings */
    s->envc += n;
    return 0;
}
