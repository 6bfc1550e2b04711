/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command is made, not inherited: what passes is named here, and nothing else does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/plan.h"

/* The environment inside, for this environment outside. */
static int make_env(char *const *outside, const struct env_spec *named, size_t n_named, struct plan *ret, struct err *err) {
    const struct settings s = {.engine = (char[]){"native"}, .env = (struct env_spec *)(uintptr_t)named, .n_env = n_named};
    const struct host_facts h = {.uid = 1000,
                                 .gid = 1000,
                                 .user = "ann",
                                 .home = "/home/ann",
                                 .passwd_home = "/home/ann",
                                 .workspace = "/home/ann/proj",
                                 .environ_ = outside};
    char *argv[] = {(char[]){"true"}, NULL};
    const struct plan_input in = {.argv = argv, .argc = 1};

    return plan_make(&s, &h, &in, RUNG_FULL, ret, err);
}

/* With a network, and a CA if there is a folder of one. */
static int make_net_env(const char *trust, const struct env_spec *named, size_t n_named, struct plan *ret) {
    const struct settings s = {
        .engine = (char[]){"native"}, .net.mode = NETWORK_FULL, .env = (struct env_spec *)(uintptr_t)named, .n_env = n_named};
    const struct host_facts h = {.uid = 1000, .gid = 1000, .user = "ann", .workspace = "/home/ann/proj"};
    char *argv[] = {(char[]){"true"}, NULL};
    const struct plan_input in = {.trust = {.folder = trust}, .argv = argv, .argc = 1};

    return plan_make(&s, &h, &in, RUNG_FULL, ret, NULL);
}

static const char *value(const struct plan *p, const char *name) {
    const char *found = NULL;
    size_t n = strlen(name);

    for (size_t i = 0; i < p->env.len; i++)
        if (strncmp(p->env.v[i], name, n) == 0 && p->env.v[i][n] == '=') {
            if (found)
                fail_msg("%s is there twice", name);
            found = p->env.v[i] + n + 1;
        }
    return found;
}

#define MAKE(outside, named, n)                                     \
    CLEANUP(plan_done) struct plan p = {0};                         \
    struct err err = {0};                                           \
    if (make_env((char *const *)(outside), named, n, &p, &err) < 0) \
    fail_msg("%s", err.msg)

static void test_out_of_nothing(void **state) {
    static const char *const want[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/home/ann",
        "USER=ann",
        "LOGNAME=ann",
        "SHELL=/bin/sh",
        "PWD=/home/ann/proj",
        "TMPDIR=/tmp",
        "BAWN=full",
    };
    const char *const outside[] = {NULL};
    MAKE(outside, NULL, 0);

    assert_int_equal(p.env.len, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (!strv_has(&p.env, want[i]))
            fail_msg("'%s' is missing", want[i]);
    {
        CLEANUP(plan_done) struct plan none = {0};

        assert_int_equal(make_env(NULL, NULL, 0, &none, &err), 0);
        assert_int_equal(none.env.len, ARRAY_LEN(want));
    }
}

static const char *const proxies[] = {"HTTP_PROXY",  "HTTPS_PROXY", "ALL_PROXY", "http_proxy",
                                      "https_proxy", "all_proxy",   "NO_PROXY",  "no_proxy"};
static const char *const bundles[] = {"SSL_CERT_FILE",
                                      "CURL_CA_BUNDLE",
                                      "GIT_SSL_CAINFO",
                                      "REQUESTS_CA_BUNDLE",
                                      "PIP_CERT",
                                      "NODE_EXTRA_CA_CERTS",
                                      "npm_config_cafile",
                                      "CARGO_HTTP_CAINFO",
                                      "DENO_CERT",
                                      "AWS_CA_BUNDLE",
                                      "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"};

static void test_network(void **state) {
    CLEANUP(plan_done) struct plan p = {0};

    assert_int_equal(make_net_env(NULL, NULL, 0, &p), 0);
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) /* a refusal says more without a proxy */
        assert_null(value(&p, proxies[i]));
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
        assert_null(value(&p, bundles[i]));
    assert_null(value(&p, "SSL_CERT_DIR"));
}

static void test_trust(void **state) {
    CLEANUP(plan_done) struct plan p = {0};

    assert_int_equal(make_net_env("/state/ca/taken-1", NULL, 0, &p), 0);
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
        assert_string_equal(value(&p, bundles[i]), "/etc/ssl/certs/ca-certificates.crt");
    assert_string_equal(value(&p, "SSL_CERT_DIR"), "/etc/ssl/certs");
}

