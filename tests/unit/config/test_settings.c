/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out when everything is right: defaults, both seeds' formats, precedence, profiles. */
#include "scene.h"

#include "config/fields/field.h"

static void test_nothing_said(void **state) {
    struct scene *sc = *state;
    struct stat st;
    char path[128];

    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
    assert_string_equal(sc->s.engine, "auto");
    assert_null(sc->s.profile);
    assert_null(sc->s.image);
    assert_int_equal(sc->s.limits.cpus_milli, 2000);
    assert_int_equal(sc->s.limits.memory, 4ull << 30);
    assert_int_equal(sc->s.limits.swap, 0);
    assert_int_equal(sc->s.limits.pids, 256);
    assert_int_equal(sc->s.limits.disk, 20ull << 30);
    assert_int_equal(sc->s.limits.timeout_ms, 0);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_AUTO);
    assert_true(sc->s.secrets.all);
    assert_true(sc->s.ssh.keys.all);
    assert_true(sc->s.workspace.writable);
    assert_true(sc->s.persist_caches);
    assert_true(sc->s.home_tools);
    assert_false(sc->s.keep_alive);
    assert_int_equal(sc->s.idle_timeout_ms, 0);
    assert_int_equal(sc->s.n_mounts + sc->s.n_env + sc->s.bypass_tools.len + sc->s.notes.len, 0);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        assert_string_equal(sc->s.origin[i], "built-in");
    snprintf(path, sizeof path, "%s/.config", sc->home);
    assert_int_equal(stat(path, &st), -1);
}

static void test_no_home_no_workspace(void **state) {
    const struct settings_sources src = {.org_policy = "/nonexistent"};
    struct scene *sc = *state;

    assert_int_equal(settings_load(&src, &sc->s, &sc->err), 0);
    assert_string_equal(sc->s.engine, "auto");
}

/* The full configuration of seed 004, letter by letter. */
static const char seed_004[] = "{\n"
                               "  \"sandbox\": {\n"
                               "    \"enabled\": true,\n"
                               "    \"runtime\": \"docker\",\n"
                               "    \"image\": \"wonopcode/sandbox:latest\",\n"
                               "    \"resources\": {\n"
                               "      \"memory\": \"2G\",\n"
                               "      \"cpus\": 2.5,\n"
                               "      \"pids\": 200\n"
                               "    },\n"
                               "    \"network\": \"limited\",\n"
                               "    \"mounts\": {\n"
                               "      \"workspace_writable\": false,\n"
                               "      \"persist_caches\": false\n"
                               "    },\n"
                               "    \"bypass_tools\": [\"todoread\", \"todowrite\"],\n"
                               "    \"keep_alive\": true, \"idle_timeout\": \"45m\"\n"
                               "  },\n"
                               "  \"agent\": {\n"
                               "    \"code\": {\"sandbox\": {\"network\": \"full\", \"resources\": {\"memory\": \"4G\"}}},\n"
                               "    \"explore\": {\"sandbox\": {\"mounts\": {\"workspace_writable\": true}}},\n"
                               "    \"trusted\": {\"sandbox\": {\"enabled\": false}}\n"
                               "  }\n"
                               "}\n";

static void test_seed_004(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE, seed_004);
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
    assert_string_equal(sc->s.engine, "docker");
    assert_string_equal(sc->s.image, "wonopcode/sandbox:latest");
    assert_int_equal(sc->s.limits.memory, 2ull << 30);
    assert_int_equal(sc->s.limits.cpus_milli, 2500);
    assert_int_equal(sc->s.limits.pids, 200);
    assert_int_equal(sc->s.net.mode, NETWORK_LIMITED);
    assert_false(sc->s.workspace.writable);
    assert_false(sc->s.persist_caches);
    assert_true(sc->s.keep_alive);
    assert_int_equal(sc->s.idle_timeout_ms, 45 * 60 * 1000);
    assert_int_equal(sc->s.bypass_tools.len, 2);
    assert_string_equal(sc->s.bypass_tools.v[1], "todowrite");
    ORIGIN(sc, MEMORY, "user (/tmp/");
    ORIGIN(sc, DISK, "built-in");
}

