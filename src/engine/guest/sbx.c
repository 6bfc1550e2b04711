/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine sbx: Docker Sandboxes, by their own program `sbx` or as `docker sandbox` of Docker Desktop 4.58 or later. A sandbox of kind "shell" runs no
 * agent; folders have the same names inside, and ":ro" after one makes it read-only.
 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/guest/guest.h"

enum { SBX_MIB = 1024 * 1024, SBX_SYSTEM_MIB = 512 };

/* The first folder is always writable there; in the sandbox each has the rights of the plan (guest_script.c). */
static int add_folders(const struct guest_shares *s, struct strv *ret) {
    size_t first = 0;
    int r;

    for (size_t i = 1; i < s->n && !s->v[first].writable; i++)
        first = s->v[i].writable ? i : first;
    if (!s->v[first].writable && s->n > 1)
        first = 1; /* never the folder of the run, which has our programs */
    r = strv_add(ret, s->v[first].from);
    for (size_t i = 0; r >= 0 && i < s->n; i++)
        if (i != first)
            r = strv_addf(ret, "%s%s", s->v[i].from, s->v[i].writable ? "" : ":ro");
    return r;
}

static int check_names(const struct guest_shares *s, struct err *err) {
    for (size_t i = 0; i < s->n; i++)
        if (strchr(s->v[i].from, ':') || !str_is_utf8(s->v[i].from))
            return err_set(err, -EINVAL, "Docker Sandboxes cannot have the folder '%.200s', because of its name", s->v[i].from);
    return 0;
}

/* `docker sandbox` has no options for these: what is inside is limited by bawn-init then, as on any engine that cannot. */
static int add_limits(const struct guest_kind *k, const struct limits *l, struct strv *ret) {
    int r = 0;

    if (!k->sized)
        return 0;
    if (l->cpus_milli)
        r = strv_addf(ret, "--cpus=%u", (unsigned)((l->cpus_milli + 999) / 1000));
    if (r >= 0 && l->memory)
        r = strv_addf(ret, "--memory=%um", (unsigned)(l->memory / SBX_MIB + SBX_SYSTEM_MIB));
    return r;
}

static int sbx_create(const struct guest_kind *k, const char *name, const char *folder UNUSED, const struct plan *p,
                      const char *image, const struct guest_shares *s, struct strv *ret, struct buf *ret_file UNUSED,
                      struct err *err) {
    int r = check_names(s, err);

    if (r < 0)
        return r;
    r = guest_argv(k, ret, "create", "--quiet", NULL);
    r = r < 0 ? r : strv_addf(ret, "--name=%s", name);
    r = r < 0 || !image ? r : strv_addf(ret, "--template=%s", image);
    r = r < 0 ? r : add_limits(k, &p->limits, ret);
    r = r < 0 ? r : strv_add(ret, "shell");
    return r < 0 || add_folders(s, ret) < 0 ? err_oom(err) : 0;
}

/* Privileged there, in a machine of its own: the script gives all of it up. */
static int sbx_exec(const struct guest_kind *k, const char *name, const char *script, struct strv *ret) {
    return guest_argv(k, ret, "exec", "--interactive", "--privileged", "--user=root", "--workdir=/", name, "sh", script, NULL);
}

static int sbx_remove(const struct guest_kind *k, const char *name, struct strv *ret) {
    return k == &guest_sbx ? guest_argv(k, ret, "rm", "--force", name, NULL) : guest_argv(k, ret, "rm", name, NULL);
}

static const char *const none[] = {NULL}, *const sandbox[] = {"sandbox", NULL}, *const version[] = {"version", NULL},
                         *const list[] = {"ls", "--quiet", NULL};

const struct guest_kind guest_sbx = {
    .cli = {.name = "sbx", .program = "sbx", .options = none, .by_bytes = true, .of_users = none, .bundle = guest_bundle},
    .prefix = none,
    .version = version,
    .sized = true,
    .remedy = "install Docker Sandboxes ('brew install docker/tap/sbx'), or Docker Desktop 4.58 or later",
    .create = sbx_create,
    .exec = sbx_exec,
    .remove = sbx_remove,
    .list = list,
};

const struct guest_kind guest_docker_sandbox = {
    .cli = {.name = "sbx", .program = "docker", .options = none, .by_bytes = true, .of_users = none, .bundle = guest_bundle},
    .prefix = sandbox,
    .version = version,
    .remedy = "install Docker Desktop 4.58 or later",
    .create = sbx_create,
    .exec = sbx_exec,
    .remove = sbx_remove,
    .list = list,
};

static const struct guest_kind *const kinds[] = {&guest_sbx, &guest_docker_sandbox, NULL};

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    return guest_probe(kinds, ret, ret_names, max);
}

static int sbx_image(const char *name UNUSED, struct engine_image *ret, struct err *err) {
    return guest_image(ret, err);
}

static int sbx_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    *ret_next = RUNG_FULL;
    return guest_start(kinds, req, sb, err);
}

static void sbx_finish(struct sandbox *sb) {
    guest_finish(kinds, sb);
}

const struct engine_ops engine_sbx = {
    .name = "sbx",
    .summary = "Docker Sandboxes: a virtual machine of Docker's for each run",
    .can_keep = ENFORCES_EVERYTHING,
    .asks_others = true,
    .takes_image = true,
    .own_image = "shell",
    .has_gate = true,
    .unmapped = true,
    .modes = 1 << WORKSPACE_SYNC | 1 << WORKSPACE_WORKTREE,
    .image = sbx_image,
    .probe = probe,
    .start = sbx_start,
    .stop = container_stop,
    .finish = sbx_finish,
};
