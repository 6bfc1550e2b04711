/* Claims: only a credential's own login page is opened, whatever the sandbox says; only a local port above 1023 comes back; few are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "supervisor/opener.h"

static struct buf seen = BUF_INIT(1 << 20);

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static struct grant grants[] = {
    {.c = {.name = "plain"}},
    {.c = {.name = "idp", .authorize_url = "https://id.example/authorize"}},
    {.c = {.name = "other", .authorize_url = "https://other.example/login?v=2"}},
};

static struct opener opener(char *const *environ_) {
    struct opener o = OPENER_INIT;

    o.grants = grants;
    o.n_grants = ARRAY_LEN(grants);
    o.environ_ = environ_;
    buf_clear(&seen);
    return o;
}

static void test_url(void **state) {
    assert_true(opener_url_ok("https://a.example/?x=%20&y=1#z"));
    assert_false(opener_url_ok("http://a.example/"));
    assert_false(opener_url_ok("http://localhost:8080/"));
    assert_false(opener_url_ok("https://"));
    assert_false(opener_url_ok("file:///etc/passwd"));
    assert_false(opener_url_ok("-https://a.example"));
    assert_false(opener_url_ok("https://a.example/ b"));
    assert_false(opener_url_ok("https://a.example/\033[2J"));
    assert_false(opener_url_ok("https://a.example/\"`"));
    assert_false(opener_url_ok("https://a.example/\\"));
    assert_false(opener_url_ok("https://a.example/\xc3\xa4"));
}

static void test_grant(void **state) {
    struct opener o = opener(NULL);

    assert_ptr_equal(opener_grant(&o, "https://id.example/authorize"), &grants[1]);
    assert_ptr_equal(opener_grant(&o, "https://id.example/authorize?client_id=1"), &grants[1]);
    assert_ptr_equal(opener_grant(&o, "https://other.example/login?v=2&x=1"), &grants[2]);
    assert_null(opener_grant(&o, "https://other.example/login?v=2?x=1"));
    assert_null(opener_grant(&o, "https://other.example/login?v=22"));
    assert_null(opener_grant(&o, "https://id.example/authorize.evil?x"));
    assert_null(opener_grant(&o, "https://id.example/authorize/../evil"));
    assert_null(opener_grant(&o, "https://id.example.evil/authorize"));
    assert_null(opener_grant(&o, "https://evil.example/?https://id.example/authorize"));
    opener_done(&o);
}

static void test_callback(void **state) {
    static const struct {
        const char *query;
        uint16_t port;
    } cases[] = {
        {"?redirect_uri=http://localhost:8123/callback", 8123},
        {"?a=1&redirect_uri=http%3A%2F%2F127.0.0.1%3A54321%2F", 54321},
        {"?redirect_uri=http%3a%2f%2flocalhost%3a1024", 1024},
        {"?redirect_uri=http://localhost:65535?x", 65535},
        {"", 0},
        {"?redirect_uri=", 0},
        {"?redirect_uri=http://localhost/", 0},
        {"?redirect_uri=http://localhost:80/", 0},
        {"?redirect_uri=http://localhost:1023/", 0},
        {"?redirect_uri=http://localhost:65536/", 0},
        {"?redirect_uri=http://localhost:999999/", 0},
        {"?redirect_uri=http://localhost:8123@evil.example/", 0},
        {"?redirect_uri=http://localhost.evil:8123/", 0},
        {"?redirect_uri=https://localhost:8123/", 0},
        {"?redirect_uri=http://evil.example:8123/", 0},
        {"?redirect_uri=http%3A%2F%2Flocalhost%3A8123%", 0},
        {"?redirect_uri=http%3A%2F%2Flocalhost%3A8123%00", 0},
        {"?redirect_uri=http%3A%2F%2Flocalhost%3A8123%zz", 0},
        {"?xredirect_uri=http://localhost:8123/", 0},
        {"#redirect_uri=http://localhost:8123/", 0},
        {"?a#&redirect_uri=http://localhost:8123/", 0},
        {"?redirect_uri=http://evil.example/&redirect_uri=http://localhost:8123/", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *url = str_dupf("https://id.example/authorize%s", cases[i].query);

        if (opener_callback(url) != cases[i].port)
            fail_msg("%s: %u", url, opener_callback(url));
    }
}

static void test_pieces(void **state) {
    char *none[] = {"DISPLAY=:0", "BAWN_OPEN=none", NULL};
    struct opener o = opener(none);
    char big[600];

    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    assert_null(opener_piece(&o, "https://id.exam", false));
    assert_string_equal(buf_str(&seen), "");
    assert_ptr_equal(opener_piece(&o, "ple/authorize?redirect_uri=http://localhost:5000/", true), &grants[1]);
    assert_string_equal(buf_str(&seen), ""); /* not before the way back is open */
    assert_int_equal(opener_port(&o), 5000);
    opener_open(&o, &grants[1]);
    assert_string_equal(buf_str(&seen), "bawn: to log in to idp, open this in your browser: "
                                        "https://id.example/authorize?redirect_uri=http://localhost:5000/\n");
    buf_clear(&seen);
    assert_null(opener_piece(&o, "https://evil.example/?redirect_uri=http://localhost:5000/", true));
    assert_string_equal(buf_str(&seen),
                        "bawn: the sandbox asks to open https://evil.example/?redirect_uri=http://localhost:5000/\n");
    buf_clear(&seen);
    for (int i = 0; i < 100; i++) /* never ends, and is never kept */
        assert_null(opener_piece(&o, big, false));
    assert_true(o.url.cap <= OPENER_URL_MAX * 2);
    assert_null(opener_piece(&o, "", true));
    assert_null(opener_piece(&o, "javascript:alert(1)", true));
    assert_string_equal(buf_str(&seen), "");
    assert_null(opener_piece(&o, "https://fine.example/", true));
    assert_string_equal(buf_str(&seen), "bawn: the sandbox asks to open https://fine.example/\n");
    opener_done(&o);
}

