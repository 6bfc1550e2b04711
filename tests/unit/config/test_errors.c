/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be wrong with a file: a message with place, key and remedy, exit status 64, nothing loaded. */
#include "scene.h"

#define S(text) text, sizeof text - 1
#define SANDBOX(inner) S("{\n  \"sandbox\": " inner "\n}\n")

static const struct {
    const char *file;
    size_t len;
    const char *message;
} bad[] = {
    /* syntax */
    {S(""), ":1:1: the file is empty"},
    {S(" \n"), ":1:1: the file is empty"},
    {S("{"), "not valid JSON"},
    {S("{\"sandbox\": {\"network\": \"none\"},}"), ":1:33: not valid JSON"},
    {S("{\"sandbox\": {}} trailing"), "not valid JSON"},
    {S("[]"), ":1:1: the file must hold an object"},
    {S("{'sandbox': {}}"), ":1:2: not valid JSON"},
    {S("\xef\xbb\xbf{}"), ":1:1: the file starts with a byte order mark"},
    {S("{\"sandbox\": {\n\"image\": \"a\0b\"}}"), ":2:12: a NUL byte"},
    {S("{\"sandbox\": {\n\"image\": \"a\\u0000b\"}}"), "\\u0000 is not allowed"},
    {S("{\"sandbox\": {\n\"image\": \"\xc3\xa4\xff\"}}"), ":2:12: byte 0xff is not valid UTF-8"},
    {S("{\"sandbox\": {\n\"image\": \"\xed\xa0\x80\"}}"), ":2:11: byte 0xed is not valid UTF-8"},
    {S("{\"sandbox\": {\n\"image\": \"\\ud800\"}}"), "not valid JSON"},
    {SANDBOX("{\"network\": \"none\",\n   \"network\": \"full\"}"), ":3:4: key 'network' appears twice"},
    {SANDBOX("{\"resources\": {\"m\\\"x\": 1,\n\"m\\\"x\": 2}}"), ":3:1: key 'm\\\"x' appears twice"},
    {S("{\"agent\": {\"a\": {\"sandbox\": {}}, \"a\": {}}}"), ":1:34: key 'a' appears twice"},
    {SANDBOX("{\"resources\": {\"cpus\": NaN}}"), "not valid JSON"},
    {SANDBOX("{\"resources\": {\"cpus\": Infinity}}"), "not valid JSON"},
    {SANDBOX("{\"resources\": {\"cpus\": 1e999}}"), "the number is too large"},
    {SANDBOX("{\"resources\": {\"pids\": 99999999999999999999999}}"), "the number is too large"},
    /* unknown keys */
    {S("{\n \"sandbx\": {}}"), ":2:2: unknown key 'sandbx' (did you mean 'sandbox'?)"},
    {S("{\"model\": \"x\"}"), ":1:2: unknown key 'model' (known here: sandbox, agent)"},
    {S("{\"$schema\": 3}"), "unknown key '$schema'"},
    {SANDBOX("{\n    \"netwrok\": \"none\"}"), ":3:5: unknown key 'sandbox.netwrok' (did you mean 'network'?)"},
    {SANDBOX("{\"resources\": {\"memroy\": \"1g\"}}"), ":2:29: unknown key 'sandbox.resources.memroy' (did you mean 'memory'?)"},
    {SANDBOX("{\"memory\": \"1g\"}"), "unknown key 'sandbox.memory' (did you mean 'resources.memory'?)"},
    {SANDBOX("{\"quux\": 1}"), "unknown key 'sandbox.quux' (known here: mode, engine, profile, image, resources, network"},
    {SANDBOX("{\"engines\": [\"native\"]}"), "unknown key 'sandbox.engines' (did you mean 'engine'?)"},
    {S("{\"agent\": {\"a\": {\"sandbox\": {\"netwrok\": 1}}}}"), "unknown key 'agent.a.sandbox.netwrok'"},
    {S("{\"agent\": {\"a\": {\"sandbax\": {}}}}"), "unknown key 'agent.a.sandbax' (did you mean 'sandbox'?)"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"frm\": \"/a\"}]}}"),
     "unknown key 'sandbox.mounts.extra[0].frm' (did you mean 'from'?)"},
    /* wrong types */
    {S("{\"sandbox\": []}"), "sandbox: must be an object, not an array"},
    {S("{\"agent\": 1}"), "agent: must be an object of agents, not a number"},
    {S("{\"agent\": {\"a\": null}}"), "agent.a: must be an object, not null"},
    {SANDBOX("{\"enabled\": \"yes\"}"), "sandbox.enabled: must be true or false, not a string"},
    {SANDBOX("{\"network\": true}"), ":2:26: sandbox.network: must be a string, not true or false"},
    {SANDBOX("{\"resources\": 4}"), "sandbox.resources: must be an object, not a number"},
    {SANDBOX("{\"resources\": {\"memory\": 4096}}"), "sandbox.resources.memory: must be a string, not a number"},
    {SANDBOX("{\"resources\": {\"cpus\": \"2\"}}"), "sandbox.resources.cpus: must be a number, not a string"},
    {SANDBOX("{\"resources\": {\"pids\": \"2\"}}"), "sandbox.resources.pids: must be a whole number, not a string"},
    {SANDBOX("{\"resources\": {\"pids\": 2.5}}"), "sandbox.resources.pids: must be a whole number"},
    {SANDBOX("{\"resources\": {\"timeout\": 30}}"), "sandbox.resources.timeout: must be a string, not a number"},
    {SANDBOX("{\"mounts\": []}"), "sandbox.mounts: must be an object, not an array"},
    {SANDBOX("{\"mounts\": {\"workspace_writable\": 1}}"),
     "sandbox.mounts.workspace_writable: must be true or false, not a number"},
    {SANDBOX("{\"mounts\": {\"extra\": {}}}"), "sandbox.mounts.extra: must be an array of {from, to, mode}, not an object"},
    {SANDBOX("{\"mounts\": {\"extra\": [\"/a\"]}}"), "sandbox.mounts.extra[0]: must be an object"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": 1}]}}"), "sandbox.mounts.extra[0].from: must be a string"},
    {SANDBOX("{\"bypass_tools\": \"x\"}"), "sandbox.bypass_tools: must be an array"},
    {SANDBOX("{\"bypass_tools\": [1]}"), "sandbox.bypass_tools[0]: must be a string"},
    {SANDBOX("{\"bypass_tools\": [\"\"]}"), "a tool's name has 1 to"},
    {SANDBOX("{\"env\": []}"), "sandbox.env: must be an object"},
    {SANDBOX("{\"env\": {\"A\": 1}}"), "sandbox.env.A: must be a string"},
    {SANDBOX("{\"keep_alive\": null}"), "sandbox.keep_alive: must be true or false, not null"},
    /* sizes and numbers */
    {SANDBOX("{\"resources\": {\"memory\": \"-1\"}}"), ":2:39: sandbox.resources.memory: '-1' is not a size"},
    {SANDBOX("{\"resources\": {\"memory\": \"0\"}}"), "sandbox.resources.memory: size '0' must be more than 0"},
    {SANDBOX("{\"resources\": {\"memory\": \"999999999t\"}}"), "sandbox.resources.memory: size '999999999t' is too large"},
    {SANDBOX("{\"resources\": {\"memory\": \"1.5.2\"}}"), "sandbox.resources.memory: '1.5.2' is not a size"},
    {SANDBOX("{\"resources\": {\"memory\": \"\"}}"), "sandbox.resources.memory: '' is not a size"},
    {SANDBOX("{\"resources\": {\"memory\": \"NaN\"}}"), "sandbox.resources.memory: 'NaN' is not a size"},
    {SANDBOX("{\"resources\": {\"memory\": \"4\"}}"), "sandbox.resources.memory: '4' is too small"},
    {SANDBOX("{\"resources\": {\"disk\": \"-1\"}}"), "sandbox.resources.disk: '-1' is not a size"},
    {SANDBOX("{\"resources\": {\"tmp\": \"unlimited\"}}"), "sandbox.resources.tmp: home and /tmp have a size, e.g. 10g"},
    {SANDBOX("{\"resources\": {\"tmp\": \"10\"}}"), "sandbox.resources.tmp: '10' is too small"},
    {SANDBOX("{\"resources\": {\"swap\": \"-1\"}}"), "sandbox.resources.swap: '-1' is not a size"},
    {SANDBOX("{\"resources\": {\"timeout\": \"-1\"}}"), "sandbox.resources.timeout: '-1' is not a duration"},
    {SANDBOX("{\"resources\": {\"timeout\": \"0\"}}"), "sandbox.resources.timeout: duration '0' must be more than 0"},
    {SANDBOX("{\"resources\": {\"cpus\": -1}}"), "sandbox.resources.cpus: CPU count must be between"},
    {SANDBOX("{\"resources\": {\"cpus\": 0}}"), "sandbox.resources.cpus: CPU count must be between"},
    {SANDBOX("{\"resources\": {\"cpus\": 1e300}}"), "sandbox.resources.cpus: CPU count must be between"},
    {SANDBOX("{\"resources\": {\"pids\": 0}}"), "sandbox.resources.pids: 0 is out of range (1 to 4194304)"},
    {SANDBOX("{\"resources\": {\"pids\": -1}}"), "sandbox.resources.pids: -1 is out of range"},
    {SANDBOX("{\"resources\": {\"pids\": 4194305}}"), "sandbox.resources.pids: 4194305 is out of range"},
    /* words and names */
    {SANDBOX("{\"network\": \"ful\"}"), "sandbox.network: 'ful' is not known (did you mean 'full'?)"},
    {SANDBOX("{\"network\": \"internet\"}"),
     "sandbox.network: 'internet' is not known (one of: none, list, limited, full, off, on)"},
    {SANDBOX("{\"sshAgent\": \"yes\"}"), "sandbox.sshAgent: 'yes' is not known (one of: off, auto, on)"},
    {SANDBOX("{\"mode\": \"required\"}"), "sandbox.mode: 'required' is not known (did you mean 'require'?)"},
    {SANDBOX("{\"runtime\": \"dokcer\"}"), "sandbox.runtime: 'dokcer' is not an engine (did you mean 'docker'?)"},
    {SANDBOX("{\"image\": \"--privileged\"}"), "sandbox.image: '--privileged' is not the name of an image"},
    {SANDBOX("{\"image\": \"a b\"}"), "sandbox.image: 'a b' is not the name of an image"},
    {SANDBOX("{\"image\": \"\"}"), "is not the name of an image"},
    {SANDBOX("{\"profile\": \"..\"}"), "sandbox.profile: '..' is not the name of a profile"},
    {SANDBOX("{\"profile\": \"a b\"}"), "sandbox.profile: 'a b' is not the name of a profile"},
    {SANDBOX("{\"profile\": \"tigt\"}"), "there is no profile 'tigt' (did you mean 'tight'?)"},
    {SANDBOX("{\"env\": {\"A=B\": \"x\"}}"), "sandbox.env.A=B: 'A=B' is not the name of a variable"},
    {SANDBOX("{\"env\": {\"\": \"x\"}}"), "'' is not the name of a variable"},
    {SANDBOX("{\"env\": {\"1A\": \"x\"}}"), "'1A' is not the name of a variable"},
    {SANDBOX("{\"profile\": \"x/y\"}"), "sandbox.profile: "},
    /* contradictions */
    {SANDBOX("{\"engine\": \"native\", \"runtime\": \"docker\"}"),
     "sandbox.runtime: says the same thing as another key here ('engine')"},
    {SANDBOX("{\"enabled\": true, \"mode\": \"require\"}"), "sandbox.mode: says the same thing as another key here ('enabled')"},
    {SANDBOX("{\"enabled\": true, \"runtime\": \"none\"}"), "engine 'none' means no sandbox"},
    /* mounts */
    {SANDBOX("{\"mounts\": {\"extra\": [{\"to\": \"/a\"}]}}"), "sandbox.mounts.extra[0]: key 'from' is missing"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"a\"}]}}"), "path 'a' must be absolute"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a/../b\"}]}}"), "must not contain '..'"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"~/../b\"}]}}"), "must not contain '..'"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"~root/b\"}]}}"), "must be absolute"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/\"}]}}"), "mounting '/' into a sandbox is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/./\", \"to\": \"/a\"}]}}"), "mounting '/' into a sandbox is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"//proc/1\", \"to\": \"/a\"}]}}"),
     "mounting '/proc/1' into a sandbox is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/\"}]}}"), "mounting over '/' is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/./usr/\"}]}}"), "mounting over '/usr' is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/proc/sys\"}]}}"),
     "mounting over '/proc/sys' is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/dev\"}]}}"), "mounting over '/dev' is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"to\": \"/sys\"}]}}"), "mounting over '/sys' is not allowed"},
    {SANDBOX("{\"mounts\": {\"extra\": [{\"from\": \"/a\", \"mode\": \"rx\"}]}}"), "'rx' is not known (one of: ro, rw)"},
};

