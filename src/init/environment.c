/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a command. */
#include <errno.h>

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
