/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration of bawnd: one table of keys, then what is missing is filled in. */
#include "service/core/core_conf.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonfile.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "os/file.h"
#include "proto/api/apimsg.h"

enum { CONF_MAX = 256 * 1024, LIST_MAX = 16, SECRETS_MAX = 64 };

void core_conf_done(struct core_conf *c) {
    char *const texts[] = {c->state, c->runtime, c->socket, c->certificate, c->key, c->bawn, c->helpers, c->log, c->trace};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    strv_done(&c->listen);
    strv_done(&c->hosts);
    for (size_t i = 0; i < c->n_classes; i++) {
        free(c->classes[i].name);
        strv_done(&c->classes[i].secrets);
    }
    free(c->classes);
}

/* -- values ------------------------------------------------------------------------------------------------------------------ */

static int read_path(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    if (json_string_value(v)[0] != '/')
        return jsonwalk_fail(w, err, "must be an absolute path");
    return str_set(arg, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

static int read_bool(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (!json_is_boolean(v))
        return jsonwalk_wrong_type(w, v, "true or false", err);
    *(bool *)arg = json_is_true(v);
    return 0;
}

static int read_count(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return jsonwalk_wrong_type(w, v, "a number, 0 or more", err);
    *(uint64_t *)arg = (uint64_t)json_integer_value(v);
    return 0;
}

static int read_some(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    int r = read_count(w, v, arg, err);

    return r == 0 && *(uint64_t *)arg == 0 ? jsonwalk_fail(w, err, "must be at least 1") : r;
}

static int read_size(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (json_is_integer(v))
        return read_count(w, v, arg, err);
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a size, e.g. \"64m\"", err);
    return jsonwalk_ctx(w, parse_size(json_string_value(v), arg, err), err);
}

static int read_sync(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    static const char *const names[] = {"normal", "full"};
    int i = json_is_string(v) ? str_index(json_string_value(v), names, ARRAY_LEN(names)) : -1;

    if (i < 0)
        return jsonwalk_fail(w, err, "must be \"normal\" or \"full\"");
    *(bool *)arg = i == 1;
    return 0;
}

static int read_item(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    return strv_add(arg, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

/* getaddrinfo(3) takes 99999 for port 34463. */
int core_conf_address(const char *text, struct addrinfo **ret, struct err *err) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    CLEANUP(freep) char *host = strdup(text[0] == '[' ? text + 1 : text);
    char *port = host ? strrchr(host, ':') : NULL, *bracket = host ? strrchr(host, ']') : NULL;
    uint64_t number;

    if (!host)
        return err_oom(err);
    if (port)
        *port++ = 0;
    if (bracket)
        *bracket = 0;
    if (!port || parse_u64(port, 0, UINT16_MAX, &number, NULL) < 0 || getaddrinfo(host, port, &hints, ret) != 0)
        return err_usage(err, "'%.200s' is no address with a port, as in 127.0.0.1:8443 or [::1]:8443", text);
    return 0;
}

static int read_address(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct addrinfo *a = NULL;
    int r = read_item(w, v, arg, err);

    r = r < 0 ? r : jsonwalk_ctx(w, core_conf_address(json_string_value(v), &a, err), err);
    if (a)
        freeaddrinfo(a);
    return r;
}

static int read_addresses(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_elements(w, v, API_LISTEN_MAX, read_address, arg, err);
}

static int read_list(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_elements(w, v, LIST_MAX, read_item, arg, err);
}

static int read_quota(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    uint64_t *quotas = arg;
    int i = str_index(jsonwalk_key_of(w), quota_names, QUOTAS);

    if (i < 0)
        return jsonwalk_unknown_key(w, str_nearest(jsonwalk_key_of(w), quota_names, QUOTAS),
                                    "running, queued, runs_per_hour, ...", err);
    return read_size(w, v, &quotas[i], err);
}

static int read_quotas(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_each(w, v, read_quota, arg, err);
}

static int read_class(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct core_conf *c = arg;
    struct core_class class = {.name = strdup(jsonwalk_key_of(w))};

    if (!class.name || VEC_ADD(c->classes, c->n_classes, class) < 0)
        return err_oom(err);
    return jsonwalk_elements(w, v, SECRETS_MAX, read_item, &c->classes[c->n_classes - 1].secrets, err);
}

static int read_classes(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_each(w, v, read_class, arg, err);
}

#define CONF_KEY(name, how, member) \
    { (name), (how), offsetof(struct core_conf, member) }

static const struct jsonwalk_key keys[] = {
    CONF_KEY("state", read_path, state),
    CONF_KEY("runtime", read_path, runtime),
    CONF_KEY("socket", read_path, socket),
    CONF_KEY("listen", read_addresses, listen),
    CONF_KEY("hosts", read_list, hosts),
    CONF_KEY("certificate", read_path, certificate),
    CONF_KEY("key", read_path, key),
    CONF_KEY("any_user", read_bool, any_user),
    CONF_KEY("sync", read_sync, full_sync),
    CONF_KEY("running", read_some, running),
    CONF_KEY("queued", read_some, queued),
    CONF_KEY("uid_base", read_some, uid_base),
    CONF_KEY("output_max", read_size, output_max),
    CONF_KEY("keep_hours", read_some, keep_hours),
    CONF_KEY("disk_budget", read_size, disk_budget),
    CONF_KEY("log", read_path, log),
    CONF_KEY("trace", read_path, trace),
    CONF_KEY("log_size", read_size, log_size),
    CONF_KEY("log_files", read_count, log_files),
    CONF_KEY("upload_max", read_size, upload_max),
    CONF_KEY("json_max", read_size, json_max),
    {"classes", read_classes, 0},
    CONF_KEY("quotas", read_quotas, quotas),
    CONF_KEY("bawn", read_path, bawn),
    CONF_KEY("helpers", read_path, helpers),
};

/* -- what is missing --------------------------------------------------------------------------------------------------------- */

static void fill_numbers(struct core_conf *c) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    c->running = 4 * (uint64_t)MAX_OF(cpus, 2);
    c->queued = 100000;
    c->uid_base = 0x71000000;
    c->output_max = 64 << 20;
    c->keep_hours = 7 * 24;
    c->upload_max = UINT64_C(1) << 30;
    c->json_max = 8 << 20;
    c->log_size = 64 << 20;
    c->log_files = 4;
    for (int i = 0; i < QUOTAS; i++)
        c->quotas[i] = QUOTA_NONE;
}

/* Beside us in a build, in libexec where it is installed. */
static int fill_programs(struct core_conf *c, struct err *err) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;
    CLEANUP(freep) char *beside = NULL;

    if (n < 0)
        return err_sys(err, -errno, "find our own program");
    self[n] = 0;
    slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    beside = str_dupf("%s/bawn-task", self);
    if (beside && !c->helpers)
        c->helpers = access(beside, X_OK) == 0 ? strdup(self) : str_dupf("%s/../libexec/bawn", self);
    if (!c->bawn)
        c->bawn = str_dupf("%s/bawn", self);
    return c->bawn && c->helpers && beside ? 0 : err_oom(err);
}