/* Also with the letters in the other case, which curl and Python prefer. */
static void test_named_beats_network(void **state) {
    static char https[] = "HTTPS_PROXY", corp[] = "http://proxy.corp:3128", file[] = "SSL_CERT_FILE", mine[] = "/mine.pem";
    const struct env_spec named[] = {{https, corp}, {file, mine}};
    CLEANUP(plan_done) struct plan p = {0};

    assert_int_equal(make_net_env("/state/ca/taken-1", named, ARRAY_LEN(named), &p), 0);
    assert_string_equal(value(&p, "HTTPS_PROXY"), corp);
    assert_null(value(&p, "https_proxy"));
    assert_string_equal(value(&p, "SSL_CERT_FILE"), mine);
}

static void test_what_never_passes(void **state) {
    static const char *const outside[] = {
        "LD_PRELOAD=/x.so",
        "LD_LIBRARY_PATH=/x",
        "LD_AUDIT=/x.so",
        "BASH_ENV=/x",
        "ENV=/x",
        "BASH_FUNC_ls%%=() { id; }",
        "SHELLOPTS=xtrace",
        "PS4=$(id)",
        "PROMPT_COMMAND=id",
        "IFS=x",
        "CDPATH=/x",
        "NODE_OPTIONS=--require /x",
        "NODE_PATH=/x",
        "PYTHONSTARTUP=/x",
        "PYTHONPATH=/x",
        "PYTHONHOME=/x",
        "PERL5LIB=/x",
        "PERL5OPT=-Mx",
        "RUBYOPT=-rx",
        "JAVA_TOOL_OPTIONS=-javaagent:x",
        "GIT_DIR=/x",
        "GIT_SSH_COMMAND=id",
        "GIT_CONFIG_COUNT=1",
        "GIT_ASKPASS=/x",
        "SSH_AUTH_SOCK=/x",
        "SSH_ASKPASS=/x",
        "GPG_AGENT_INFO=x",
        "AWS_SECRET_ACCESS_KEY=x",
        "AWS_SESSION_TOKEN=x",
        "ANTHROPIC_API_KEY=x",
        "OPENAI_API_KEY=x",
        "GITHUB_TOKEN=x",
        "NPM_TOKEN=x",
        "KUBECONFIG=/x",
        "DOCKER_HOST=x",
        "DBUS_SESSION_BUS_ADDRESS=x",
        "XDG_RUNTIME_DIR=/run/user/1000",
        "XDG_CONFIG_HOME=/x",
        "DISPLAY=:0",
        "WAYLAND_DISPLAY=x",
        "XAUTHORITY=/x",
        "HTTP_PROXY=http://u:p@x",
        "https_proxy=x",
        "OLDPWD=/x",
        "SUDO_USER=x",
        "BAWN_FAKE=x",
        "GCONV_PATH=/x",
        "MALLOC_CHECK_=3",
        "TMP=/x",
        "LCX=x",
        "TERMX=x",
        "lang=x",
        "TERMINFO=/x",
        "NO_EQUALS_SIGN",
        "=odd",
        NULL,
    };
    MAKE(outside, NULL, 0);

    assert_int_equal(p.env.len, 8);
    for (size_t i = 0; outside[i]; i++)
        assert_false(strv_has(&p.env, outside[i]));
}

static void test_what_passes(void **state) {
    static const char *const outside[] = {"TERM=xterm-256color",
                                          "COLORTERM=truecolor",
                                          "NO_COLOR=",
                                          "LANG=de_DE.UTF-8",
                                          "LANGUAGE=de",
                                          "TZ=Europe/Dublin",
                                          "CI=true",
                                          "EDITOR=vim",
                                          "VISUAL=vim",
                                          "PAGER=less",
                                          "LC_ALL=C",
                                          "LC_TIME=C",
                                          "SOURCE_DATE_EPOCH=1",
                                          NULL};
    MAKE(outside, NULL, 0);

    for (size_t i = 0; outside[i]; i++)
        if (!strv_has(&p.env, outside[i]))
            fail_msg("'%s' did not pass", outside[i]);
    assert_int_equal(p.env.len, 8 + ARRAY_LEN(outside) - 1);
}

static void test_path(void **state) {
    static const struct {
        const char *outside, *inside;
    } table[] = {
        {"PATH=/usr/bin:/bin", "/usr/bin:/bin"},
        {"PATH=/home/ann/.local/bin:/usr/bin", "/usr/bin"},
        {"PATH=/usr/bin:/home/ann/bin", "/usr/bin"},
        {"PATH=/root/bin:/usr/bin:/run/x:/opt/go/bin:/var/x", "/usr/bin:/opt/go/bin"},
        {"PATH=:/usr/bin::/bin:", "/usr/bin:/bin"}, /* an empty entry would be the current directory */
        {"PATH=.:/usr/bin:bin:./x:..", "/usr/bin"},
        {"PATH=/home/ann/proj/node_modules/.bin:/usr/bin", "/home/ann/proj/node_modules/.bin:/usr/bin"},
        {"PATH=/home/ann/proj:/usr/bin", "/home/ann/proj:/usr/bin"},
        {"PATH=/home/ann/project2/bin:/usr/bin", "/usr/bin"}, /* only looks like the workspace */
        {"PATH=/usrx/bin:/optx:/usr/bin", "/usr/bin"},
        {"PATH=/nix/store/x/bin:/usr/bin", "/nix/store/x/bin:/usr/bin"},
    };
    static const char *const hopeless[] = {"PATH=", "PATH=:", "PATH=::::", "PATH=/home/ann/bin", "PATH=.", "PATHX=/usr/bin"};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *const outside[] = {table[i].outside, NULL};
        MAKE(outside, NULL, 0);

        assert_string_equal(value(&p, "PATH"), table[i].inside);
    }
    for (size_t i = 0; i < ARRAY_LEN(hopeless); i++) {
        const char *const outside[] = {hopeless[i], NULL};
        MAKE(outside, NULL, 0);

        assert_true(str_starts(value(&p, "PATH"), "/usr/local/sbin:/usr/local/bin:"));
    }
}

