/* SPDX-License-Identifier: Apache-2.0 */
/* From the name of an image to what the plan needs of it. */
#include "ops/run/run_image.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/image/image_pull.h"
#include "ops/notice.h"
#include "os/fd.h"
#include "supervisor/session/progress_bar.h"

void run_image_done(struct run_image *i) {
    closep(&i->plan.lock);
    image_store_done(&i->store);
    image_info_done(&i->info);
    engine_image_done(&i->own);
    strv_done(&i->layers);
    strv_done(&i->argv);
    free(i->name);
    *i = (struct run_image)RUN_IMAGE_INIT;
}

static int look_in_store(const char *wanted, struct run_image *i, struct err *err) {
    int r = i->store.fd >= 0 ? 0 : image_store_of_user(false, &i->store, err);

    if (r == -ENOENT && !err->code)
        return err_set(err, r, "there is no image '%.200s' in the store: get it with 'bawn image pull'", wanted);
    return r < 0 ? r : image_store_find(&i->store, wanted, &i->info, &i->plan.lock, &i->name, err);
}

static int pull_missing(const char *wanted, const struct notice *notice, struct err *err) {
    CLEANUP(image_pulled_done) struct image_pulled pulled = {0};
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("getting the image");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    const struct image_pull_request q = {.what = wanted, .progress = &progress};

    bar.of_bytes = true;
    notice_say(notice, "image '%.200s' is not in the store: getting it", wanted);
    return image_pull(&q, &pulled, err);
}

/* As docker has it: the entry point, then what the user says, or else what the image says. */
static int make_argv(struct run_image *i, const struct strv *entrypoint, const struct strv *cmd, char **argv, size_t argc) {
    int r = strv_add_all(&i->argv, entrypoint);

    for (size_t k = 0; r == 0 && k < argc; k++)
        r = strv_add(&i->argv, argv[k]);
    return r < 0 || argc ? r : strv_add_all(&i->argv, cmd);
}

static int fill_plan(struct run_image *i, bool own_command, struct err *err) {
    const struct image_info *info = &i->info;
    int r = 0;

    for (size_t k = info->layers.len; r == 0 && k-- > 0;)
        r = strv_add_take(&i->layers, image_store_layer(&i->store, info->layers.v[k]));
    i->plan = (struct plan_image){.name = i->name,
                                  .id = info->id,
                                  .layers = &i->layers,
                                  .env = &info->env,
                                  .workdir = own_command && info->workdir[0] == '/' ? info->workdir : NULL,
                                  .passwd = info->passwd,
                                  .group = info->group,
                                  .uid = (uid_t)info->uid,
                                  .gid = (gid_t)info->gid,
                                  .lock = i->plan.lock};
    return r < 0 ? err_oom(err) : 0;
}

int run_image_find(const char *wanted, char **argv, size_t argc, bool only_look, const struct notice *notice, struct run_image *i,
                   struct err *err) {
    int r = look_in_store(wanted, i, err);

    if (r == -ENOENT && !only_look) {
        *err = (struct err){0};
        r = pull_missing(wanted, notice, err);
        r = r < 0 ? r : look_in_store(wanted, i, err);
    }
    r = r < 0 ? r : fill_plan(i, argc == 0, err);
    return r < 0 ? r : make_argv(i, &i->info.entrypoint, &i->info.cmd, argv, argc) < 0 ? err_oom(err) : 0;
}

int run_image_ask(const struct engine_ops *e, const char *wanted, char **argv, size_t argc, struct run_image *i,
                  struct err *err) {
    int r = e->image(wanted, &i->own, err);

    if (r < 0)
        return r;
    i->plan = (struct plan_image){.name = wanted,
                                  .id = "",
                                  .layers = &i->layers,
                                  .env = &i->own.env,
                                  .workdir = argc == 0 && i->own.workdir[0] == '/' ? i->own.workdir : NULL,
                                  .passwd = "",
                                  .group = "",
                                  .lock = -1};
    return make_argv(i, &i->own.entrypoint, &i->own.cmd, argv, argc) < 0 ? err_oom(err) : 0;
}