static void each_bad_file(struct scene *sc, const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        scene_write_bytes(sc, name, bad[i].file, bad[i].len);
        scene_fails(sc, EXIT_USAGE_ERR, bad[i].message);
        has_text(sc->err.msg, name);
    }
}

static void test_user_file(void **state) {
    each_bad_file(*state, USER_FILE);
}

static void test_project_file(void **state) {
    each_bad_file(*state, PROJECT);
}

static void test_profile_file(void **state) {
    static const struct {
        const char *file, *message;
    } table[] = {
        {"{\"sandbox\": {}}", ":1:2: unknown key 'sandbox'"},
        {"{\"mounts\": {}}", "mounts: must be an array of {from, to, mode}, not an object"},
        {"{\"mounts\": [{\"from\": \"/proc\"}]}", "mounts[0]: mounting '/proc' into a sandbox is not allowed"},
        {"{\"resources\": {\"memory\": \"1.5.2\"}}", "resources.memory: '1.5.2' is not a size"},
        {"{\"profile\": \"dev\"}", "unknown key 'profile'"},
        {"{\"runtime\": \"docker\"}", "unknown key 'runtime'"},
        {"{\"enabled\": true}", "unknown key 'enabled'"},
        {"{\"workspace_writable\": true}", "unknown key 'workspace_writable'"},
    };
    struct scene *sc = *state;

    sc->flags.profile = "mine";
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        scene_write(sc, "home/.config/bawn/profiles/mine.json", table[i].file);
        scene_fails(sc, EXIT_USAGE_ERR, table[i].message);
        has_text(sc->err.msg, "profiles/mine.json:");
    }
}