static void test_endless_path(void **state) {
    enum { ENTRIES = 10000 };
    static char path[ENTRIES * 9 + 16] = "PATH=";
    char *const outside[] = {path, NULL};
    CLEANUP(plan_done) struct plan p = {0};
    struct err err = {0};

    for (size_t i = 0; i < ENTRIES; i++)
        memcpy(path + 5 + i * 9, "/usr/bin:", 9);
    assert_int_equal(make_env(outside, NULL, 0, &p, &err), -EINVAL);
    assert_string_equal(err.msg, "PATH is longer than 65536 bytes");
    assert_null(p.steps);
}

static void test_shell(void **state) {
    static const struct {
        const char *outside, *inside;
    } table[] = {
        {"SHELL=/bin/bash", "/bin/bash"},
        {"SHELL=/usr/bin/zsh", "/usr/bin/zsh"},
        {"SHELL=/home/ann/bin/fish", "/bin/sh"},
        {"SHELL=", "/bin/sh"},
        {"SHELL=bash", "/bin/sh"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *const outside[] = {table[i].outside, NULL};
        MAKE(outside, NULL, 0);

        assert_string_equal(value(&p, "SHELL"), table[i].inside);
    }
}

/* What Bawn sets is not taken from outside. */
static void test_own_values(void **state) {
    static const char *const outside[] = {"HOME=/root", "USER=root", "LOGNAME=root", "PWD=/", "TMPDIR=/home/ann/tmp",
                                          "BAWN=none",  NULL};
    MAKE(outside, NULL, 0);

    assert_string_equal(value(&p, "HOME"), "/home/ann");
    assert_string_equal(value(&p, "USER"), "ann");
    assert_string_equal(value(&p, "LOGNAME"), "ann");
    assert_string_equal(value(&p, "PWD"), "/home/ann/proj");
    assert_string_equal(value(&p, "TMPDIR"), "/tmp");
    assert_string_equal(value(&p, "BAWN"), "full");
}

static void test_named(void **state) {
    static const char *const outside[] = {"GITHUB_TOKEN=t=1", "LD_PRELOAD=/x.so", "TERM=dumb", "EMPTY=", NULL};
    const struct env_spec named[] = {
        {(char[]){"GITHUB_TOKEN"}, NULL},           /* the host's value */
        {(char[]){"NOT_SET"}, NULL},                /* the host has none: nor has the sandbox */
        {(char[]){"EMPTY"}, NULL},                  /* empty is a value */
        {(char[]){"DEBUG"}, (char[]){"1"}},         /* a value of its own */
        {(char[]){"TERM"}, (char[]){"xterm"}},      /* instead of one that passes anyway */
        {(char[]){"HOME"}, (char[]){"/elsewhere"}}, /* instead of one that Bawn sets */
        {(char[]){"PATH"}, (char[]){"/my/bin:."}},  /* by name: not filtered */
        {(char[]){"DEBUG"}, (char[]){"2"}},         /* the last one wins */
    };
    MAKE(outside, named, ARRAY_LEN(named));

    assert_string_equal(value(&p, "GITHUB_TOKEN"), "t=1");
    assert_null(value(&p, "NOT_SET"));
    assert_string_equal(value(&p, "EMPTY"), "");
    assert_string_equal(value(&p, "DEBUG"), "2");
    assert_string_equal(value(&p, "TERM"), "xterm");
    assert_string_equal(value(&p, "HOME"), "/elsewhere");
    assert_string_equal(value(&p, "PATH"), "/my/bin:.");
    assert_null(value(&p, "LD_PRELOAD"));
    assert_string_equal(p.home, "/home/ann"); /* the folder stays where it was */
    assert_null(p.env.v[p.env.len]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_nothing),
        cmocka_unit_test(test_what_never_passes),
        cmocka_unit_test(test_what_passes),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_endless_path),
        cmocka_unit_test(test_shell),
        cmocka_unit_test(test_own_values),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_named_beats_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
