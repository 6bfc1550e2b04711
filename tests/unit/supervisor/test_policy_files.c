/* SPDX-License-Identifier: Apache-2.0 */
/* Which files with network rules count, and for what. */
#include "../config/scene.h"
#include "base/sha256.h"
#include "config/load/trust.h"
#include "supervisor/network/policy_files.h"

#define USER_RULES "home/.config/bawn/network.json"
#define PROJECT_RULES "work/.bawn/network.json"
#define ORGANISATION "network.json"

static int load(struct scene *sc, struct policy_files *f) {
    char organisation[200];
    int fd = open(sc->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC), r;
    const struct policy_where where = {.settings = &sc->s,
                                       .workspace = sc->workspace,
                                       .workspace_fd = fd,
                                       .home = sc->home,
                                       .environ_ = sc->environ_,
                                       .organisation = organisation};

    snprintf(organisation, sizeof organisation, "%s/" ORGANISATION, sc->top);
    sc->err = (struct err){0};
    policy_files_done(f);
    r = policy_files_load(&where, f, &sc->err);
    close(fd);
    return r;
}

#define FILES(sc, f)                       \
    do {                                   \
        LOAD(sc);                          \
        if (load(sc, f) < 0)               \
            fail_msg("%s", (sc)->err.msg); \
    } while (0)

static void fails(struct scene *sc, const char *part) {
    CLEANUP(policy_files_done) struct policy_files f = {0};

    LOAD(sc);
    if (load(sc, &f) >= 0)
        fail_msg("loading succeeded, but should fail with '%s'", part);
    has_text(sc->err.msg, part);
    assert_int_equal(f.n, 0);
}

static void trust(struct scene *sc, const char *text) {
    char hash[SHA256_HEX_SIZE], path[200], records[200];

    sha256_hex(text, strlen(text), hash);
    snprintf(path, sizeof path, "%s/.bawn/network.json", sc->workspace);
    snprintf(records, sizeof records, "%s/.local/state/bawn/trust", sc->home);
    assert_int_equal(trust_record(records, path, hash, NULL), 0);
}

/* The verdict about host:443. */
static enum rule_action ask(struct scene *sc, const struct policy_files *f, const char *name, const char *address,
                            char ret_layer[static 32]) {
    CLEANUP(policy_done) struct policy p = {0};
    struct policy_verdict v;
    struct host host;
    struct addr a;
    const struct policy_request req = {.host = &host, .port = 443, .address = address ? &a : NULL};

    assert_int_equal(policy_files_compile(f, policy_files_mode(&sc->s), policy_files_can_ask(&sc->s, true), &p, NULL), 0);
    assert_int_equal(host_parse(name, strlen(name), &host, NULL), 0);
    if (address)
        assert_int_equal(addr_parse(address, strlen(address), &a), 0);
    policy_judge(&p, &req, &v);
    snprintf(ret_layer, 32, "%s", v.layer);
    return v.action;
}

#define IS(sc, f, name, action, from)                             \
    do {                                                          \
        char layer_[32];                                          \
        assert_int_equal(ask(sc, f, name, NULL, layer_), action); \
        assert_string_equal(layer_, from);                        \
    } while (0)

static void test_nothing_but_the_groups(void **state) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;

    FILES(sc, &f);
    assert_int_equal(f.n, 0);
    IS(sc, &f, "pypi.org", RULE_ALLOW, "built-in");
    IS(sc, &f, "example.com", RULE_ASK, "mode");
    sc->flags.ask = "never";
    FILES(sc, &f);
    IS(sc, &f, "example.com", RULE_DENY, "mode");
}

