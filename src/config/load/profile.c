/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, installs and reads profiles. */
#include "config/load/profile.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"

enum { NAMES_MAX = 1000 };

int profile_place_init(struct profile_place *p, char *const *environ_, const char *home, struct err *err) {
    p->home = home;
    return paths_config(environ_, home, "profiles", &p->folder, err);
}

void profile_place_done(struct profile_place *p) {
    free(p->folder);
    *p = (struct profile_place){0};
}

const struct builtin_file *builtin_find(const struct builtin_file *files, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (str_eq(files[i].name, name))
            return &files[i];
    return NULL;
}

int profile_install(const struct profile_place *p, struct err *err) {
    int r;

    if (!p->folder || (p->home && access(p->home, F_OK) < 0)) /* HOME=/nonexistent is for services: do not create that */
        return err_set(err, -ENOENT, "there is no home folder to keep profiles in");
    r = paths_make_dirs(p->folder, err);
    for (size_t i = 0; i < n_builtin_profiles && r == 0; i++) {
        const struct builtin_file *b = &builtin_profiles[i];
        char file[80];

        snprintf(file, sizeof file, "%s.json", b->name);
        r = paths_publish(p->folder, file, b->text, b->len, PUBLISH_NEW, err);
        if (r == -EEXIST)
            r = 0;
    }
    return r;
}

static int add_files(const char *folder, struct strv *names) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    if (folder)
        dir_open_linked(folder, &d);
    while (names->len < NAMES_MAX && (e = dir_next(&d))) {
        char name[256];

        if (!str_ends(e->d_name, ".json"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(e->d_name) - strlen(".json")), e->d_name);
        if (profile_name_is_good(name) && !strv_has(names, name) && strv_add(names, name) < 0)
            return -ENOMEM;
    }
    return 0;
}

int profile_names(const struct profile_place *p, struct strv *ret, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};

    for (size_t i = 0; i < n_builtin_profiles; i++)
        if (strv_add(&names, builtin_profiles[i].name) < 0)
            return err_oom(err);
    if (add_files(p->folder, &names) < 0)
        return err_oom(err);
    qsort(names.v, names.len, sizeof *names.v, str_compare);
    *ret = TAKE(names, (struct strv){0});
    return 0;
}

static int not_found(const struct profile_place *p, const char *name, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    CLEANUP(buf_done) struct buf known = BUF_INIT(400);
    const char *near;
    int r = profile_names(p, &names, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < names.len; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", names.v[i]);
    near = str_nearest(name, (const char *const *)names.v, names.len);
    if (near)
        return err_usage(err, "there is no profile '%s' (did you mean '%s'?)", name, near);
    return err_usage(err, "there is no profile '%s' (known: %s)", name, buf_str(&known));
}

static int find_by_path(const struct profile_place *p, const char *path, struct jsonfile *ret, char **ret_source,
                        struct err *err) {
    bool at_home = str_starts(path, "~/") && p->home;
    CLEANUP(freep) char *full = at_home ? str_dupf("%s%s", p->home, path + 1) : strdup(path);
    int r = full ? doc_read(full, ret, err) : err_oom(err);

    if (r == 0)
        return err_usage(err, "there is no profile '%s'", full);
    if (r > 0)
        *ret_source = TAKE_PTR(full);
    return MIN_OF(r, 0);
}

/* The copy in the program, put into the folder if that can be done: a read-only home is no reason to refuse. */
static int find_builtin(const struct profile_place *p, const struct builtin_file *b, char *file, struct jsonfile *ret,
                        char **ret_source, struct err *err) {
    bool installed = file && !p->look_only && profile_install(p, NULL) == 0 && access(file, R_OK) == 0;
    CLEANUP(freep) char *source = strdup(installed ? file : "built-in");
    int r = source ? jsonfile_parse(source, b->text, b->len, DOC_SIZE_MAX, ret, err) : err_oom(err);

    if (r == 0)
        *ret_source = TAKE_PTR(source);
    return r;
}

int profile_find(const struct profile_place *p, const char *name, struct jsonfile *ret, char **ret_source, struct err *err) {
    const struct builtin_file *b = builtin_find(builtin_profiles, n_builtin_profiles, name);
    CLEANUP(freep) char *file = NULL;
    int r = 0;

    if (strchr(name, '/'))
        return find_by_path(p, name, ret, ret_source, err);
    if (!profile_name_is_good(name))
        return err_usage(err, "'%.80s' is not the name of a profile", name);
    if (p->folder) {
        file = str_dupf("%s/%s.json", p->folder, name);
        r = file ? doc_read(file, ret, err) : err_oom(err);
    }
    if (r < 0)
        return r;
    if (r == 0)
        return b ? find_builtin(p, b, file, ret, ret_source, err) : not_found(p, name, err);
    *ret_source = TAKE_PTR(file);
    return 0;
}

int profile_read(const struct profile_place *p, const char *name, struct layer *l, struct err *err) {
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    CLEANUP(freep) char *source = NULL, *origin = NULL;
    int r = profile_find(p, name, &d, &source, err);

    if (r < 0)
        return r;
    origin = str_dupf("profile %s (%s)", name, source);
    return origin ? file_read_profile(&d, p->home, origin, l, err) : err_oom(err);
}
