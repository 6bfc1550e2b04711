/* SPDX-License-Identifier: Apache-2.0 */
/* Where profiles are kept: written once, never overwritten, and not needed at all. */
#include "scene.h"

#include "config/load/paths.h"
#include "config/load/profile.h"

static void file_text(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, out, size - 1);
    assert_true(n >= 0);
    out[n] = 0;
    close(fd);
}

static void test_written_at_first_use(void **state) {
    static const char *const names[] = {"dev", "safe", "tight", "offline"};
    struct scene *sc = *state;
    char path[160], text[4096];
    struct stat st;

    assert_int_equal(n_builtin_profiles, ARRAY_LEN(names));
    sc->flags.profile = "safe";
    LOAD(sc);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/.config/bawn/profiles/%s.json", sc->home, names[i]);
        file_text(path, text, sizeof text);
        assert_string_equal(text, builtin_find(builtin_profiles, n_builtin_profiles, names[i])->text);
        assert_int_equal(strlen(text), builtin_find(builtin_profiles, n_builtin_profiles, names[i])->len);
    }
    ORIGIN(sc, PIDS, "/.config/bawn/profiles/safe.json)");
    snprintf(path, sizeof path, "%s/.config/bawn/profiles", sc->home);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(st.st_nlink, 2);
}

static void test_never_overwritten(void **state) {
    struct scene *sc = *state;
    char path[160], text[4096];

    scene_write(sc, "home/.config/bawn/profiles/dev.json", "{\"resources\": {\"pids\": 7}}");
    sc->flags.profile = "tight";
    LOAD(sc);
    sc->flags.profile = "dev";
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 7);
    snprintf(path, sizeof path, "%s/.config/bawn/profiles/dev.json", sc->home);
    file_text(path, text, sizeof text);
    assert_string_equal(text, "{\"resources\": {\"pids\": 7}}");
}

static void test_works_without_a_folder(void **state) {
    struct scene *sc = *state;
    const struct settings_sources homeless = {.flags = &sc->flags, .workspace = sc->workspace, .org_policy = sc->policy};

    sc->flags.profile = "tight";
    assert_int_equal(settings_load(&homeless, &sc->s, &sc->err), 0);
    assert_int_equal(sc->s.limits.pids, 64);
    ORIGIN(sc, PIDS, "profile tight (built-in)");
    assert_int_equal(rmdir(sc->home), 0);
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 64);
    assert_int_equal(access(sc->home, F_OK), -1);
    scene_write(sc, "home/.config", "a file where the folder should be");
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 64);
    ORIGIN(sc, PIDS, "profile tight (built-in)");
}

static void test_dangling_symlink(void **state) {
    struct scene *sc = *state;
    char path[160];

    scene_write(sc, "home/.config/bawn/profiles/x.json", "{}");
    snprintf(path, sizeof path, "%s/.config/bawn/profiles/safe.json", sc->home);
    assert_int_equal(symlink("/nonexistent/target", path), 0);
    sc->flags.profile = "safe";
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 128);
    ORIGIN(sc, PIDS, "profile safe (built-in)");
}

static void test_names(void **state) {
    CLEANUP(profile_place_done) struct profile_place place = {0};
    CLEANUP(strv_done) struct strv names = {0};
    struct scene *sc = *state;

    scene_write(sc, "home/.config/bawn/profiles/beefy.json", "{}");
    scene_write(sc, "home/.config/bawn/profiles/.hidden.json", "{}");
    scene_write(sc, "home/.config/bawn/profiles/notes.txt", "{}");
    assert_int_equal(profile_place_init(&place, NULL, sc->home, &sc->err), 0);
    assert_int_equal(profile_names(&place, &names, &sc->err), 0);
    assert_int_equal(names.len, 5);
    assert_string_equal(names.v[0], "beefy");
    assert_string_equal(names.v[4], "tight");
}

static void test_good_names(void **state) {
    static const char *const good[] = {"dev", "a", "A-b_c.9"};
    static const char *const bad[] = {
        "", ".", "..", ".x", "a/b", "a b", "\xc3\xa4", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(profile_name_is_good(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(profile_name_is_good(bad[i]));
}

static void test_publish(void **state) {
    struct scene *sc = *state;
    char path[96], text[16];

    snprintf(path, sizeof path, "%s/f", sc->top);
    assert_int_equal(paths_publish(sc->top, "f", "one", 3, PUBLISH_NEW, &sc->err), 0);
    assert_int_equal(paths_publish(sc->top, "f", "two", 3, PUBLISH_NEW, &sc->err), -EEXIST);
    file_text(path, text, sizeof text);
    assert_string_equal(text, "one");
    assert_int_equal(paths_publish(sc->top, "f", "three", 5, PUBLISH_REPLACE, &sc->err), 0);
    file_text(path, text, sizeof text);
    assert_string_equal(text, "three");
    assert_int_equal(paths_publish("/nonexistent", "f", "x", 1, PUBLISH_NEW, &sc->err), -ENOENT);
}

static void test_home(void **state) {
    char *variables[] = {(char[]){"X=1"}, (char[]){"HOME=/here"}, NULL}, *relative[] = {(char[]){"HOME=here"}, NULL};
    CLEANUP(freep) char *home = NULL, *fallback = NULL, *ignored = NULL;
    struct err err = {0};

    assert_int_equal(paths_home(variables, &home, &err), 0);
    assert_string_equal(home, "/here");
    assert_int_equal(paths_home(NULL, &fallback, &err), 0);
    assert_int_equal(paths_home(relative, &ignored, &err), 0);
    if (geteuid() == 0) {
        assert_string_equal(fallback, "/root");
        assert_string_equal(ignored, "/root");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_written_at_first_use),
        SCENE_TEST(test_never_overwritten),
        SCENE_TEST(test_works_without_a_folder),
        SCENE_TEST(test_dangling_symlink),
        SCENE_TEST(test_names),
        SCENE_TEST(test_publish),
        cmocka_unit_test(test_good_names),
        cmocka_unit_test(test_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
