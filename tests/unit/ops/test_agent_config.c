/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys of an agent's settings are credentials, which run something, and what is left of a TOML file. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/agent/agent_config.h"

#define STEP "\x1f"

static void secrets(void **state UNUSED) {
    static const struct {
        const char *key, *text;
        bool is;
    } t[] = {
        {"model", "opus", false},
        {"env" STEP "GITHUB_TOKEN", "x", true},
        {"env" STEP "GITHUB_TOKEN", NULL, false}, /* a number is none */
        {"env" STEP "EDITOR", "vim", false},
        {"apiKeyHelper", "/opt/get-key", false},
        {"apiKey", "x", true},
        {"mcpServers" STEP "a" STEP "env", NULL, true},
        {"mcpServers" STEP "a" STEP "env" STEP "X", "y", true},
        {"mcp_servers" STEP "a" STEP "http_headers" STEP "X", "y", true},
        {"mcp" STEP "a" STEP "environment", NULL, true},
        {"mcpServers" STEP "env", NULL, false}, /* a server of that name */
        {"mcpServers" STEP "a" STEP "args", "--verbose", false},
        {"model_providers" STEP "a" STEP "env_key", "OPENAI_API_KEY", false},
        {"a", "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", true},
        {"password", "", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        if (config_is_secret(t[i].key, t[i].text) != t[i].is)
            fail_msg("%s = %s", t[i].key, t[i].text ? t[i].text : "(none)");
}

static void runs(void **state UNUSED) {
    CLEANUP(agent_done) struct agent a = {0};
    static const struct {
        const char *key;
        bool is;
    } t[] = {
        {"hooks" STEP "Stop" STEP "command", true}, {"hooks" STEP "Stop" STEP "type", false}, {"hook", false},
        {"servers" STEP "a" STEP "command", true},  {"servers" STEP "a" STEP "url", false},   {"servers", false},
    };

    assert_int_equal(strv_add(&a.config_runs, "hooks"), 0);
    assert_int_equal(strv_add(&a.config_runs, "servers.*.command"), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        if (config_runs(&a, t[i].key) != t[i].is)
            fail_msg("%s", t[i].key);
}

static const char preset[] = "model_provider = \"key\"\n[tui]\ntips = false\n";
static const char sample[] =
    "# token\nmodel = \"a\"\nmodel_provider = \"b\"\ntui.x = 1\nlong = \"\"\"\n[x]\ny = 1 # \\\"\"\"\" # end\n"
    "list = [ \"a\", # ]\n 'b' ]\n[tui]\nz = 1\n[ a . \"b.c\" ]\nk = { l = [1, {m = '}'}] }\napi_key = \"x\"\n"
    "[[rows]]\nname = 'q'\n[mcp_servers.s.env]\nA = \"b\"\n";

static int filter(const char *text, struct buf *ret) {
    CLEANUP(agent_config_done) struct agent_config c = {0};
    CLEANUP(agent_done) struct agent a = {0};
    struct config_file f = {.path = (char[]){"config.toml"}, .data = BUF_INIT(4 * CONFIG_FILE_MAX)};
    struct err err = {0};
    int r;

    buf_adds(&f.data, text);
    r = config_filter_toml(&a, &f, preset, &c, &err);
    if (r == 0)
        buf_adds(ret, buf_str(&f.data));
    buf_done(&f.data);
    return r;
}

static void toml(void **state UNUSED) {
    CLEANUP(buf_done) struct buf got = BUF_INIT(4 * CONFIG_FILE_MAX);

    assert_int_equal(filter(sample, &got), 0);
    assert_string_equal(buf_str(&got),
                        "model_provider = \"key\"\nmodel = \"a\"\nlong = \"\"\"\n[x]\ny = 1 # \\\"\"\"\" \n"
                        "list = [ \"a\", \n 'b' ]\n\n[tui]\ntips = false\n\n[ a . \"b.c\" ]\nk = { l = [1, {m = '}'}] }\n"
                        "\n[[rows]]\nname = 'q'\n");
}

/* Whatever is in it: refused, or a file of which a second pass takes nothing away but what is the preset's. */
static void broken(void **state UNUSED) {
    static const char bytes[] = "\"'[]{}#=\n.\\ a\x01\xff";
    unsigned seed = 1;

    for (int i = 0; i < 30000; i++) {
        CLEANUP(buf_done) struct buf once = BUF_INIT(4 * CONFIG_FILE_MAX), twice = BUF_INIT(4 * CONFIG_FILE_MAX);
        char text[sizeof sample];

        memcpy(text, sample, sizeof text);
        for (int k = 0; k < 1 + i % 4; k++) {
            seed = seed * 1103515245 + 12345;
            text[(seed >> 8) % (sizeof text - 1)] = bytes[(seed >> 20) % (sizeof bytes - 1)];
        }
        if (filter(text, &once) < 0)
            continue;
        assert_int_equal(filter(buf_str(&once), &twice), 0);
        assert_string_equal(buf_str(&once), buf_str(&twice));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(secrets), cmocka_unit_test(runs), cmocka_unit_test(toml),
                                       cmocka_unit_test(broken)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
