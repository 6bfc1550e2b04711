/* SPDX-License-Identifier: Apache-2.0 */
/* An untrusted project may narrow and nothing else; trust is bound to content and place. */
#include "scene.h"

#include "config/load/project.h"
#include "config/load/trust.h"

static void note_has(const struct scene *sc, const char *part) {
    for (size_t i = 0; i < sc->s.notes.len; i++)
        if (strstr(sc->s.notes.v[i], part))
            return;
    fail_msg("no note says '%s'", part);
}

static const char wide[] =
    "{\n"
    "  \"sandbox\": {\n"
    "    \"runtime\": \"docker\", \"image\": \"evil\",\n"
    "    \"network\": \"full\",\n"
    "    \"sshAgent\": \"on\",\n"
    "    \"resources\": {\"memory\": \"unlimited\", \"cpus\": 64, \"pids\": 9999, \"swap\": \"1g\", \"disk\": \"1t\", \"tmp\": \"10g\"},\n"
    "    \"mounts\": {\"extra\": [{\"from\": \"~/.ssh\"}]},\n"
    "    \"env\": {\"LD_PRELOAD\": \"/x\"},\n"
    "    \"bypass_tools\": [\"bash\"], \"keep_alive\": true, \"enabled\": false\n"
    "  }\n"
    "}\n";

static void test_untrusted_cannot_widen(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, wide);
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
    assert_string_equal(sc->s.engine, "auto");
    assert_null(sc->s.image);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_AUTO);
    assert_int_equal(sc->s.limits.memory, 4ull << 30);
    assert_int_equal(sc->s.limits.cpus_milli, 2000);
    assert_int_equal(sc->s.limits.pids, 256);
    assert_int_equal(sc->s.limits.swap, 0);
    assert_int_equal(sc->s.limits.disk, 20ull << 30);
    assert_int_equal(sc->s.n_mounts + sc->s.n_env + sc->s.bypass_tools.len, 0);
    assert_false(sc->s.keep_alive);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        assert_string_equal(sc->s.origin[i], "built-in");
    assert_int_equal(sc->s.limits.tmp, 0);
    assert_int_equal(sc->s.notes.len, 15);
    note_has(sc, ".bawn/config.json:4:16: network 'full' not applied: the project is not trusted (see 'bawn trust')");
    note_has(sc, "config.json:6:29: resources.memory unlimited not applied");
    note_has(sc, "env {\"LD_PRELOAD\": \"/x\"} not applied");
    note_has(sc, "mode 'off' not applied");
    note_has(sc, "engine 'docker' not applied");
}

static void test_untrusted_can_narrow(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE,
                "{\"sandbox\": {\"network\": \"full\", \"sshAgent\": \"on\", \"keep_alive\": true, \"enabled\": false,"
                " \"bypass_tools\": [\"a\", \"b\"], \"resources\": {\"swap\": \"1g\", \"disk\": \"unlimited\"}}}");
    scene_write(
        sc, PROJECT,
        "{\"sandbox\": {\"mode\": \"require\", \"runtime\": \"gvisor\", \"network\": \"limited\", \"sshAgent\": \"auto\","
        " \"resources\": {\"memory\": \"1g\", \"cpus\": 1, \"pids\": 10, \"swap\": \"0\", \"disk\": \"1g\", \"tmp\": \"512m\", \"timeout\": \"1h\"},"
        " \"mounts\": {\"workspace_writable\": false, \"persist_caches\": false, \"home_tools\": false, \"extra\": []}, \"env\": {},"
        " \"bypass_tools\": [\"b\"], \"keep_alive\": false}}");
    LOAD(sc);
    assert_int_equal(sc->s.notes.len, 0);
    assert_int_equal(sc->s.mode, MODE_REQUIRE);
    assert_string_equal(sc->s.engine, "gvisor");
    assert_int_equal(sc->s.net.mode, NETWORK_LIMITED);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_AUTO);
    assert_int_equal(sc->s.limits.memory, 1ull << 30);
    assert_int_equal(sc->s.limits.cpus_milli, 1000);
    assert_int_equal(sc->s.limits.pids, 10);
    assert_int_equal(sc->s.limits.swap, 0);
    assert_int_equal(sc->s.limits.disk, 1ull << 30);
    assert_int_equal(sc->s.limits.tmp, 512ull << 20);
    assert_int_equal(sc->s.limits.timeout_ms, 3600000);
    assert_false(sc->s.workspace.writable);
    assert_false(sc->s.persist_caches);
    assert_false(sc->s.home_tools);
    assert_false(sc->s.keep_alive);
    assert_int_equal(sc->s.bypass_tools.len, 1);
    ORIGIN(sc, NETWORK, "project (");
}

