/* SPDX-License-Identifier: Apache-2.0 */
/* What docker or podman really enforces here: asked of the engine itself, as one JSON object. */
#include <errno.h>
#include <limits.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/container/container.h"

enum { INFO_MAX = 1024 * 1024, PROBE_MS = 5000 };

/* By its construction: mounts, no network, descriptors, bawn-init's filter; whatever the daemon can limit. */
enum {
    ALWAYS = ENFORCES_FILES | ENFORCES_PROCESSES | ENFORCES_NETWORK | ENFORCES_SOCKETS | ENFORCES_SYSCALLS | ENFORCES_DISK |
             ENFORCES_TIME | ENFORCES_END | ENFORCES_HIDING | ENFORCES_HIDING_LATER | ENFORCES_PROTECTION | ENFORCES_NAMES |
             ENFORCES_PORTS | ENFORCES_CREDENTIALS
};

static bool is_true(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static bool list_has(const json_t *list, const char *word) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));

        if (s && str_starts(s, word))
            return true;
    }
    return false;
}

static unsigned docker_limits(const json_t *info) {
    return (is_true(info, "CpuCfsQuota") ? ENFORCES_CPU : 0u) | (is_true(info, "MemoryLimit") ? ENFORCES_MEMORY : 0u) |
           (is_true(info, "PidsLimit") ? ENFORCES_PIDS : 0u);
}

static unsigned podman_limits(const json_t *info) {
    const json_t *list = json_object_get(json_object_get(info, "host"), "cgroupControllers");

    return (list_has(list, "cpu") ? ENFORCES_CPU : 0u) | (list_has(list, "memory") ? ENFORCES_MEMORY : 0u) |
           (list_has(list, "pids") ? ENFORCES_PIDS : 0u);
}

/* A daemon with another kernel than ours is another machine's, whatever its socket is. podman says so itself, also where its service may be here. */
static bool has_our_kernel(const json_t *info) {
    const json_t *host = json_object_get(info, "host");
    const char *kernel = json_string_value(json_object_get(host ? host : info, host ? "kernel" : "KernelVersion"));
    struct utsname u;

    return !is_true(host, "serviceIsRemote") && (!kernel || uname(&u) < 0 || str_eq(kernel, u.release));
}

/* How large a folder there becomes is not seen from here. */
static void judge_remote(const char *where, struct engine_state *ret) {
    ret->keeps &= ~(unsigned)ENFORCES_DISK;
    snprintf(
        ret->why, sizeof ret->why,
        "it is on another machine (%.80s): the workspace is copied there and back, it needs an image, and disk is not limited",
        where);
}

static void judge(const struct container_kind *k, const json_t *info, const char *where, struct engine_state *ret) {
    const char *os = json_string_value(json_object_get(info, "OSType"));
    const json_t *errors = json_object_get(info, "ServerErrors");

    if (json_array_size(errors)) {
        struct err err = {0};

        container_trouble(k, json_string_value(json_array_get(errors, 0)), -EIO, &err);
        snprintf(ret->why, sizeof ret->why, "%.*s", (int)sizeof ret->why - 1, err.msg);
        return;
    }
    if (os && !str_eq(os, "linux")) {
        snprintf(ret->why, sizeof ret->why, "its containers are %.40s's, not Linux's", os);
        return;
    }
    ret->available = true;
    ret->keeps = (unsigned)ALWAYS | (k != &container_podman ? docker_limits(info) : podman_limits(info));
    if (!(ret->keeps & ENFORCES_MEMORY))
        snprintf(ret->why, sizeof ret->why, "it cannot limit memory here (its control groups do not have the controller)");
    if (*where || !has_our_kernel(info))
        judge_remote(*where ? where : "behind a socket of this one", ret);
}

static int ask_info(const struct container_kind *k, json_t **ret, char ret_where[static CONTAINER_WHERE], struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(INFO_MAX), said = BUF_INIT(16 * 1024);
    struct container_cli cli = {.limit_ms = PROBE_MS};
    char cwd[PATH_MAX];
    char *const argv[] = {(char *)(uintptr_t)k->program, "info", "--format", k != &container_podman ? "{{json .}}" : "json",
                          NULL};
    int r = container_cli_find(k, getcwd(cwd, sizeof cwd) ? cwd : "/", &cli, err);

    r = r < 0 ? r : container_find_place(k, &cli, ret_where, err);
    if (r >= 0)
        r = container_call(&cli, argv, NULL, &out, &said);
    strv_done(&cli.env);
    if (err->code)
        return err->code;
    if (r > 0 && said.len) /* docker prints an object without contents then */
        return container_trouble(k, buf_str(&said), -EIO, err);
    *ret = r >= 0 ? json_loadb(buf_str(&out), out.len, 0, NULL) : NULL;
    return *ret ? 0 : container_trouble(k, said.len ? buf_str(&said) : "it does not answer", -EIO, err);
}

size_t container_probe(const struct container_kind *k, struct engine_state *ret, const char **ret_names, size_t max) {
    struct err err = {0};
    json_t *info = NULL;
    char where[CONTAINER_WHERE] = "";

    if (max == 0)
        return 0;
    *ret = (struct engine_state){0};
    ret_names[0] = k->name;
    if (ask_info(k, &info, where, &err) < 0)
        snprintf(ret->why, sizeof ret->why, "%.*s", (int)sizeof ret->why - 1, err.msg);
    else
        judge(k, info, where, ret);
    json_decref(info);
    return 1;
}
