/* SPDX-License-Identifier: Apache-2.0 */
/* The organisation's policy: nobody gets past it, and a policy that cannot be read stops everything. */
#include "scene.h"

static void test_clamps_everything(void **state) {
    struct scene *sc = *state;
    char *mounts[] = {(char[]){"/a:/a:rw"}, (char[]){"/b"}, NULL};

    scene_write(
        sc, POLICY,
        "{\"floor\": {\"resources\": {\"memory\": \"1g\", \"cpus\": 1, \"pids\": 10, \"swap\": \"0\", \"disk\": \"2g\", \"tmp\": \"256m\", \"timeout\": \"1h\"},"
        " \"network\": \"limited\", \"sshAgent\": \"auto\", \"keep_alive\": false, \"nested\": false, \"bypass_tools\": [\"t\"],"
        " \"mounts\": {\"workspace_writable\": false, \"persist_caches\": false, \"home_tools\": false, \"extra\": [{\"from\": \"/b\"}, {\"from\": \"/a\"}]}}}");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"keep_alive\": true, \"bypass_tools\": [\"t\", \"u\"], \"network\": \"full\"}}");
    sc->flags =
        (struct settings_flags){.memory = "64g", .swap = "1g", .ssh_agent = "on", .nested = true, .mounts = {mounts, 2, 3}};
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 1ull << 30);
    assert_int_equal(sc->s.limits.cpus_milli, 1000);
    assert_int_equal(sc->s.limits.pids, 10);
    assert_int_equal(sc->s.limits.swap, 0);
    assert_int_equal(sc->s.limits.disk, 2ull << 30);
    assert_int_equal(sc->s.limits.tmp, 256ull << 20); /* half of the memory was more */
    assert_int_equal(sc->s.limits.timeout_ms, 3600000);
    assert_int_equal(sc->s.net.mode, NETWORK_LIMITED);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_AUTO);
    assert_false(sc->s.workspace.writable);
    assert_false(sc->s.persist_caches);
    assert_false(sc->s.home_tools);
    assert_false(sc->s.keep_alive);
    assert_false(sc->s.nested);
    assert_int_equal(sc->s.bypass_tools.len, 1);
    assert_int_equal(sc->s.n_mounts, 1);
    assert_string_equal(sc->s.mounts[0].from, "/b");
    ORIGIN(sc, MEMORY, "organisation (/tmp/");
    ORIGIN(sc, NETWORK, "organisation (/tmp/");
    ORIGIN(sc, PIDS, "organisation (/tmp/");
    assert_int_equal(sc->s.notes.len, 8); /* what was asked for; not the built-in values that were cut */
    has_text(sc->s.notes.v[0], "resources.memory '64g' (flag --memory) is more than organisation (/tmp/");
    has_text(sc->s.notes.v[0], "allows: '1g' is used");
}

static void test_leaves_what_is_below(void **state) {
    struct scene *sc = *state;

    scene_write(
        sc, POLICY,
        "{\"$schema\": \"x\", \"floor\": {\"resources\": {\"memory\": \"8g\", \"timeout\": \"2h\"}, \"network\": \"full\"}}");
    sc->flags = (struct settings_flags){.memory = "2g", .timeout = "1h"};
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 2ull << 30);
    assert_int_equal(sc->s.limits.timeout_ms, 3600000);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
    ORIGIN(sc, MEMORY, "flag --memory");
    assert_int_equal(sc->s.notes.len, 0);
}

static void test_unlimited_is_clamped(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"resources\": {\"memory\": \"8g\", \"disk\": \"1g\"}}}");
    sc->flags = (struct settings_flags){.memory = "unlimited", .disk = "unlimited"};
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 8ull << 30);
    assert_int_equal(sc->s.limits.disk, 1ull << 30);
}

static void test_no_sandbox_is_refused(void **state) {
    static const char *const policies[] = {"{\"floor\": {\"mode\": \"require\"}}", "{\"floor\": {\"mode\": \"auto\"}}",
                                           "{\"floor\": {\"enabled\": true}}", "{\"floor\": {\"engines\": [\"native\"]}}"};
    struct scene *sc = *state;
    char off[] = "BAWN_SANDBOX=false";

    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        scene_write(sc, POLICY, policies[i]);
        sc->flags = (struct settings_flags){.mode = "off"};
        scene_fails(sc, EXIT_SANDBOX, "flag --no-sandbox");
        sc->flags = (struct settings_flags){.engine = "none"};
        scene_fails(sc, EXIT_SANDBOX, "flag --engine");
        sc->flags = (struct settings_flags){0};
        sc->environ_[0] = off;
        scene_fails(sc, EXIT_SANDBOX, "environment BAWN_SANDBOX");
        sc->environ_[0] = NULL;
        LOAD(sc);
    }
}

