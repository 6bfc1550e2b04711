/* SPDX-License-Identifier: Apache-2.0 */
/* What is added to settings that were loaded: a preset's wishes, weaker than anything that was named. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"

int settings_add_env(struct settings *s, const char *text, struct err *err) {
    size_t n = strcspn(text, "=");
    struct env_spec *grown, one;

    for (size_t i = 0; i < s->n_env; i++)
        if (strncmp(s->env[i].name, text, n) == 0 && s->env[i].name[n] == 0)
            return 0;
    one = (struct env_spec){.name = strndup(text, n), .value = strdup(text + n + (text[n] == '='))};
    grown = one.name && one.value ? reallocarray(s->env, s->n_env + 1, sizeof *grown) : NULL;
    if (!grown) {
        free(one.name);
        free(one.value);
        return err_oom(err);
    }
    s->env = grown;
    s->env[s->n_env++] = one;
    return 0;
}

int settings_add_mount(struct settings *s, const char *path, struct err *err) {
    struct mount_spec *grown, one = {0};

    for (size_t i = 0; i < s->n_mounts; i++)
        if (str_eq(s->mounts[i].to, path))
            return 0;
    one = (struct mount_spec){.from = strdup(path), .to = strdup(path)};
    grown = one.from && one.to ? reallocarray(s->mounts, s->n_mounts + 1, sizeof *grown) : NULL;
    if (!grown) {
        free(one.from);
        free(one.to);
        return err_oom(err);
    }
    s->mounts = grown;
    s->mounts[s->n_mounts++] = one;
    return 0;
}
