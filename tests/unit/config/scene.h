/* SPDX-License-Identifier: Apache-2.0 */
/* A home, a workspace and a policy of their own for each test, all in one temporary folder. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"

struct scene {
    char top[64], home[80], workspace[80], policy[96];
    char *environ_[8];
    struct settings_flags flags;
    const char *agent;
    struct settings s;
    struct err err;
};

static inline int scene_setup(void **state) {
    struct scene *sc = calloc(1, sizeof *sc);

    snprintf(sc->top, sizeof sc->top, "/tmp/bawn-config.XXXXXX");
    assert_non_null(mkdtemp(sc->top));
    snprintf(sc->home, sizeof sc->home, "%s/home", sc->top);
    snprintf(sc->workspace, sizeof sc->workspace, "%s/work", sc->top);
    snprintf(sc->policy, sizeof sc->policy, "%s/policy.json", sc->top);
    assert_int_equal(mkdir(sc->home, 0700), 0);
    assert_int_equal(mkdir(sc->workspace, 0700), 0);
    *state = sc;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    return remove(path);
}

static inline int scene_teardown(void **state) {
    struct scene *sc = *state;

    settings_done(&sc->s);
    nftw(sc->top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(sc);
    return 0;
}

/* Writes top/<name>, making the folders on the way. */
static inline void scene_write_bytes(struct scene *sc, const char *name, const void *data, size_t len) {
    char path[512];
    int fd;

    snprintf(path, sizeof path, "%s/%s", sc->top, name);
    for (char *p = path + strlen(sc->top) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            if (mkdir(path, 0700) < 0)
                assert_int_equal(errno, EEXIST);
            *p = '/';
        }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

static inline void scene_write(struct scene *sc, const char *name, const char *text) {
    scene_write_bytes(sc, name, text, strlen(text));
}

#define USER_FILE "home/.config/bawn/config.json"
#define PROJECT "work/.bawn/config.json"
#define POLICY "policy.json"

static inline int scene_load(struct scene *sc) {
    const struct settings_sources src = {.flags = &sc->flags,
                                         .agent = sc->agent,
                                         .workspace = sc->workspace,
                                         .home = sc->home,
                                         .environ_ = sc->environ_,
                                         .org_policy = sc->policy};

    settings_done(&sc->s);
    sc->err = (struct err){0};
    return settings_load(&src, &sc->s, &sc->err);
}

#define LOAD(sc)                           \
    do {                                   \
        if (scene_load(sc) < 0)            \
            fail_msg("%s", (sc)->err.msg); \
    } while (0)

static inline void has_text(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

#define ORIGIN(sc, id, part) has_text((sc)->s.origin[SETTING_##id], part)

/* Loading must fail with this exit status and a message that has this text. */
static inline void scene_fails(struct scene *sc, int status, const char *part) {
    int r = scene_load(sc);

    if (r >= 0)
        fail_msg("loading succeeded, but should fail with '%s'", part);
    assert_int_equal(err_exit_status(&sc->err), status);
    has_text(sc->err.msg, part);
    assert_null(sc->s.engine);
}

#define SCENE_TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)