static void test_require(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"mode\": \"require\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_REQUIRE);
    ORIGIN(sc, ENABLED, "organisation (");
    assert_int_equal(sc->s.notes.len, 0);
}

static void test_engines(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"engines\": [\"native\", \"docker\"]}}");
    LOAD(sc);
    assert_string_equal(sc->s.engine, "auto");
    assert_int_equal(sc->s.allowed_engines.len, 2);
    assert_string_equal(sc->s.allowed_engines.v[1], "docker");
    sc->flags.engine = "docker";
    LOAD(sc);
    assert_string_equal(sc->s.engine, "docker");
    sc->flags.engine = "podman";
    scene_fails(sc, EXIT_SANDBOX, "engine 'podman' (flag --engine) is not one the organisation allows (native, docker)");
    sc->flags.engine = NULL;
    scene_write(sc, POLICY, "{\"floor\": {\"engines\": [\"gvisor\"]}}");
    LOAD(sc);
    assert_string_equal(sc->s.engine, "gvisor");
    ORIGIN(sc, ENGINE, "organisation (");
}

static void test_bad_policy_refuses(void **state) {
    static const struct {
        const char *text, *message;
    } table[] = {
        {"", "the file is empty"},
        {"{", "not valid JSON"},
        {"{}", "key 'floor' is missing"},
        {"{\"floor\": 1}", "floor: must be an object"},
        {"{\"flor\": {}}", "unknown key 'flor' (did you mean 'floor'?)"},
        {"{\"floor\": {\"netwrok\": \"none\"}}", "unknown key 'floor.netwrok' (did you mean 'network'?)"},
        {"{\"floor\": {\"engine\": \"native\"}}", "unknown key 'floor.engine' (did you mean 'engines'?)"},
        {"{\"floor\": {\"env\": {}}}", "unknown key 'floor.env'"},
        {"{\"floor\": {\"engines\": []}}", "floor.engines: must name at least one engine"},
        {"{\"floor\": {\"engines\": \"native\"}}", "floor.engines: must be an array"},
        {"{\"floor\": {\"engines\": [\"natve\"]}}", "floor.engines[0]: 'natve' is not an engine (did you mean 'native'?)"},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        scene_write(sc, POLICY, table[i].text);
        scene_fails(sc, EXIT_USAGE_ERR, table[i].message);
    }
}

static void test_policy_that_others_can_write(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {}}");
    assert_int_equal(chmod(sc->policy, 0666), 0);
    scene_fails(sc, EXIT_SANDBOX, "must be writable by its owner only");
    assert_int_equal(chmod(sc->policy, 0664), 0);
    scene_fails(sc, EXIT_SANDBOX, "must be writable by its owner only");
    assert_int_equal(chmod(sc->policy, 0644), 0);
    LOAD(sc);
}

static void test_policy_of_a_stranger(void **state) {
    struct scene *sc = *state;

    if (geteuid() != 0) {
        print_message("skip: needs root\n");
        skip();
    }
    scene_write(sc, POLICY, "{\"floor\": {}}");
    assert_int_equal(chown(sc->policy, 12345, 12345), 0);
    scene_fails(sc, EXIT_SANDBOX, "must belong to root");
}

static void test_policy_that_is_no_file(void **state) {
    struct scene *sc = *state;

    assert_int_equal(mkdir(sc->policy, 0755), 0);
    scene_fails(sc, EXIT_USAGE_ERR, "not a regular file");
    snprintf(sc->policy, sizeof sc->policy, "%s/home/x/policy.json", sc->top);
    scene_write(sc, "home/x", "a file where a folder should be");
    scene_fails(sc, EXIT_SANDBOX, "open the organisation's policy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_clamps_everything),
        SCENE_TEST(test_leaves_what_is_below),
        SCENE_TEST(test_unlimited_is_clamped),
        SCENE_TEST(test_no_sandbox_is_refused),
        SCENE_TEST(test_require),
        SCENE_TEST(test_engines),
        SCENE_TEST(test_bad_policy_refuses),
        SCENE_TEST(test_policy_that_others_can_write),
        SCENE_TEST(test_policy_of_a_stranger),
        SCENE_TEST(test_policy_that_is_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