static void test_seed_004_agents(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE, seed_004);
    sc->agent = "code";
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL);
    assert_int_equal(sc->s.limits.memory, 4ull << 30);
    assert_int_equal(sc->s.limits.pids, 200);
    ORIGIN(sc, NETWORK, "agent code, user (/tmp/");
    sc->agent = "trusted";
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_OFF);
    assert_string_equal(sc->s.engine, "none");
    ORIGIN(sc, ENGINE, "agent trusted");
    sc->agent = "unheard-of";
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_LIMITED);
}

static void test_seed_001(void **state) {
    struct scene *sc = *state;
    char from[128];

    scene_write(
        sc, "home/.config/bawn/profiles/mine.json",
        "{\"engine\": \"podman\", \"image\": \"ghcr.io/vybestack/llxprt-code/sandbox:0.9.0\","
        " \"resources\": {\"cpus\": 4, \"memory\": \"8g\", \"pids\": 512, \"swap\": \"1g\", \"disk\": \"512m\", \"timeout\": \"90s\"},"
        " \"network\": \"on\", \"sshAgent\": \"on\","
        " \"mounts\": [{\"from\": \"~/data/\"}, {\"from\": \"/srv//x\", \"to\": \"/y\", \"mode\": \"rw\"}],"
        " \"env\": {\"A\": \"b\", \"C\": null}}");
    sc->flags.profile = "mine";
    LOAD(sc);
    assert_string_equal(sc->s.profile, "mine");
    assert_string_equal(sc->s.engine, "podman");
    assert_string_equal(sc->s.image, "ghcr.io/vybestack/llxprt-code/sandbox:0.9.0");
    assert_int_equal(sc->s.limits.cpus_milli, 4000);
    assert_int_equal(sc->s.limits.memory, 8ull << 30);
    assert_int_equal(sc->s.limits.pids, 512);
    assert_int_equal(sc->s.limits.swap, 1ull << 30);
    assert_int_equal(sc->s.limits.disk, 512ull << 20);
    assert_int_equal(sc->s.limits.timeout_ms, 90000);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_ON);
    assert_int_equal(sc->s.n_mounts, 2);
    snprintf(from, sizeof from, "%s/data", sc->home);
    assert_string_equal(sc->s.mounts[0].from, from);
    assert_string_equal(sc->s.mounts[0].to, from);
    assert_false(sc->s.mounts[0].writable);
    assert_string_equal(sc->s.mounts[1].from, "/srv/x");
    assert_string_equal(sc->s.mounts[1].to, "/y");
    assert_true(sc->s.mounts[1].writable);
    assert_int_equal(sc->s.n_env, 2);
    assert_string_equal(sc->s.env[0].value, "b");
    assert_null(sc->s.env[1].value);
    ORIGIN(sc, PROFILE, "flag --profile");
    ORIGIN(sc, CPUS, "profile mine (/tmp/");
    ORIGIN(sc, ENABLED, "flag --profile");
}

/* Seed 001's table. */
static void test_built_in_profiles(void **state) {
    static const struct {
        const char *name;
        enum network network;
        enum ssh_agent ssh_agent;
        uint64_t cpus_milli, memory, pids;
    } table[] = {
        {"dev", NETWORK_FULL, SSH_AGENT_AUTO, 2000, 4ull << 30, 256},
        {"safe", NETWORK_NONE, SSH_AGENT_OFF, 2000, 4ull << 30, 128},
        {"tight", NETWORK_NONE, SSH_AGENT_OFF, 1000, 2ull << 30, 64},
        {"offline", NETWORK_NONE, SSH_AGENT_OFF, 2000, 4ull << 30, 128},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        sc->flags.profile = table[i].name;
        LOAD(sc);
        assert_string_equal(sc->s.profile, table[i].name);
        assert_int_equal(sc->s.net.mode, table[i].network);
        assert_int_equal(sc->s.ssh.agent, table[i].ssh_agent);
        assert_int_equal(sc->s.limits.cpus_milli, table[i].cpus_milli);
        assert_int_equal(sc->s.limits.memory, table[i].memory);
        assert_int_equal(sc->s.limits.pids, table[i].pids);
    }
}

