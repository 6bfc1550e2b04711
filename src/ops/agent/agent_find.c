/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "os/fd.h"

/* Inside as they are. */
static const char *const shown[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/", "/nix/"};

void agent_program_done(struct agent_program *p) {
    free(p->path);
    free(p->interpreter);
    strv_done(&p->mounts);
    *p = (struct agent_program){0};
}

static bool is_below_folder(const char *path, const char *folder) {
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static char *executable(const char *folder, size_t len, const char *name, const char *workspace) {
    char path[PATH_MAX], real[PATH_MAX];
    struct stat st;

    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, name) >= sizeof path || !realpath(path, real))
        return NULL;
    if (workspace && is_below_folder(real, workspace))
        return NULL;
    return stat(real, &st) == 0 && S_ISREG(st.st_mode) && access(real, X_OK) == 0 ? strdup(real) : NULL;
}

char *agent_find_in_path(const char *name, const struct host_facts *facts) {
    const char *rest = paths_getenv(facts->environ_, "PATH");
    char *found = NULL;

    while (!found && rest && *rest) {
        size_t len = strcspn(rest, ":");

        if (rest[0] == '/' && !(is_below_folder(rest, facts->workspace)))
            found = executable(rest, len, name, facts->workspace);
        rest += len + (rest[len] == ':');
    }
    return found;
}

static int find_own(const struct agent *a, const struct host_facts *facts, struct agent_program *ret, struct err *err) {
    CLEANUP(freep) char *state = NULL, *leaf = str_dupf("agents/%s/node_modules/.bin", a->name);
    int r = leaf ? paths_state_if_home(facts->environ_, facts->home, leaf, &state, err) : err_oom(err);

    if (r == 0 && state)
        ret->path = executable(state, strlen(state), a->command, NULL);
    ret->own = ret->path != NULL;
    return r;
}

/* "#!/usr/bin/env node" and the like. */
static bool is_node_script(const char *path) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    char line[128];
    ssize_t n = fd < 0 ? -1 : fd_read_some(fd, line, sizeof line - 1);

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    return strstr(line, "node") != NULL;
}

/* A package with all that it requires, which npm puts beside or below it; or the one file. */
static int show_program(struct agent_program *p, const char *path, struct err *err) {
    static const char modules[] = "/node_modules/";
    const char *at = strstr(path, modules);
    CLEANUP(freep) char *part = at ? strndup(path, (size_t)(at - path) + strlen(modules) - 1) : strdup(path);

    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (str_starts(path, shown[i]))
            return 0;
    return part && (strv_has(&p->mounts, part) || strv_add(&p->mounts, part) == 0) ? 0 : err_oom(err);
}

int agent_find(const struct agent *a, const struct host_facts *facts, struct agent_program *ret, struct err *err) {
    CLEANUP(agent_program_done) struct agent_program p = {.path = agent_find_in_path(a->command, facts)};
    int r = p.path ? 0 : find_own(a, facts, &p, err);

    if (r == 0 && p.path && is_node_script(p.path)) {
        p.interpreter = agent_find_in_path("node", facts);
        r = p.interpreter ? show_program(&p, p.interpreter, err)
                          : err_set(err, -ENOENT, "%s needs node, which is not in PATH", p.path);
    }
    if (r == 0 && p.path)
        r = show_program(&p, p.path, err);
    if (r == 0)
        *ret = TAKE(p, (struct agent_program){0});
    return r;
}