static void test_flood(void **state) {
    char *none[] = {NULL};
    struct opener o = opener(none);
    size_t lines = 0;

    for (int i = 0; i < 1000; i++)
        opener_piece(&o, "https://evil.example/", true);
    for (const char *p = buf_str(&seen); (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 7); /* and one that says that there are more */
    opener_done(&o);
}

/* The program gets the address as one argument, and nothing else of ours. */
static void test_program(void **state) {
    char dir[] = "/tmp/bawn-test-XXXXXX", script[64], out[64], text[512] = "";
    CLEANUP(freep) char *variable = NULL, *path = NULL, *body = NULL;
    char *env[3] = {NULL};
    struct opener o;
    ssize_t n;

    assert_non_null(mkdtemp(dir));
    snprintf(script, sizeof script, "%s/open", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    body = str_dupf(
        "#!/bin/sh\n{ echo \"$#\" \"$1\"; test -e /proc/$$/fd/77 && echo leaked; pwd; echo end; } > %s.new; mv %s.new %s\n", out,
        out, out);
    assert_int_equal(dup2(2, 77), 77); /* as whoever started bawn may have left one */
    close(open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
    assert_int_equal(fd_write_file_at(AT_FDCWD, script, body), 0);
    variable = str_dupf("BAWN_OPEN=%s", script);
    path = str_dupf("PATH=/usr/bin:/bin");
    env[0] = variable;
    env[1] = path;
    o = opener(env);
    opener_open(&o, opener_piece(&o, "https://id.example/authorize?a=1&b=$(id);x", true));
    assert_non_null(strstr(buf_str(&seen), "is opened in your browser"));
    while ((n = fd_read_file_at(AT_FDCWD, out, text, sizeof text)) < 0 && n == -ENOENT)
        poll(NULL, 0, 5);
    assert_string_equal(text, "1 https://id.example/authorize?a=1&b=$(id);x\n/\nend\n");
    opener_done(&o);
    close(77);
    assert_int_equal(remove_tree(AT_FDCWD, dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url),    cmocka_unit_test(test_grant), cmocka_unit_test(test_callback),
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_flood), cmocka_unit_test(test_program),
    };

    log_set_sink(sink);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