/* Each level is added on top of the ones before; each must win. */
static void test_precedence(void **state) {
    struct scene *sc = *state;

    LOAD(sc);
    ORIGIN(sc, MEMORY, "built-in");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"resources\": {\"memory\": \"3g\"}, \"image\": \"user\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 3ull << 30);
    ORIGIN(sc, MEMORY, "user (");
    scene_write(sc, PROJECT, "{\"sandbox\": {\"resources\": {\"memory\": \"2g\"}}}");
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 2ull << 30);
    ORIGIN(sc, MEMORY, "project (");
    scene_write(sc, USER_FILE,
                "{\"sandbox\": {\"resources\": {\"memory\": \"3g\"}, \"image\": \"user\"},"
                " \"agent\": {\"a\": {\"sandbox\": {\"resources\": {\"memory\": \"5g\"}}}}}");
    sc->agent = "a";
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 5ull << 30);
    ORIGIN(sc, MEMORY, "agent a, user (");
    sc->environ_[0] = strdup("BAWN_PROFILE=tight");
    sc->environ_[1] = strdup("BAWN_SANDBOX_IMAGE=environment");
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 2ull << 30);
    ORIGIN(sc, MEMORY, "profile tight (");
    assert_string_equal(sc->s.image, "environment");
    ORIGIN(sc, IMAGE, "environment BAWN_SANDBOX_IMAGE");
    sc->flags.memory = "6g";
    sc->flags.image = "flag";
    LOAD(sc);
    assert_int_equal(sc->s.limits.memory, 6ull << 30);
    ORIGIN(sc, MEMORY, "flag --memory");
    ORIGIN(sc, PIDS, "profile tight (");
    ORIGIN(sc, IMAGE, "flag --image");
    free(sc->environ_[0]);
    free(sc->environ_[1]);
}

/* A profile stands below the level that named it, and above the ones below that. */
static void test_profile_rank(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE, "{\"sandbox\": {\"profile\": \"tight\", \"resources\": {\"pids\": 100}}}");
    LOAD(sc);
    assert_string_equal(sc->s.profile, "tight");
    assert_int_equal(sc->s.limits.pids, 100);
    assert_int_equal(sc->s.limits.cpus_milli, 1000);
    ORIGIN(sc, PROFILE, "user (");
    sc->flags.profile = "safe";
    LOAD(sc);
    assert_string_equal(sc->s.profile, "safe");
    assert_int_equal(sc->s.limits.pids, 128);
    assert_int_equal(sc->s.limits.cpus_milli, 2000);
    ORIGIN(sc, PIDS, "profile safe (");
}

static void test_profile_by_path(void **state) {
    struct scene *sc = *state;
    char path[128];

    scene_write(sc, "elsewhere/p.json", "{\"resources\": {\"pids\": 33}}");
    snprintf(path, sizeof path, "%s/elsewhere/p.json", sc->top);
    sc->flags.profile = path;
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 33);
    ORIGIN(sc, PIDS, path);
}

static void test_environment_switch(void **state) {
    static const struct {
        const char *variable;
        enum sandbox_mode mode;
        const char *engine;
    } table[] = {
        {"BAWN_SANDBOX=true", MODE_AUTO, "auto"},
        {"BAWN_SANDBOX=false", MODE_OFF, "none"},
        {"BAWN_SANDBOX=require", MODE_REQUIRE, "auto"},
        {"BAWN_SANDBOX=docker", MODE_AUTO, "docker"},
        {"BAWN_SANDBOX=none", MODE_OFF, "none"},
        {"BAWN_SANDBOX=", MODE_AUTO, "auto"},
        {"SANDBOX_FLAGS=--security-opt label=disable", MODE_AUTO, "auto"},
        {"SANDBOX_SET_UID_GID=true", MODE_AUTO, "auto"},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char variable[64];

        snprintf(variable, sizeof variable, "%s", table[i].variable);
        sc->environ_[0] = variable;
        LOAD(sc);
        assert_int_equal(sc->s.mode, table[i].mode);
        assert_string_equal(sc->s.engine, table[i].engine);
    }
}

