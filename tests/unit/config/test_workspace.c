/* SPDX-License-Identifier: Apache-2.0 */
/* workspace.*: what each level may say about the project's own files. */
#include "scene.h"

static void say(struct scene *sc, const char *where, const char *workspace) {
    char text[1024];

    snprintf(text, sizeof text, "{\"sandbox\": {\"workspace\": %s}}", workspace);
    scene_write(sc, where, text);
}

static void test_modes(void **state) {
    struct scene *sc = *state;

    for (size_t i = 0; i < WORKSPACE_MODES; i++) {
        char text[64];

        snprintf(text, sizeof text, "{\"mode\": \"%s\"}", workspace_mode_names[i]);
        say(sc, USER_FILE, text);
        LOAD(sc);
        assert_int_equal(settings_workspace_mode(&sc->s), i);
    }
    say(sc, USER_FILE, "{\"mode\": \"overlays\"}");
    scene_fails(sc, EXIT_USAGE_ERR, "sandbox.workspace.mode: 'overlays' is not known (did you mean 'overlay'?)");
}

static void test_flag_wins_over_read_only(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE,
                "{\"sandbox\": {\"mounts\": {\"workspace_writable\": false}, \"workspace\": {\"mode\": \"sync\"}}}");
    LOAD(sc);
    assert_int_equal(settings_workspace_mode(&sc->s), WORKSPACE_RO);
    sc->flags.workspace_mode = "overlay";
    LOAD(sc);
    assert_int_equal(settings_workspace_mode(&sc->s), WORKSPACE_OVERLAY);
}

static void test_project_only_narrows(void **state) {
    struct scene *sc = *state;

    say(sc, USER_FILE, "{\"mode\": \"overlay\", \"protect\": [\"!.vscode/settings.json\"]}");
    say(sc, PROJECT,
        "{\"mode\": \"direct\", \"protect\": [\"deploy/\"], \"substitute\": {\"a\": \".env\"}, \"volumes\": [\"x\"]}");
    LOAD(sc);
    assert_int_equal(sc->s.workspace.mode, WORKSPACE_OVERLAY);
    assert_int_equal(sc->s.workspace.protect.len, 2);
    assert_string_equal(sc->s.workspace.protect.v[1], "deploy/");
    assert_int_equal(sc->s.workspace.n_substitutes, 0);
    assert_int_equal(sc->s.workspace.volumes.len, 0);
    say(sc, PROJECT, "{\"mode\": \"ro\", \"protect\": [\"!.git/hooks/\"]}");
    LOAD(sc);
    assert_int_equal(sc->s.workspace.mode, WORKSPACE_RO);
    assert_int_equal(sc->s.workspace.protect.len, 1);
}

/* What could not be restored after the run was not "less". */
static void test_project_says_nothing_of_rollback(void **state) {
    struct scene *sc = *state;
    static const char *const wishes[] = {"1m", "2g", "unlimited"};

    for (size_t i = 0; i < ARRAY_LEN(wishes); i++) {
        char text[64];

        snprintf(text, sizeof text, "{\"rollback\": \"%s\"}", wishes[i]);
        say(sc, PROJECT, text);
        LOAD(sc);
        assert_int_equal(sc->s.workspace.rollback, 1ull << 30);
        assert_int_equal(sc->s.notes.len, 1);
        has_text(sc->s.notes.v[0], "workspace.rollback");
    }
}

static void test_floor_cuts_the_mode(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"workspace\": {\"mode\": \"overlay\"}}}");
    sc->flags.workspace_mode = "direct";
    LOAD(sc);
    assert_int_equal(settings_workspace_mode(&sc->s), WORKSPACE_OVERLAY);
    sc->flags.workspace_mode = "ro";
    LOAD(sc);
    assert_int_equal(settings_workspace_mode(&sc->s), WORKSPACE_RO);
}

static void test_substitutes(void **state) {
    struct scene *sc = *state;
    static const char *const bad[] = {"{\"../x\": \"y\"}", "{\"/etc/x\": \"y\"}", "{\"a\": \"b/../c\"}", "{\"a//b\": \"c\"}",
                                      "{\"a/\": \"c\"}"};

    say(sc, USER_FILE, "{\"substitute\": {\".env\": \".env.sandbox\", \"web/.env\": \"web/dev\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.workspace.n_substitutes, 2);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[128];

        snprintf(text, sizeof text, "{\"substitute\": %s}", bad[i]);
        say(sc, USER_FILE, text);
        scene_fails(sc, EXIT_USAGE_ERR, "both must be paths below the workspace");
    }
    say(sc, USER_FILE, "{\"substitute\": {\".env\": 1}}");
    scene_fails(sc, EXIT_USAGE_ERR, "must be a string");
}

static void test_lists_have_limits(void **state) {
    struct scene *sc = *state;

    say(sc, USER_FILE, "{\"protect\": [\"\"]}");
    scene_fails(sc, EXIT_USAGE_ERR, "must be one line");
    say(sc, USER_FILE, "{\"protect\": [\"a\\nb\"]}");
    scene_fails(sc, EXIT_USAGE_ERR, "must be one line");
    say(sc, USER_FILE, "{\"volumes\": \"x\"}");
    scene_fails(sc, EXIT_USAGE_ERR, "must be an array of strings");
    say(sc, USER_FILE, "{\"rollback\": \"lots\"}");
    scene_fails(sc, EXIT_USAGE_ERR, "'lots' is not a size");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_modes),
        SCENE_TEST(test_flag_wins_over_read_only),
        SCENE_TEST(test_project_only_narrows),
        SCENE_TEST(test_project_says_nothing_of_rollback),
        SCENE_TEST(test_floor_cuts_the_mode),
        SCENE_TEST(test_substitutes),
        SCENE_TEST(test_lists_have_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