static int user_paths(struct core_conf *c, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    if (r >= 0 && !c->state)
        r = paths_state(environ, home, "service", &c->state, err);
    if (r >= 0 && !c->runtime)
        r = paths_runtime(environ, &c->runtime, err);
    if (r >= 0 && c->state && !c->runtime)
        c->runtime = str_dupf("%s/run", c->state);
    return r < 0 ? r : c->state && c->runtime ? 0 : err_set(err, -ENOENT, "no place for the state: set HOME or XDG_STATE_HOME");
}

static int fill_paths(struct core_conf *c, struct err *err) {
    int r = 0;

    if (geteuid() == 0) {
        c->state = c->state ? c->state : strdup("/var/lib/bawn");
        c->runtime = c->runtime ? c->runtime : strdup("/run/bawn");
    } else
        r = user_paths(c, err);
    if (r < 0)
        return r;
    if (!c->socket && c->runtime)
        c->socket = str_dupf("%s/api.sock", c->runtime);
    return c->state && c->runtime && c->socket ? fill_programs(c, err) : err_oom(err);
}

static int conf_place(char **ret, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = 0;

    if (geteuid() == 0)
        *ret = strdup("/etc/bawn/bawnd.json");
    else
        r = paths_home(environ, &home, err) < 0 ? err->code : paths_config(environ, home, "bawnd.json", ret, err);
    return r < 0 ? r : *ret ? 0 : err_oom(err);
}

static int check_conf(const struct core_conf *c, const char *path, struct err *err) {
    if (!c->certificate != !c->key)
        return err_usage(err, "%s: \"certificate\" and \"key\" belong together", path);
    if (c->uid_base < 0x10000 || c->uid_base > 0x7e000000)
        return err_usage(err, "%s: \"uid_base\" must be from 65536 to 2113929216", path);
    return 0;
}

int core_conf_load(const char *path, struct core_conf *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CONF_MAX);
    CLEANUP(jsonfile_done) struct jsonfile file = {0};
    CLEANUP(freep) char *usual = NULL;
    struct jsonwalk w = {.file = &file};
    int r = path ? 0 : conf_place(&usual, err);
    const char *place = path ? path : usual;

    fill_numbers(ret);
    if (r < 0)
        return r;
    r = file_read(place, FILE_FOLLOW, &text);
    if (r < 0 && (r != -ENOENT || path))
        return file_err(err, r, place, CONF_MAX);
    if (r == 0) {
        r = jsonfile_parse(place, text.data, text.len, CONF_MAX, &file, err);
        r = r < 0 ? r : jsonwalk_members(&w, file.root, keys, ARRAY_LEN(keys), ret, err);
        if (r < 0)
            return r;
    }
    r = fill_paths(ret, err);
    return r < 0 ? r : check_conf(ret, place, err);
}