/* Seed 001: "--engine none always wins, even when the variable is set"; and the other way round. */
static void test_flags_beat_switch(void **state) {
    struct scene *sc = *state;
    char on[] = "BAWN_SANDBOX=docker", off[] = "BAWN_SANDBOX=false";

    sc->environ_[0] = on;
    sc->flags.engine = "none";
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_OFF);
    assert_string_equal(sc->s.engine, "none");
    ORIGIN(sc, ENABLED, "flag --engine");
    sc->environ_[0] = off;
    sc->flags.engine = NULL;
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_OFF);
    sc->flags.engine = "native";
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
    assert_string_equal(sc->s.engine, "native");
    sc->flags = (struct settings_flags){.mode = "require"};
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_REQUIRE);
    assert_string_equal(sc->s.engine, "auto");
    sc->flags = (struct settings_flags){.mode = "off", .engine = "docker"};
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_OFF);
    assert_string_equal(sc->s.engine, "none");
    ORIGIN(sc, ENABLED, "flag --no-sandbox");
}

/* "enabled": true asks for a sandbox; it does not weaken a stronger demand from below. */
static void test_enabled_keeps_require(void **state) {
    struct scene *sc = *state;
    char on[] = "BAWN_SANDBOX=true";

    scene_write(sc, USER_FILE, "{\"sandbox\": {\"mode\": \"require\"}, \"agent\": {\"a\": {\"sandbox\": {\"enabled\": true}}}}");
    sc->agent = "a";
    sc->environ_[0] = on;
    sc->flags.engine = "native";
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_REQUIRE);
    ORIGIN(sc, ENABLED, "user (");
    sc->flags = (struct settings_flags){.mode = "auto"};
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
}

static void test_lists_add_up(void **state) {
    char *mounts[] = {(char[]){"/b:/in:rw"}, (char[]){"/c"}, (char[]){"~:ro"}, NULL};
    char *env[] = {(char[]){"B=flag=1"}, (char[]){"HOSTS"}, NULL};
    struct scene *sc = *state;

    scene_write(
        sc, USER_FILE,
        "{\"sandbox\": {\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/in\"}]}, \"env\": {\"A\": \"user\", \"B\": \"user\"}}}");
    sc->flags.mounts = (struct strv){mounts, 3, 4};
    sc->flags.env = (struct strv){env, 2, 3};
    LOAD(sc);
    assert_int_equal(sc->s.n_mounts, 3);
    assert_string_equal(sc->s.mounts[0].from, "/b");
    assert_string_equal(sc->s.mounts[0].to, "/in");
    assert_true(sc->s.mounts[0].writable);
    assert_string_equal(sc->s.mounts[1].to, "/c");
    assert_false(sc->s.mounts[1].writable);
    assert_string_equal(sc->s.mounts[2].from, sc->home);
    assert_int_equal(sc->s.n_env, 3);
    assert_string_equal(sc->s.env[0].value, "user");
    assert_string_equal(sc->s.env[1].value, "flag=1");
    assert_null(sc->s.env[2].value);
    ORIGIN(sc, ENV, "config.json), flag --env");
}

static void test_all_flags(void **state) {
    struct scene *sc = *state;

    sc->flags = (struct settings_flags){.engine = "podman",
                                        .image = "i",
                                        .cpus = "0.5",
                                        .memory = "512m",
                                        .swap = "1g",
                                        .pids = "9",
                                        .disk = "unlimited",
                                        .tmp = "10g",
                                        .timeout = "1h",
                                        .network = "limited",
                                        .ssh_agent = "on",
                                        .workspace_mode = "ro"};
    LOAD(sc);
    assert_string_equal(sc->s.engine, "podman");
    assert_string_equal(sc->s.image, "i");
    assert_int_equal(sc->s.limits.cpus_milli, 500);
    assert_int_equal(sc->s.limits.memory, 512ull << 20);
    assert_int_equal(sc->s.limits.swap, 1ull << 30);
    assert_int_equal(sc->s.limits.pids, 9);
    assert_int_equal(sc->s.limits.disk, 0);
    assert_int_equal(sc->s.limits.tmp, 10ull << 30);
    assert_int_equal(sc->s.limits.timeout_ms, 3600000);
    assert_int_equal(sc->s.net.mode, NETWORK_LIMITED);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_ON);
    assert_false(sc->s.workspace.writable);
}