static void test_deep_nesting(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1024 * 1024);
    struct scene *sc = *state;

    for (int i = 0; i < 100000; i++)
        buf_adds(&b, "[");
    scene_write(sc, USER_FILE, buf_str(&b));
    scene_fails(sc, EXIT_USAGE_ERR, ":1:33: nested too deeply (at most 32 levels)");
}

static void test_ten_megabytes(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(11 * 1024 * 1024);
    struct scene *sc = *state;

    while (b.len < 10 * 1024 * 1024)
        buf_adds(&b, "                                                                ");
    buf_adds(&b, "{}");
    scene_write(sc, USER_FILE, buf_str(&b));
    scene_fails(sc, EXIT_USAGE_ERR, ":1:1: the file has more than 1048576 bytes");
}

static void test_too_many_agents(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct scene *sc = *state;

    buf_adds(&b, "{\"agent\": {");
    for (int i = 0; i < 65; i++)
        buf_addf(&b, "%s\"a%d\": {}", i ? "," : "", i);
    buf_adds(&b, "}}");
    scene_write(sc, PROJECT, buf_str(&b));
    scene_fails(sc, EXIT_USAGE_ERR, "agent: more than 64 agents");
}

static void test_bad_flags(void **state) {
    struct scene *sc = *state;
    const struct {
        const char **flag, *value, *message;
    } table[] = {
        {&sc->flags.memory, "-1", "--memory: '-1' is not a size"},
        {&sc->flags.memory, "999999999t", "--memory: size '999999999t' is too large"},
        {&sc->flags.cpus, "0", "--cpus: CPU count"},
        {&sc->flags.cpus, "nan", "--cpus: 'nan' is not a CPU count"},
        {&sc->flags.pids, "0", "--pids: 0 is out of range"},
        {&sc->flags.disk, "1.5.2", "--disk: '1.5.2' is not a size"},
        {&sc->flags.timeout, "soon", "--timeout: 'soon' is not a duration"},
        {&sc->flags.network, "ful", "--network: 'ful' is not known (did you mean 'full'?)"},
        {&sc->flags.engine, "natve", "--engine: 'natve' is not an engine (did you mean 'native'?)"},
        {&sc->flags.ssh_agent, "x", "--ssh-agent: 'x' is not known"},
        {&sc->flags.profile, "nope", "there is no profile 'nope' (known: dev, offline, safe, tight)"},
        {&sc->flags.profile, "./nope.json", "there is no profile './nope.json'"},
        {&sc->flags.image, "-v/:/", "--image: '-v/:/' is not the name of an image"},
        {&sc->flags.mode, "of", "--sandbox: 'of' is not known (did you mean 'off'?)"},
        {&sc->flags.workspace_mode, "rw", "--workspace: 'rw' is not known (did you mean 'ro'?)"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        *table[i].flag = table[i].value;
        scene_fails(sc, EXIT_USAGE_ERR, table[i].message);
        *table[i].flag = NULL;
    }
    sc->flags.mode = "require";
    sc->flags.engine = "none";
    scene_fails(sc, EXIT_USAGE_ERR, "--engine none means no sandbox");
}

static void test_bad_list_flags(void **state) {
    static const char *const mounts[] = {"a", "/", "/a:b", "/a:/b:rw:x", "/a:/b:/c", "/proc", "/a:/usr", "", "/a/..:/b"};
    static const char *const env[] = {"=x", "A-B=x", "", "9=x"};
    struct scene *sc = *state;
    char *word, *list[] = {NULL, NULL};

    for (size_t i = 0; i < ARRAY_LEN(mounts) + ARRAY_LEN(env); i++) {
        bool is_mount = i < ARRAY_LEN(mounts);

        word = list[0] = strdup(is_mount ? mounts[i] : env[i - ARRAY_LEN(mounts)]);
        *(is_mount ? &sc->flags.mounts : &sc->flags.env) = (struct strv){list, 1, 2};
        scene_fails(sc, EXIT_USAGE_ERR, is_mount ? "--mount: " : "--env: ");
        sc->flags = (struct settings_flags){0};
        free(word);
    }
}

static void test_bad_environment(void **state) {
    static const struct {
        const char *variable, *message;
    } table[] = {
        {"BAWN_SANDBOX=dokcer",
         "BAWN_SANDBOX (true, false, require or an engine): 'dokcer' is not an engine (did you mean 'docker'?)"},
        {"BAWN_PROFILE=nope", "there is no profile 'nope'"},
        {"BAWN_PROFILE=a b", "BAWN_PROFILE: 'a b' is not the name"},
        {"BAWN_SANDBOX_IMAGE=-x", "BAWN_SANDBOX_IMAGE: '-x' is not the name of an image"},
    };
    struct scene *sc = *state;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char variable[64];

        snprintf(variable, sizeof variable, "%s", table[i].variable);
        sc->environ_[0] = variable;
        scene_fails(sc, EXIT_USAGE_ERR, table[i].message);
    }
}

