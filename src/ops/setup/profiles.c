/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, copies and checks profiles. */
#include "ops/setup/profiles.h"

#include <errno.h>
#include <unistd.h>

#include "base/str.h"
#include "config/load/paths.h"

int profiles_open(struct profiles *ret, struct err *err) {
    int r = paths_home(environ, &ret->home, err);

    ret->place.look_only = true;
    return r < 0 ? r : profile_place_init(&ret->place, environ, ret->home, err);
}

void profiles_done(struct profiles *p) {
    profile_place_done(&p->place);
    free(p->home);
}

void profile_entry_done(struct profile_entry *e) {
    layer_done(&e->layer);
    free(e->source);
}

void profiles_load(const struct profiles *p, const char *name, struct profile_entry *ret) {
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = profile_find(&p->place, name, &d, &ret->source, &ret->problem);

    if (r == 0)
        r = file_read_profile(&d, p->home, name, &ret->layer, &ret->problem);
    if (r == 0)
        ret->problem = (struct err){0};
}

static int copy_profile(const struct profiles *p, const char *file, const char *base, struct err *err) {
    CLEANUP(freep) char *source = NULL;
    CLEANUP(layer_done) struct layer check = {0};
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = profile_find(&p->place, base, &d, &source, err);

    r = r < 0 ? r : file_read_profile(&d, p->home, base, &check, err);
    r = r < 0 ? r : paths_make_dirs(p->place.folder, err);
    return r < 0 ? r : paths_publish(p->place.folder, file, d.data, d.len, PUBLISH_NEW, err);
}

int profiles_create(const char *name, const char *base, char **ret_path, struct err *err) {
    CLEANUP(profiles_done) struct profiles p = {0};
    char file[80];
    int r;

    if (!profile_name_is_good(name))
        return err_usage(err, "'%.80s' is not the name of a profile (letters, digits, '.', '_', '-'; at most 64)", name);
    r = profiles_open(&p, err);
    if (r < 0)
        return r;
    if (!p.place.folder)
        return err_set(err, -ENOENT, "there is no home folder to keep profiles in");
    snprintf(file, sizeof file, "%s.json", name);
    r = copy_profile(&p, file, base, err);
    if (r == -EEXIST)
        return err_usage(err, "profile '%s' already exists (%s/%s)", name, p.place.folder, file);
    if (r < 0)
        return r;
    *ret_path = str_dupf("%s/%s", p.place.folder, file);
    return *ret_path ? 0 : err_oom(err);
}

int profiles_check(const char *path, struct err *err) {
    CLEANUP(layer_done) struct layer l = {0};
    CLEANUP(freep) char *home = NULL;
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = paths_home(environ, &home, err);

    if (r < 0)
        return r;
    r = doc_read(path, &d, err);
    if (r == 0)
        return err_usage(err, "%s: there is no such file", path);
    return r < 0 ? r : file_read_profile(&d, home, path, &l, err);
}