/* Naming a profile is no way round: neither its wide values nor the loss of the user's own profile. */
static void test_untrusted_profile(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, "{\"sandbox\": {\n\"profile\": \"dev\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
    assert_int_equal(sc->s.ssh.agent, SSH_AGENT_AUTO);
    note_has(sc, "config.json:2:12: network 'full' of profile 'dev' not applied");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"profile\": \"tight\"}}");
    LOAD(sc);
    assert_string_equal(sc->s.profile, "tight");
    assert_int_equal(sc->s.limits.pids, 64);
    assert_int_equal(sc->s.limits.memory, 2ull << 30);
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"profile\": \"dev\"}}");
    scene_write(sc, PROJECT, "{\"sandbox\": {\"profile\": \"tight\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 64);
    assert_int_equal(sc->s.net.mode, NETWORK_NONE);
    ORIGIN(sc, PIDS, "profile tight (");
    assert_int_equal(sc->s.notes.len, 0);
    sc->flags.profile = "dev";
    LOAD(sc);
    assert_int_equal(sc->s.limits.pids, 256);
}

static void test_project_profile_by_path(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, "{\"sandbox\": {\"profile\": \"./wide.json\"}}");
    scene_fails(sc, EXIT_USAGE_ERR, "'./wide.json' is a path, but a project's file may only name a profile");
}

static void test_agent_in_project_is_project(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, "{\"agent\": {\"a\": {\"sandbox\": {\"enabled\": false, \"resources\": {\"pids\": 5}}}}}");
    sc->agent = "a";
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_AUTO);
    assert_int_equal(sc->s.limits.pids, 5);
    assert_int_equal(sc->s.notes.len, 1);
    note_has(sc, "mode 'off' not applied");
}

static void trust_project(struct scene *sc) {
    CLEANUP(project_done) struct project p = {0};
    char file[128];

    snprintf(file, sizeof file, "%s/.local/state/bawn/trust", sc->home);
    assert_int_equal(project_read(sc->workspace, &p, &sc->err), 1);
    assert_int_equal(trust_record(file, p.workspace, p.hash, &sc->err), 0);
}

static void test_trusted_until_changed(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, wide);
    trust_project(sc);
    LOAD(sc);
    assert_int_equal(sc->s.mode, MODE_OFF);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL);
    assert_int_equal(sc->s.limits.memory, 0);
    assert_int_equal(sc->s.notes.len, 0);
    scene_write(sc, PROJECT, "{\"sandbox\": {\"network\": \"limited\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
    assert_int_equal(sc->s.notes.len, 1);
    scene_write(sc, PROJECT, wide);
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL);
}

static void test_trust_does_not_move(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, wide);
    trust_project(sc);
    snprintf(sc->workspace, sizeof sc->workspace, "%s/other", sc->top);
    scene_write(sc, "other/.bawn/config.json", wide);
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_LIST);
}

/* The same folder by another name is the same folder. */
static void test_trust_through_symlink(void **state) {
    struct scene *sc = *state;
    char real[sizeof sc->workspace];

    scene_write(sc, PROJECT, wide);
    trust_project(sc);
    memcpy(real, sc->workspace, sizeof real);
    snprintf(sc->workspace, sizeof sc->workspace, "%s/alias", sc->top);
    assert_int_equal(symlink(real, sc->workspace), 0);
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL);
}