static void test_xdg_config_home(void **state) {
    struct scene *sc = *state;
    char variable[128];

    scene_write(sc, "xdg/bawn/config.json", "{\"$schema\": \"x\", \"sandbox\": {\"resources\": {\"pids\": 11}}}");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"resources\": {\"pids\": 12}}}");
    snprintf(variable, sizeof variable, "XDG_CONFIG_HOME=%s/xdg", sc->top);
    sc->environ_[0] = variable;
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 11);
    snprintf(variable, sizeof variable, "XDG_CONFIG_HOME=relative");
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 12);
}

/* What is printed must read back as the same value. */
static void test_print_and_read_back(void **state) {
    static const struct {
        enum setting id;
        const char *text, *json, *shown;
    } table[] = {
        {SETTING_MEMORY, "4096m", "\"4g\"", "4g"},
        {SETTING_MEMORY, "1.5g", "\"1536m\"", "1536m"},
        {SETTING_MEMORY, "1048577", "\"1048577\"", "1048577"},
        {SETTING_DISK, "1024t", "\"1024t\"", "1024t"},
        {SETTING_DISK, "unlimited", "null", "unlimited"},
        {SETTING_SWAP, "0", "\"0\"", "0"},
        {SETTING_TIMEOUT, "120s", "\"2m\"", "2m"},
        {SETTING_TIMEOUT, "1500ms", "\"1500ms\"", "1500ms"},
        {SETTING_TIMEOUT, "unlimited", "null", "unlimited"},
        {SETTING_CPUS, "0.5", "0.500", "0.500"},
        {SETTING_CPUS, "16", "16", "16"},
        {SETTING_PIDS, "64", "64", "64"},
        {SETTING_NETWORK, "on", "\"full\"", "full"},
        {SETTING_NETWORK, "off", "\"none\"", "none"},
        {SETTING_NETWORK, "list", "\"list\"", "list"},
        {SETTING_ASK, "wait", "\"wait\"", "wait"},
        {SETTING_ASK_TIMEOUT, "120s", "\"2m\"", "2m"},
        {SETTING_SSH_AGENT, "auto", "\"auto\"", "auto"},
        {SETTING_ENABLED, "require", "\"require\"", "require"},
        {SETTING_IMAGE, "a:b", "\"a:b\"", "a:b"},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf json = BUF_INIT(100), shown = BUF_INIT(100);
        const struct field *f = &fields[table[i].id];

        assert_int_equal(f->type->from_text(f, table[i].text, &sc->s, &sc->err), 0);
        settings_add_value(&sc->s, table[i].id, &json);
        settings_add_text(&sc->s, table[i].id, &shown);
        assert_string_equal(buf_str(&json), table[i].json);
        assert_string_equal(buf_str(&shown), table[i].shown);
        assert_int_equal(f->type->from_text(f, buf_str(&shown), &sc->s, &sc->err), 0);
    }
}

static void test_every_setting_has_a_row(void **state) {
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        assert_int_equal(fields[i].id, i);
        assert_string_equal(fields[i].key, setting_names[i]);
        assert_non_null(fields[i].type->add_json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_nothing_said),
        SCENE_TEST(test_no_home_no_workspace),
        SCENE_TEST(test_seed_004),
        SCENE_TEST(test_seed_004_agents),
        SCENE_TEST(test_seed_001),
        SCENE_TEST(test_built_in_profiles),
        SCENE_TEST(test_precedence),
        SCENE_TEST(test_profile_rank),
        SCENE_TEST(test_profile_by_path),
        SCENE_TEST(test_environment_switch),
        SCENE_TEST(test_flags_beat_switch),
        SCENE_TEST(test_enabled_keeps_require),
        SCENE_TEST(test_lists_add_up),
        SCENE_TEST(test_all_flags),
        SCENE_TEST(test_xdg_config_home),
        SCENE_TEST(test_print_and_read_back),
        SCENE_TEST(test_every_setting_has_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
