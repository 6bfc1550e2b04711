/* SPDX-License-Identifier: Apache-2.0 */
/* Makes images with the programs of this machine, and with an engine's own builder. */
#include "ops/image/image_make.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container.h"
#include "jail/plan/plan.h"
#include "ops/image/image_source.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"

const char *const image_place_names[IMAGE_PLACES] = {
    [IMAGE_TO_STORE] = "store", [IMAGE_TO_DOCKER] = "docker", [IMAGE_TO_PODMAN] = "podman"};

/* -- of the host -------------------------------------------------------------------------------------------------------- */

static int host_paths(const struct image_host_request *q, struct strv *ret, struct err *err) {
    CLEANUP(strv_done) struct strv all = {0};
    int r = 0;

    if (q->n == 0 && plan_host_paths(&all) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < (q->n ? q->n : all.len); i++) {
        const char *path = q->n ? q->paths[i] : all.v[i];
        struct stat st;

        if (path[0] != '/' || !path[1])
            return err_usage(err, "'%s' is not a path of a part of this machine", path);
        if (q->n && lstat(path, &st) < 0)
            return err_sys(err, -errno, "'%s'", path);
        if (q->n || lstat(path, &st) == 0)
            r = strv_add(ret, path + 1);
    }
    return r < 0 ? err_oom(err) : 0;
}

static void cli_done(struct container_cli *c) {
    strv_done(&c->env);
}

/* `tar | docker import - NAME`: the engine's own store. */
static int into_engine(const struct image_host_request *q, const struct strv *paths, struct err *err) {
    CLEANUP(image_source_done) struct image_source s = IMAGE_SOURCE_INIT;
    CLEANUP(cli_done) struct container_cli cli = {.env = {0}};
    const char *program = image_place_names[q->place];
    char *argv[] = {(char *)(uintptr_t)program, "import", "-", (char *)(uintptr_t)q->name, NULL};
    struct spawn sp = {.path = cli.program, .argv = argv, .n_fds = 3, .cwd = SPAWN_CWD_STAY};
    int r = image_program_find(program, &cli, err), fds[3] = {-1, -1, STDERR_FILENO};

    if (r == -ENOENT)
        err_set(err, r, "'%s' is not installed", program);
    r = r < 0 ? r : image_source_host(paths, &s, err);
    if (r < 0)
        return r;
    fds[0] = s.fd;
    sp.fds = fds;
    sp.envp = cli.env.v;
    r = spawn_run(&sp);
    if (r < 0)
        return err_sys(err, r, "start '%s'", cli.program);
    closep(&s.fd);
    if (process_exit_status(r) != 0)
        return err_set(err, -EIO, "'%s import' failed", program);
    return image_source_end(&s, err);
}

int image_from_host(const struct image_host_request *q, struct image_pulled *ret, struct err *err) {
    CLEANUP(strv_done) struct strv paths = {0};
    struct image_pull_request pull = {.what = "this machine", .tag = q->name, .host = &paths, .progress = q->progress};
    struct oci_ref ref;
    int r = oci_ref_parse(q->name, &ref, err);

    r = r < 0 ? r : host_paths(q, &paths, err);
    if (r < 0)
        return r;
    if (q->place == IMAGE_TO_STORE)
        return image_pull(&pull, ret, err);
    r = into_engine(q, &paths, err);
    *ret = (struct image_pulled){.name = strdup(q->name), .id = strdup("")};
    return r < 0 ? r : ret->name && ret->id ? 0 : err_oom(err);
}

/* -- recipes ------------------------------------------------------------------------------------------------------------ */

/* Beside the program: images/ of the source, or share/bawn/images of what is installed. */
static int find_recipe(const char *recipe, char ret[static PATH_MAX], struct err *err) {
    static const char *const places[] = {"../share/bawn/images", "../images", "images"};
    char self[PATH_MAX], *slash;
    ssize_t n;

    if (strchr(recipe, '/') || recipe[0] == '.') {
        snprintf(ret, PATH_MAX, "%s", recipe);
        return 0;
    }
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return err_sys(err, -errno, "find the recipes of Bawn");
    self[n] = 0;
    slash = strrchr(self, '/');
    *slash = 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if ((size_t)snprintf(ret, PATH_MAX, "%.2000s/%s/%.64s", self, places[i], recipe) < PATH_MAX && access(ret, R_OK) == 0)
            return 0;
    return err_usage(err, "there is no recipe '%s' (minimal, python, node, full); the path of a folder begins with '/' or '.'",
                     recipe);
}

static int run_build(const char *engine, const char *name, const char *dir, struct err *err) {
    char file[PATH_MAX + 16];
    char *argv[] = {(char *)(uintptr_t)engine, "build", "-t", (char *)(uintptr_t)name, "-f", file, (char *)(uintptr_t)dir, NULL};
    const int fds[3] = {-1, STDERR_FILENO, STDERR_FILENO}; /* what is on stdout is for programs */
    CLEANUP(cli_done) struct container_cli cli = {.env = {0}};
    int r = image_program_find(engine, &cli, err);
    const struct spawn sp = {.path = cli.program,
                             .argv = argv,
                             .envp = cli.env.v,
                             .fds = fds,
                             .n_fds = 3,
                             .cwd = SPAWN_CWD_STAY,
                             .group = SPAWN_TERMINAL};

    if (r < 0 && r != -ENOENT)
        return r;
    snprintf(file, sizeof file, "%s/Containerfile", dir);
    if (access(file, R_OK) < 0)
        snprintf(file, sizeof file, "%s/Dockerfile", dir);
    if (access(file, R_OK) < 0)
        return err_usage(err, "there is no Containerfile in '%s'", dir);
    r = r < 0 ? r : spawn_run(&sp);
    if (r < 0)
        return r == -ENOENT ? r : err_sys(err, r, "start '%s'", engine);
    return process_exit_status(r) ? err_set(err, -EIO, "'%s build' failed with status %d", engine, process_exit_status(r)) : 0;
}

int image_build(const struct image_build_request *q, struct image_pulled *ret, struct err *err) {
    static const char *const builders[] = {"podman", "docker"};
    char dir[PATH_MAX], what[OCI_NAME_SIZE + 16], name[OCI_NAME_SIZE];
    const char *used = NULL;
    struct image_pull_request pull = {.what = what, .progress = q->progress};
    struct oci_ref ref;
    int r = find_recipe(q->recipe, dir, err);

    if (r < 0)
        return r;
    for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--)
        dir[n - 1] = 0;
    snprintf(name, sizeof name, "localhost/bawn/%.64s:latest", strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
    if (q->name)
        snprintf(name, sizeof name, "%s", q->name);
    if (oci_ref_parse(name, &ref, err) < 0)
        return q->name ? err->code : err_usage(err, "the folder's name is no name for an image: give it one with --tag NAME");
    for (size_t i = 0; !used && i < ARRAY_LEN(builders); i++) {
        if (q->engine && !str_eq(q->engine, builders[i]))
            continue;
        r = run_build(builders[i], name, dir, err);
        if (r < 0 && r != -ENOENT)
            return r;
        used = r == 0 ? builders[i] : NULL;
    }
    if (!used)
        return err_set(err, -ENOENT, "building an image needs podman or docker, and %s not installed",
                       q->engine ? "this one is" : "neither is");
    snprintf(what, sizeof what, "%s:%s", used, name);
    pull.tag = name;
    return image_pull(&pull, ret, err);
}
