/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and ssh keys: a run gets fewer than the user has, never more by a project's wish. */
#include "scene.h"

#include "config/load/project.h"
#include "config/load/trust.h"

static void expect(struct scene *sc, enum setting id, const char *json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    settings_add_value(&sc->s, id, &b);
    assert_string_equal(buf_str(&b), json);
}

static void test_values(void **state) {
    static const struct {
        const char *value, *printed;
    } cases[] = {
        {"\"all\"", "\"all\""}, {"\"none\"", "\"none\""}, {"[]", "\"none\""}, {"[\"b\", \"a\", \"b\"]", "[\"b\", \"a\"]"}};
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *text = str_dupf("{\"sandbox\": {\"secrets\": %s, \"sshKeys\": %s}}", cases[i].value, cases[i].value);

        scene_write(sc, USER_FILE, text);
        LOAD(sc);
        expect(sc, SETTING_SECRETS, cases[i].printed);
        expect(sc, SETTING_SSH_KEYS, cases[i].printed);
    }
    assert_true(choice_has(&sc->s.secrets, "a"));
    assert_false(choice_has(&sc->s.secrets, "c"));
}

static void test_a_project_only_leaves_out(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, "{\"sandbox\": {\"secrets\": [\"a\"], \"sshKeys\": \"none\"}}");
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "[\"a\"]");
    expect(sc, SETTING_SSH_KEYS, "\"none\"");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"secrets\": [\"b\"], \"sshKeys\": \"none\"}}");
    scene_write(sc, PROJECT, "{\"sandbox\": {\"secrets\": [\"a\", \"b\"], \"sshKeys\": \"all\"}}");
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "[\"b\"]");
    expect(sc, SETTING_SSH_KEYS, "\"none\"");
    assert_int_equal(sc->s.notes.len, 2);
    assert_non_null(
        strstr(sc->s.notes.v[1], "secrets [\"a\", \"b\"] not applied: a project may ask for less of this, not for more"));
}

static void test_not_even_a_trusted_one(void **state) {
    struct scene *sc = *state;
    CLEANUP(project_done) struct project p = {0};
    char *variables[] = {NULL};
    CLEANUP(freep) char *records = NULL;

    scene_write(sc, USER_FILE, "{\"sandbox\": {\"secrets\": [\"b\"]}}");
    scene_write(sc, PROJECT, "{\"sandbox\": {\"secrets\": \"all\", \"network\": \"full\"}}");
    assert_int_equal(project_read(sc->workspace, &p, &sc->err), 1);
    assert_int_equal(trust_file(variables, sc->home, &records, &sc->err), 0);
    assert_int_equal(trust_record(records, p.workspace, p.hash, &sc->err), 0);
    LOAD(sc);
    assert_int_equal(sc->s.net.mode, NETWORK_FULL); /* it is trusted */
    expect(sc, SETTING_SECRETS, "[\"b\"]");
}

static void test_flags(void **state) {
    struct scene *sc = *state;
    char *names[] = {"x", "y", NULL}, *keys[] = {"SHA256:abc/def+1", "me@laptop", NULL};

    scene_write(sc, PROJECT, "{\"sandbox\": {\"secrets\": \"none\"}}");
    sc->flags.secrets = (struct strv){names, 2, 3};
    sc->flags.ssh_keys = (struct strv){keys, 2, 3};
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "[\"x\", \"y\"]");
    expect(sc, SETTING_SSH_KEYS, "[\"SHA256:abc/def+1\", \"me@laptop\"]");
    ORIGIN(sc, SECRETS, "flag --secret");
    sc->flags = (struct settings_flags){.no_secrets = true};
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "\"none\"");
    ORIGIN(sc, SECRETS, "flag --no-secrets");
}

static void test_floor(void **state) {
    struct scene *sc = *state;
    char *names[] = {"x", "y", NULL};

    scene_write(sc, POLICY, "{\"floor\": {\"secrets\": [\"y\", \"z\"], \"sshKeys\": \"none\"}}");
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "[\"y\", \"z\"]");
    expect(sc, SETTING_SSH_KEYS, "\"none\"");
    sc->flags.secrets = (struct strv){names, 2, 3};
    LOAD(sc);
    expect(sc, SETTING_SECRETS, "[\"y\"]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_a_project_only_leaves_out, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_not_even_a_trusted_one, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_flags, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_floor, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