enum { A_HASH = 'a', B_HASH = 'b' };

static const char *hash_of(char c) {
    static char text[2][65];
    char *h = text[c == B_HASH];

    memset(h, c, 64);
    return h;
}

static bool trusted(struct scene *sc, const char *file, const char *workspace, char hash) {
    bool yes = false;

    if (trust_check(file, workspace, hash_of(hash), &yes, &sc->err) < 0)
        fail_msg("%s", sc->err.msg);
    return yes;
}

static void test_records(void **state) {
    struct scene *sc = *state;
    struct stat st;
    char file[128];

    snprintf(file, sizeof file, "%s/state/deep/trust", sc->top);
    assert_false(trusted(sc, file, "/a", A_HASH));
    assert_int_equal(trust_record(file, "/a", hash_of(A_HASH), &sc->err), 0);
    assert_int_equal(trust_record(file, "/b\nx", hash_of(B_HASH), &sc->err), 0);
    assert_true(trusted(sc, file, "/a", A_HASH));
    assert_false(trusted(sc, file, "/a", B_HASH));
    assert_true(trusted(sc, file, "/b\nx", B_HASH));
    assert_false(trusted(sc, file, "/b", B_HASH));
    assert_int_equal(trust_record(file, "/a", hash_of(B_HASH), &sc->err), 0);
    assert_false(trusted(sc, file, "/a", A_HASH));
    assert_true(trusted(sc, file, "/a", B_HASH));
    assert_int_equal(trust_revoke(file, "/a", &sc->err), 1);
    assert_int_equal(trust_revoke(file, "/a", &sc->err), 0);
    assert_false(trusted(sc, file, "/a", B_HASH));
    assert_true(trusted(sc, file, "/b\nx", B_HASH));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* A folder whose name holds a newline and a whole record must not forge one. */
static void test_forged_record(void **state) {
    struct scene *sc = *state;
    char file[128], name[256];

    snprintf(file, sizeof file, "%s/trust", sc->top);
    snprintf(name, sizeof name, "/x\n%s /victim", hash_of(A_HASH));
    assert_int_equal(trust_record(file, name, hash_of(B_HASH), &sc->err), 0);
    assert_true(trusted(sc, file, name, B_HASH));
    assert_false(trusted(sc, file, "/victim", A_HASH));
}

static void test_records_of_others(void **state) {
    struct scene *sc = *state;
    char file[128];
    bool yes;

    snprintf(file, sizeof file, "%s/trust", sc->top);
    assert_int_equal(trust_record(file, "/a", hash_of(A_HASH), &sc->err), 0);
    assert_int_equal(chmod(file, 0666), 0);
    assert_true(trust_check(file, "/a", hash_of(A_HASH), &yes, &sc->err) < 0);
    has_text(sc->err.msg, "only its owner can write");
}

static void test_torn_records(void **state) {
    struct scene *sc = *state;
    char file[128];

    snprintf(file, sizeof file, "%s/trust", sc->top);
    scene_write(sc, "trust",
                "short\n\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa /a");
    assert_true(trusted(sc, file, "/a", A_HASH));
    assert_false(trusted(sc, file, "", A_HASH));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_untrusted_cannot_widen),
        SCENE_TEST(test_untrusted_can_narrow),
        SCENE_TEST(test_untrusted_profile),
        SCENE_TEST(test_project_profile_by_path),
        SCENE_TEST(test_agent_in_project_is_project),
        SCENE_TEST(test_trusted_until_changed),
        SCENE_TEST(test_trust_does_not_move),
        SCENE_TEST(test_trust_through_symlink),
        SCENE_TEST(test_records),
        SCENE_TEST(test_forged_record),
        SCENE_TEST(test_records_of_others),
        SCENE_TEST(test_torn_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
