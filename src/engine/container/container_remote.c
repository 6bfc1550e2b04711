/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the engine is, as far as variables, contexts and connections say it. The program is asked only where a context is named, because asking takes
 * longer than most starts. A socket of this machine may lead to another one, too (Docker Desktop, an ssh tunnel): that shows when a folder
 * of ours is not there (container.c).
 */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "engine/container/container.h"
#include "os/file.h"

enum { CONFIG_MAX = 1024 * 1024, SAID_MAX = 16 * 1024 };

/* Another machine's; ssh://, tcp://, npipe:// and what is yet to come. */
static bool is_elsewhere(const char *host) {
    return host && *host && *host != '/' && !str_starts(host, "unix:") && !str_starts(host, "fd://");
}

/* The name of a place is printed, and part of the name of a folder's hash. */
static int name_host(const char *host, char ret_where[static CONTAINER_WHERE]) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(4096);

    buf_add_printable(&text, host);
    snprintf(ret_where, CONTAINER_WHERE, "%.*s", CONTAINER_WHERE - 1, buf_str(&text));
    return 1;
}

/* The one of the configuration; NULL: none is named. */
static char *configured_context(void) {
    const char *folder = paths_getenv(environ, "DOCKER_CONFIG"), *home = paths_getenv(environ, "HOME");
    CLEANUP(freep)
    char *path = folder ? str_dupf("%s/config.json", folder) : str_dupf("%s/.docker/config.json", home ? home : "");
    CLEANUP(buf_done) struct buf text = BUF_INIT(CONFIG_MAX);
    const char *name;
    char *ret = NULL;
    json_t *config;

    if (!path || file_read(path, 0, &text) < 0)
        return NULL;
    config = json_loadb(buf_str(&text), text.len, 0, NULL);
    name = json_string_value(json_object_get(config, "currentContext"));
    if (name && *name)
        ret = strdup(name);
    json_decref(config);
    return ret;
}

static int find_context(const struct container_kind *k, const struct container_cli *cli, const char *name,
                        char ret_where[static CONTAINER_WHERE], struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(SAID_MAX), said = BUF_INIT(SAID_MAX);
    char *const argv[] = {(char *)(uintptr_t)k->program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", "--",
                          (char *)(uintptr_t)name,       NULL};
    int r = container_call(cli, argv, NULL, &out, &said);
    char *end = out.len ? strchr(out.data, '\n') : NULL;

    if (r != 0)
        return r < 0 ? err_sys(err, r, "run %s", cli->program) : container_trouble(k, buf_str(&said), -EIO, err);
    if (end)
        *end = 0;
    return is_elsewhere(buf_str(&out)) ? name_host(buf_str(&out), ret_where) : 0;
}

/* podman's connections; on a Mac all of them lead to a machine of its own, through an ssh tunnel. */
static int find_connection(const struct container_kind *k, const struct container_cli *cli, const char *name,
                           char ret_where[static CONTAINER_WHERE], struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CONFIG_MAX), said = BUF_INIT(SAID_MAX);
    CLEANUP(json_decrefp) json_t *list = NULL;
    char *const argv[] = {(char *)(uintptr_t)k->program, "system", "connection", "list", "--format", "json", NULL};
    int r = container_call(cli, argv, NULL, &out, &said);

    if (r != 0)
        return r < 0 ? err_sys(err, r, "run %s", cli->program) : container_trouble(k, buf_str(&said), -EIO, err);
    list = json_loadb(buf_str(&out), out.len, 0, NULL);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = json_string_value(json_object_get(json_array_get(list, i), "Name"));
        const char *uri = json_string_value(json_object_get(json_array_get(list, i), "URI"));

        if (of && uri && str_eq(of, name))
            return is_elsewhere(uri) ? name_host(uri, ret_where) : 0;
    }
    return err_set(err, -ENOENT, "engine %s: there is no connection '%.100s' ('podman system connection list')", k->name, name);
}

int container_find_place(const struct container_kind *k, const struct container_cli *cli, char ret_where[static CONTAINER_WHERE],
                         struct err *err) {
    const char *variable = str_eq(k->program, "docker") ? "DOCKER_HOST" : "CONTAINER_HOST";
    const char *host = paths_getenv(environ, variable), *named = paths_getenv(environ, "DOCKER_CONTEXT");
    CLEANUP(freep) char *context = NULL;

    if (k->bundle)
        return 0;
    if (is_elsewhere(host))
        return name_host(host, ret_where);
    if (host && *host)
        return 0;
    if (!str_eq(k->program, "docker")) {
        named = paths_getenv(environ, "CONTAINER_CONNECTION");
        return named && *named ? find_connection(k, cli, named, ret_where, err) : 0;
    }
    context = named && *named ? strdup(named) : configured_context();
    return context && !str_eq(context, "default") ? find_context(k, cli, context, ret_where, err) : 0;
}
