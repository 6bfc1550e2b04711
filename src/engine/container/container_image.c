/* SPDX-License-Identifier: Apache-2.0 */
/* What an image of the engine's says about its programs. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/container/container.h"

enum { CONFIG_MAX = 1024 * 1024 };

void engine_image_done(struct engine_image *i) {
    strv_done(&i->env);
    strv_done(&i->entrypoint);
    strv_done(&i->cmd);
    free(i->workdir);
    *i = (struct engine_image){.workdir = NULL};
}

/* What is no string is left out: an image is not to be trusted. */
static int take_list(const json_t *list, struct strv *ret) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));

        if (s && strv_add(ret, s) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int take_config(const json_t *config, struct engine_image *ret) {
    const char *workdir = json_string_value(json_object_get(config, "WorkingDir"));

    ret->workdir = strdup(workdir ? workdir : "");
    return !ret->workdir || take_list(json_object_get(config, "Env"), &ret->env) < 0 ||
                   take_list(json_object_get(config, "Entrypoint"), &ret->entrypoint) < 0 ||
                   take_list(json_object_get(config, "Cmd"), &ret->cmd) < 0
               ? -ENOMEM
               : 0;
}

int container_image(const struct container_kind *k, const char *name, struct engine_image *ret, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CONFIG_MAX), said = BUF_INIT(16 * 1024);
    struct container_cli cli = {.env = {0}};
    char cwd[PATH_MAX];
    char *const argv[] = {(char *)(uintptr_t)k->program, "image", "inspect", "--format", "{{json .Config}}", "--",
                          (char *)(uintptr_t)name,       NULL};
    json_t *config;
    int r = container_cli_find(k, getcwd(cwd, sizeof cwd) ? cwd : "/", &cli, err);

    if (r == 0)
        r = container_call(&cli, argv, NULL, &out, &said);
    strv_done(&cli.env);
    if (r < 0)
        return err->code ? err->code : err_sys(err, r, "run %s", k->name);
    if (r > 0)
        return container_trouble(k, buf_str(&said), -ENOENT, err);
    config = json_loadb(buf_str(&out), out.len, JSON_DECODE_ANY, NULL);
    r = take_config(config, ret);
    json_decref(config);
    return r < 0 ? err_oom(err) : 0;
}