static void test_layers(void **state) {
    static const char project[] =
        "{\"rules\": [{\"action\": \"allow\", \"host\": \"p.example\"}, {\"action\": \"deny\", \"host\": \"github.com\"}]}";
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;

    scene_write(sc, USER_RULES,
                "{\"rules\": [{\"action\": \"allow\", \"host\": [\"u.example\", \"o.example\"]},"
                " {\"action\": \"deny\", \"host\": \"s.example\"}]}");
    scene_write(sc, PROJECT_RULES, project);
    scene_write(sc, ORGANISATION, "{\"rules\": [{\"action\": \"deny\", \"host\": \"o.example\"}]}");
    assert_int_equal(strv_add(&sc->flags.allow, "s.example"), 0);
    assert_int_equal(strv_add(&sc->flags.allow, "pypi.org"), 0);
    assert_int_equal(strv_add(&sc->flags.deny, "pypi.org"), 0);
    FILES(sc, &f);
    assert_int_equal(f.n, 4);
    IS(sc, &f, "u.example", RULE_ALLOW, "user");
    IS(sc, &f, "s.example", RULE_ALLOW, "sandbox");
    IS(sc, &f, "pypi.org", RULE_DENY, "sandbox");
    IS(sc, &f, "o.example", RULE_DENY, "organisation");
    IS(sc, &f, "github.com", RULE_DENY, "project");
    IS(sc, &f, "p.example", RULE_ASK, "mode");
    assert_int_equal(f.notes.len, 1);
    has_text(f.notes.v[0], "/work/.bawn/network.json: can only deny: the project is not trusted");
    trust(sc, project);
    FILES(sc, &f);
    IS(sc, &f, "p.example", RULE_ALLOW, "project");
    assert_int_equal(f.notes.len, 0);
    has_text(policy_files_source(&f, "project"), "/work/.bawn/network.json");
    scene_write(sc, PROJECT_RULES, "{\"rules\": [{\"action\": \"allow\", \"host\": \"p.example\"}] }");
    FILES(sc, &f);
    IS(sc, &f, "p.example", RULE_ASK, "mode");
    strv_done(&sc->flags.allow);
    strv_done(&sc->flags.deny);
}

/* Trust in .bawn/config.json is none in .bawn/network.json with the same bytes, and the other way round. */
static void test_trust_is_for_one_file(void **state) {
    static const char text[] = "{}";
    CLEANUP(policy_files_done) struct policy_files f = {0};
    char hash[SHA256_HEX_SIZE], records[200];
    struct scene *sc = *state;

    scene_write(sc, PROJECT_RULES, text);
    sha256_hex(text, strlen(text), hash);
    snprintf(records, sizeof records, "%s/.local/state/bawn/trust", sc->home);
    assert_int_equal(trust_record(records, sc->workspace, hash, NULL), 0);
    FILES(sc, &f);
    assert_true(f.v[0].narrow_only);
    trust(sc, text);
    FILES(sc, &f);
    assert_false(f.v[0].narrow_only);
}

static void test_modes(void **state) {
    static const struct {
        const char *network, *floor, *mode;
        enum rule_action unlisted;
    } table[] = {
        {NULL, NULL, "full", RULE_ALLOW},      {NULL, NULL, "list", RULE_DENY},   {"list", NULL, "full", RULE_ALLOW},
        {"limited", NULL, "none", RULE_ALLOW}, {"none", NULL, "full", RULE_DENY}, {NULL, "list", "full", RULE_DENY},
        {NULL, "limited", "full", RULE_ALLOW}, {NULL, "none", "full", RULE_DENY}, {"full", "list", "full", RULE_DENY},
    };
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;
    char text[100], layer[32];

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        snprintf(text, sizeof text, "{\"floor\": {%s%s%s}}", table[i].floor ? "\"network\": \"" : "",
                 table[i].floor ? table[i].floor : "", table[i].floor ? "\"" : "");
        scene_write(sc, POLICY, text);
        snprintf(text, sizeof text, "{\"mode\": \"%s\"}", table[i].mode);
        scene_write(sc, USER_RULES, text);
        sc->flags.network = table[i].network;
        FILES(sc, &f);
        if (ask(sc, &f, "unlisted.example", NULL, layer) != table[i].unlisted)
            fail_msg("case %zu", i);
    }
}