static void plant(struct scene *sc, const char *what) {
    char folder[128], file[160], target[128];

    snprintf(folder, sizeof folder, "%s/.bawn", sc->workspace);
    snprintf(file, sizeof file, "%s/config.json", folder);
    snprintf(target, sizeof target, "%s/elsewhere", sc->top);
    scene_write(sc, "elsewhere/config.json", "{}");
    if (str_eq(what, "symlinked folder")) {
        assert_int_equal(symlink(target, folder), 0);
        return;
    }
    if (str_eq(what, "file as folder")) {
        scene_write(sc, "work/.bawn", "x");
        return;
    }
    assert_int_equal(mkdir(folder, 0700), 0);
    if (str_eq(what, "symlink"))
        assert_int_equal(symlink("../../elsewhere/config.json", file), 0);
    else if (str_eq(what, "fifo"))
        assert_int_equal(mkfifo(file, 0600), 0);
    else
        assert_int_equal(mkdir(file, 0700), 0);
}

static void test_planted_symlink(void **state) {
    plant(*state, "symlink");
    scene_fails(*state, EXIT_USAGE_ERR, "config.json:1:1: a symbolic link is not followed here");
}

static void test_planted_symlinked_folder(void **state) {
    plant(*state, "symlinked folder");
    scene_fails(*state, EXIT_USAGE_ERR, "config.json:1:1: a symbolic link is not followed here");
}

static void test_planted_fifo(void **state) {
    plant(*state, "fifo");
    scene_fails(*state, EXIT_USAGE_ERR, "config.json:1:1: not a regular file");
}

static void test_planted_directory(void **state) {
    plant(*state, "directory");
    scene_fails(*state, EXIT_USAGE_ERR, "config.json:1:1: not a regular file");
}

static void test_planted_file_as_folder(void **state) {
    plant(*state, "file as folder");
    scene_fails(*state, EXIT_USAGE_ERR, "not a regular file in a folder");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_user_file),
        SCENE_TEST(test_project_file),
        SCENE_TEST(test_profile_file),
        SCENE_TEST(test_deep_nesting),
        SCENE_TEST(test_ten_megabytes),
        SCENE_TEST(test_too_many_agents),
        SCENE_TEST(test_bad_flags),
        SCENE_TEST(test_bad_list_flags),
        SCENE_TEST(test_bad_environment),
        SCENE_TEST(test_planted_symlink),
        SCENE_TEST(test_planted_symlinked_folder),
        SCENE_TEST(test_planted_fifo),
        SCENE_TEST(test_planted_directory),
        SCENE_TEST(test_planted_file_as_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
