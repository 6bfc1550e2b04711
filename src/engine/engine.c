/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines. */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"

const char *const guarantee_names[GUARANTEE_COUNT] = {
    "files", "processes", "network", "sockets",      "syscalls",   "cpu",   "memory", "pids",        "disk",
    "time",  "end",       "hiding",  "hiding-later", "protection", "names", "ports",  "credentials", "kernel"};

const char *const guarantee_meaning[GUARANTEE_COUNT] = {
    "nothing of the host but the workspace and read-only tools",
    "no process outside can be seen, signalled or read",
    "no packet leaves",
    "no unix socket of the host can be reached",
    "the kernel's surface is cut by a filter",
    "CPU time is limited",
    "memory is limited",
    "the number of processes is limited",
    "disk use is limited",
    "a time limit ends everything",
    "nothing outlives the run",
    "hidden files are not there",
    "nor those that appear later",
    "what the host would run or obey is not changed unseen",
    "the network is judged by name",
    "and on every port",
    "values of credentials are never inside",
    "a kernel of its own",
};

const struct engine_ops *const engines[] = {&engine_native, &engine_docker,   &engine_podman, &engine_gvisor, &engine_lima,
                                            &engine_sbx,    &engine_seatbelt, &engine_none,   &engine_fake};
const size_t n_engines = ARRAY_LEN(engines);

/* Engines of the design that this build does not drive. */
static const char *const planned[] = {"microvm", "kubernetes"};

const struct engine_ops *engine_find(const char *name, struct err *err) {
    for (size_t i = 0; i < n_engines; i++)
        if (str_eq(engines[i]->name, name))
            return engines[i];
    for (size_t i = 0; i < ARRAY_LEN(planned); i++)
        if (str_eq(planned[i], name)) {
            err_set(err, -ENOTSUP, "engine '%s' is not in this version of Bawn; use --engine native", name);
            return NULL;
        }
    err_usage(err, "unknown engine '%s' (known: auto, native, docker, podman, gvisor, lima, sbx, sandbox-exec, none)", name);
    return NULL;
}

const struct engine_ops *engine_better(unsigned keeps) {
    struct engine_state state[4];
    const char *names[4];

    for (size_t i = 0; i < n_engines; i++)
        if (engines[i]->asks_others && engines[i]->has_gate && (!engines[i]->is_used || engines[i]->is_used()) &&
            engines[i]->probe(state, names, ARRAY_LEN(state)) > 0 && state[0].available && state[0].keeps & ~keeps)
            return engines[i];
    return NULL;
}

void sandbox_close_listeners(struct sandbox *sb) {
    for (size_t i = 0; i < ARRAY_LEN(sb->net); i++)
        closep(&sb->net[i]);
    for (size_t i = 0; i < ARRAY_LEN(sb->net_named); i++)
        closep(&sb->net_named[i]);
    for (size_t i = 0; i < ARRAY_LEN(sb->shown); i++)
        closep(&sb->shown[i]);
}

/* Our folder, or the one beside it: `dir` ends with a slash. Without "..", because engines name a path they cannot mount by its shortest form. */
static const char *const helper_places[] = {"", "libexec/bawn/"};

static int open_helper(const char *dir, size_t place, const char *name, char *ret_path, size_t size) {
    int fd;

    if ((size_t)snprintf(ret_path, size, "%s%s%s", dir, helper_places[place], name) >= size)
        return -ENAMETOOLONG;
    fd = open(ret_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

int engine_helper(const char *name, char *ret_path, size_t size) {
    char dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    int r = -ENOENT;

    if (n < 0)
        return -errno;
    for (size_t i = 0; r == -ENOENT && i < ARRAY_LEN(helper_places); i++) {
        while (n > 0 && dir[n - 1] != '/')
            n--;
        dir[n] = 0;
        r = open_helper(dir, i, name, ret_path, size);
        n = n > 1 ? n - 1 : n;
    }
    return r;
}