static void test_a_cut_mode_is_told_and_the_rules_stay(void **state) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;

    scene_write(sc, POLICY, "{\"floor\": {\"network\": \"list\"}}");
    scene_write(
        sc, USER_RULES,
        "{\"mode\": \"full\", \"groups\": {\"@g\": [\"g.example\"]}, \"rules\": [{\"action\": \"allow\", \"host\": \"@g\"}]}");
    FILES(sc, &f);
    assert_int_equal(f.notes.len, 1);
    has_text(f.notes.v[0], "mode 'full' is more than is allowed here: 'list' is used");
    IS(sc, &f, "g.example", RULE_ALLOW, "user");
    IS(sc, &f, "other.example", RULE_DENY, "mode");
}

static void test_mistakes_stop(void **state) {
    char path[300], target[300];
    struct scene *sc = *state;

    scene_write(sc, USER_RULES, "{\n  \"rules\": [{\"action\": \"alow\", \"host\": \"x\"}]}");
    fails(sc, "home/.config/bawn/network.json:2:24: rules[0].action: must be");
    scene_write(sc, USER_RULES, "{}");
    scene_write(sc, PROJECT_RULES, "{\"rulez\": []}");
    fails(sc, "work/.bawn/network.json:1:2: unknown key 'rulez' (did you mean 'rules'?)");
    snprintf(path, sizeof path, "%s/" PROJECT_RULES, sc->top);
    snprintf(target, sizeof target, "%s/" USER_RULES, sc->top);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(target, path), 0);
    fails(sc, "a symbolic link is not followed here");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    fails(sc, "not a regular file");
    assert_int_equal(unlink(path), 0);
    sc->flags.network = NULL;
    assert_int_equal(strv_add(&sc->flags.allow, "127.1"), 0);
    fails(sc, "networkAllow (flag --allow): ");
    strv_done(&sc->flags.allow);
}

static void test_organisation_must_be_safe(void **state) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;
    char path[200];

    scene_write(sc, ORGANISATION, "{}");
    snprintf(path, sizeof path, "%s/" ORGANISATION, sc->top);
    assert_int_equal(chmod(path, 0664), 0);
    fails(sc, "must be writable by their owner only");
    assert_int_equal(chmod(path, 0644), 0);
    FILES(sc, &f);
    assert_int_equal(f.n, 1);
    assert_true(f.v[0].narrow_only);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 0), 0);
        fails(sc, "must belong to root");
    }
}

/* Every folder that is named exists, so that it can be watched; one that is made later is noticed in its parent. */
static void test_watch(void **state) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;
    char folder[200];

    FILES(sc, &f);
    assert_true(strv_has(&f.watch, sc->top) && strv_has(&f.watch, sc->home) && strv_has(&f.watch, sc->workspace));
    scene_write(sc, USER_RULES, "{}");
    scene_write(sc, PROJECT_RULES, "{}");
    FILES(sc, &f);
    snprintf(folder, sizeof folder, "%s/.config/bawn", sc->home);
    assert_true(strv_has(&f.watch, folder));
    snprintf(folder, sizeof folder, "%s/.bawn", sc->workspace);
    assert_true(strv_has(&f.watch, folder));
    for (size_t i = 0; i < f.watch.len; i++)
        assert_int_equal(access(f.watch.v[i], F_OK), 0);
}

/* A name that leads to this machine's own address is not public, whatever the address. */
static void test_own_addresses(void **state) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    struct scene *sc = *state;
    char layer[32];

    FILES(sc, &f);
    assert_int_equal(ask(sc, &f, "pypi.org", "127.0.0.1", layer), RULE_DENY);
    assert_string_equal(layer, "address");
    assert_int_equal(ask(sc, &f, "pypi.org", "151.101.0.223", layer), RULE_ALLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_nothing_but_the_groups),
        SCENE_TEST(test_layers),
        SCENE_TEST(test_trust_is_for_one_file),
        SCENE_TEST(test_modes),
        SCENE_TEST(test_a_cut_mode_is_told_and_the_rules_stay),
        SCENE_TEST(test_mistakes_stop),
        SCENE_TEST(test_organisation_must_be_safe),
        SCENE_TEST(test_watch),
        SCENE_TEST(test_own_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
