/* SPDX-License-Identifier: Apache-2.0 */
#include "config/fields/field.h"
#include "scene.h"

static bool has(const struct strv *s, const char *item) {
    return strv_has(s, item);
}

static void note_has(struct scene *sc, const char *part) {
    for (size_t i = 0; i < sc->s.notes.len; i++)
        if (strstr(sc->s.notes.v[i], part))
            return;
    fail_msg("no note says '%s'", part);
}

static void test_files_and_flags_add_up(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE,
                "{\"sandbox\": {\"networkAllow\": [\"a.example\", \"@git\"], \"networkDeny\": [\"b.example:80\"],"
                " \"publish\": [3000, \"4000:5000\"], \"ask\": \"wait\", \"askHook\": \"~/hook\", \"askTimeout\": \"5m\"}}");
    assert_int_equal(strv_add(&sc->flags.allow, "c.example:443"), 0);
    assert_int_equal(strv_add(&sc->flags.allow, "a.example"), 0);
    assert_int_equal(strv_add(&sc->flags.deny, "*.d.example"), 0);
    assert_int_equal(strv_add(&sc->flags.publish, "127.0.0.2:6000:0"), 0);
    sc->flags.ask = "never";
    sc->flags.ask_timeout = "90s";
    LOAD(sc);
    assert_int_equal(sc->s.net.allow.len, 3);
    assert_true(has(&sc->s.net.allow, "a.example") && has(&sc->s.net.allow, "@git"));
    assert_true(has(&sc->s.net.allow, "c.example:443"));
    assert_int_equal(sc->s.net.deny.len, 2);
    assert_int_equal(sc->s.net.publish.len, 3);
    assert_true(has(&sc->s.net.publish, "3000") && has(&sc->s.net.publish, "4000:5000") &&
                has(&sc->s.net.publish, "127.0.0.2:6000:0"));
    assert_int_equal(sc->s.question.mode, ASK_NEVER);
    assert_int_equal(sc->s.question.timeout_ms, 90000);
    assert_true(str_starts(sc->s.question.hook, sc->home) && str_ends(sc->s.question.hook, "/hook"));
    ORIGIN(sc, NETWORK_ALLOW, "config.json), flag --allow");
    ORIGIN(sc, PUBLISH, "config.json), flag --publish");
    ORIGIN(sc, ASK, "flag --ask");
    strv_done(&sc->flags.allow);
    strv_done(&sc->flags.deny);
    strv_done(&sc->flags.publish);
}

/* The origin of a list names only those who said something about it. */
static void test_origin_of_the_first_word(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE, "{\"sandbox\": {\"env\": {\"A\": \"b\"}, \"networkDeny\": [\"x.example\"]}}");
    LOAD(sc);
    assert_true(str_starts(sc->s.origin[SETTING_NETWORK_DENY], "user ("));
}

static void test_untrusted_project_only_denies(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT,
                "{\"sandbox\": {\"networkAllow\": [\"evil.example\"], \"networkDeny\": [\"pypi.org\"], \"publish\": [22],"
                " \"ask\": \"wait\", \"askTimeout\": \"2h\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.net.allow.len + sc->s.net.publish.len, 0);
    assert_int_equal(sc->s.net.deny.len, 1);
    assert_int_equal(sc->s.question.mode, ASK_AUTO);
    assert_int_equal(sc->s.question.timeout_ms, 60000);
    assert_int_equal(sc->s.notes.len, 4);
    note_has(sc, "networkAllow [\"evil.example\"] not applied: the project is not trusted");
    note_has(sc, "publish [\"22\"] not applied");
    scene_write(sc, PROJECT, "{\"sandbox\": {\"ask\": \"never\", \"askTimeout\": \"10s\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.question.mode, ASK_NEVER);
    assert_int_equal(sc->s.question.timeout_ms, 10000);
    assert_int_equal(sc->s.notes.len, 0);
}

static void test_no_project_names_a_hook(void **state) {
    struct scene *sc = *state;

    scene_write(sc, PROJECT, "{\"sandbox\": {\"askHook\": \"/bin/true\"}}");
    scene_fails(sc, EXIT_USAGE_ERR, "sandbox.askHook: only the user's and the organisation's file may name a program");
    scene_write(sc, PROJECT, "{\"agent\": {\"a\": {\"sandbox\": {\"askHook\": \"/bin/true\"}}}}");
    scene_fails(sc, EXIT_USAGE_ERR, "agent.a.sandbox.askHook: only");
}

/* "list" is what the rule files say, so whoever may only narrow must not get more out of them than was left. */
static void test_list_keeps_the_ceiling(void **state) {
    static const struct {
        const char *user, *project, *floor, *flag;
        enum network network, ceiling;
    } table[] = {
        {NULL, NULL, NULL, NULL, NETWORK_LIST, NETWORK_FULL},
        {"limited", "list", NULL, NULL, NETWORK_LIST, NETWORK_LIMITED},
        {"full", "list", NULL, NULL, NETWORK_LIST, NETWORK_FULL},
        {"none", "list", NULL, NULL, NETWORK_NONE, NETWORK_FULL},
        {"limited", "list", NULL, "list", NETWORK_LIST, NETWORK_FULL},
        {NULL, NULL, "limited", NULL, NETWORK_LIST, NETWORK_LIMITED},
        {"full", NULL, "list", NULL, NETWORK_LIST, NETWORK_LIST},
        {NULL, NULL, "none", "full", NETWORK_NONE, NETWORK_NONE},
        {"limited", "list", "full", NULL, NETWORK_LIST, NETWORK_LIMITED},
    };
    struct scene *sc = *state;
    char text[100];

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        snprintf(text, sizeof text, "{\"sandbox\": {%s%s%s}}", table[i].user ? "\"network\": \"" : "",
                 table[i].user ? table[i].user : "", table[i].user ? "\"" : "");
        scene_write(sc, USER_FILE, text);
        snprintf(text, sizeof text, "{\"sandbox\": {%s%s%s}}", table[i].project ? "\"network\": \"" : "",
                 table[i].project ? table[i].project : "", table[i].project ? "\"" : "");
        scene_write(sc, PROJECT, text);
        snprintf(text, sizeof text, "{\"floor\": {%s%s%s}}", table[i].floor ? "\"network\": \"" : "",
                 table[i].floor ? table[i].floor : "", table[i].floor ? "\"" : "");
        scene_write(sc, POLICY, text);
        sc->flags.network = table[i].flag;
        LOAD(sc);
        if (sc->s.net.mode != table[i].network || sc->s.net.ceiling != table[i].ceiling)
            fail_msg("case %zu: network %d, ceiling %d", i, sc->s.net.mode, sc->s.net.ceiling);
    }
}

static void test_floor_decides_who_is_asked(void **state) {
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"ask\": \"never\", \"askHook\": \"/usr/bin/org-hook\", \"askTimeout\": \"5s\"}}");
    scene_write(sc, USER_FILE, "{\"sandbox\": {\"ask\": \"wait\", \"askHook\": \"/mine\"}}");
    LOAD(sc);
    assert_int_equal(sc->s.question.mode, ASK_NEVER);
    assert_string_equal(sc->s.question.hook, "/usr/bin/org-hook");
    assert_int_equal(sc->s.question.timeout_ms, 5000);
    note_has(sc, "ask 'wait' (");
    note_has(sc, "askHook '/mine' (");
}

static void test_hosts_without_effect_are_told(void **state) {
    struct scene *sc = *state;

    scene_write(sc, USER_FILE, "{\"sandbox\": {\"profile\": \"safe\", \"networkAllow\": [\"a.example\"]}}");
    LOAD(sc);
    assert_int_equal(sc->s.notes.len, 1);
    note_has(sc, "has no effect: the network is none (profile safe (");
    sc->flags.network = "list";
    LOAD(sc);
    assert_int_equal(sc->s.notes.len, 0);
}

static void test_mistakes(void **state) {
    static const struct {
        const char *file, *part;
    } table[] = {
        {"{\"networkAllow\": \"a\"}", "sandbox.networkAllow: must be an array of hosts, not a string"},
        {"{\"networkAllow\": [1]}", "sandbox.networkAllow[0]: must be a string, not a number"},
        {"{\"networkAllow\": [\"\"]}", "sandbox.networkAllow[0]: a host has 1 to 300 bytes"},
        {"{\"networkDeny\": [\"a\", \"a b\"]}", "sandbox.networkDeny[1]: a host has no spaces or control characters"},
        {"{\"publish\": [0]}", "sandbox.publish[0]: '0' must be a port inside"},
        {"{\"publish\": [-1]}", "sandbox.publish[0]: '-1' must be a port inside"},
        {"{\"publish\": [\"80:65536\"]}", "must be a port inside, or INSIDE:OUTSIDE"},
        {"{\"publish\": [\"[::1]:80\"]}", "must be a port inside, or INSIDE:OUTSIDE"},
        {"{\"publish\": [\"80:\"]}", "must be a port inside"},
        {"{\"publish\": [\"\"]}", "must be a port inside"},
        {"{\"publish\": [1.5]}", "sandbox.publish[0]: must be a port, or \"INSIDE:OUTSIDE\", not a number"},
        {"{\"ask\": \"always\"}", "sandbox.ask: 'always' is not known (one of: auto, never, wait)"},
        {"{\"askHook\": \"hook\"}", "sandbox.askHook: must be the path of a program"},
        {"{\"askTimeout\": \"0.5s\"}", "sandbox.askTimeout: '0.5s' must be a time from 1s to 24h"},
        {"{\"askTimeout\": \"2d\"}", "must be a time from 1s to 24h"},
        {"{\"askTimeout\": \"unlimited\"}", "sandbox.askTimeout: 'unlimited' is not"},
    };
    struct scene *sc = *state;
    char text[200];

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        snprintf(text, sizeof text, "{\"sandbox\": %s}", table[i].file);
        scene_write(sc, USER_FILE, text);
        scene_fails(sc, EXIT_USAGE_ERR, table[i].part);
    }
}

static void test_too_many(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);
    struct scene *sc = *state;

    buf_adds(&b, "{\"sandbox\": {\"networkAllow\": [\"h0\"");
    for (int i = 1; i <= NETWORK_HOSTS_MAX; i++)
        buf_addf(&b, ", \"h%d\"", i);
    buf_adds(&b, "]}}");
    scene_write(sc, USER_FILE, buf_str(&b));
    scene_fails(sc, EXIT_USAGE_ERR, "sandbox.networkAllow[256]: more than 256 hosts");
    buf_clear(&b);
    buf_adds(&b, "{\"sandbox\": {\"publish\": [1");
    for (int i = 2; i <= 32; i++)
        buf_addf(&b, ", %d", i);
    buf_adds(&b, "]}}");
    scene_write(sc, USER_FILE, buf_str(&b));
    LOAD(sc);
    assert_int_equal(sc->s.net.publish.len, 32);
    assert_int_equal(strv_add(&sc->flags.publish, "33"), 0);
    settings_done(&sc->s);
    scene_fails(sc, EXIT_USAGE_ERR, "publish: all levels together name more than there can be");
    strv_done(&sc->flags.publish);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_files_and_flags_add_up),
        SCENE_TEST(test_origin_of_the_first_word),
        SCENE_TEST(test_untrusted_project_only_denies),
        SCENE_TEST(test_no_project_names_a_hook),
        SCENE_TEST(test_list_keeps_the_ceiling),
        SCENE_TEST(test_floor_decides_who_is_asked),
        SCENE_TEST(test_hosts_without_effect_are_told),
        SCENE_TEST(test_mistakes),
        SCENE_TEST(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
