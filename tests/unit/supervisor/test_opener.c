/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: a login is one only as its credential's definition has it, whatever the sandbox says; nothing of its address is opened; few are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "supervisor/credential/opener.h"

static struct buf seen = BUF_INIT(1 << 20);

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static struct grant grants[] = {
    {.c = {.name = "plain"}},
    {.c = {.name = "idp", .authorize_url = "https://id.example/authorize", .client_id = "me"}},
    {.c = {.name = "other", .authorize_url = "https://other.example/login?v=2", .client_id = "you"}},
    {.c = {.name = "third", .authorize_url = "https://other.example/login", .client_id = "they"}},
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

static int read_url(const char *url, struct opener_login *l, const char **why) {
    struct opener o = opener(NULL);

    *l = (struct opener_login){.grant = NULL};
    *why = NULL;
    return opener_read(&o, url, l, why);
}

#define PAGE "https://id.example/authorize"
#define BACK "redirect_uri=http%3A%2F%2Flocalhost%3A8123%2Fcallback"
#define GOOD "?response_type=code&client_id=me&" BACK

/* Which login it is: by page and client, never by one of them alone. */
static void test_grant(void **state) {
    static const struct {
        const char *url;
        int r;
        size_t grant;
    } cases[] = {
        {PAGE GOOD, 0, 1},
        {"HTTPS://ID.example/authorize" GOOD, 0, 1},
        {"https://other.example/login" GOOD, -EACCES, 2},
        {"https://other.example/login?response_type=code&client_id=you&" BACK, 0, 2},
        {"https://other.example/login?v=3&response_type=code&client_id=they&" BACK, 0, 3},
        {PAGE, -EACCES, 1},
        {"https://id.example/authorize.evil" GOOD, -ENOENT, 0},
        {"https://id.example/authorize/../evil" GOOD, -ENOENT, 0},
        {"https://id.example/authorize/" GOOD, -ENOENT, 0},
        {"https://id.example.evil/authorize" GOOD, -ENOENT, 0},
        {"https://evil.example/?https://id.example/authorize", -ENOENT, 0},
    };
    struct opener_login l;
    const char *why;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r = read_url(cases[i].url, &l, &why);

        if (r != cases[i].r || (r != -ENOENT && l.grant != &grants[cases[i].grant]) || (r == -EACCES) != (why != NULL))
            fail_msg("%s: %d %s", cases[i].url, r, why ? why : "");
    }
}

/* What the definition says is the only thing that a page may say. */
static void test_refused(void **state) {
    static const char *const cases[] = {
        "?response_type=token&client_id=me&" BACK,
        "?response_type=code%20token&client_id=me&" BACK,
        "?client_id=me&" BACK,
        "?response_type=code&client_id=evil&" BACK,
        "?response_type=code&" BACK,
        "?response_type=code&client_id=me",
        GOOD "&client_id=evil",
        GOOD "&client%5Fid=evil",
        GOOD "&" BACK,
        GOOD "&response_mode=fragment",
        GOOD "&response_mode=form_post",
        GOOD "&request=x",
        GOOD "&request_uri=x",
        GOOD "&req%75est_uri=x",
        GOOD "&state=%00",
        GOOD "&state=%0a",
        GOOD "&state=%zz",
        "?response_type=code#&client_id=me&" BACK,
    };
    struct opener_login l;
    const char *why;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *url = str_dupf(PAGE "%s", cases[i]);

        if (read_url(url, &l, &why) != -EACCES || !why)
            fail_msg("%s", url);
    }
}

/* The program inside waits on a port of its own; no other place is ever named. */
static void test_callback(void **state) {
    static const struct {
        const char *uri;
        uint16_t port;
        const char *path;
    } cases[] = {
        {"http://localhost:8123/callback", 8123, "/callback"},
        {"http%3A%2F%2F127.0.0.1%3A54321%2F", 54321, "/"},
        {"http%3a%2f%2flocalhost%3a80", 80, "/"},
        {"http://[::1]:65535/a/b%3Fc=d", 65535, "/a/b?c=d"},
        {"", 0, NULL},
        {"http://localhost/", 0, NULL},
        {"http://localhost:0/", 0, NULL},
        {"http://localhost:65536/", 0, NULL},
        {"http://localhost:999999/", 0, NULL},
        {"http://localhost:8123@evil.example/", 0, NULL},
        {"http://localhost.evil:8123/", 0, NULL},
        {"https://localhost:8123/", 0, NULL},
        {"http://evil.example:8123/", 0, NULL},
        {"http://localhost:8123/%0d%0aX:1", 0, NULL},
        {"http://localhost:8123/%20x", 0, NULL},
        {"http://localhost:8123/%23x", 0, NULL},
        {"http%3A%2F%2Flocalhost%3A8123%", 0, NULL},
        {"http%3A%2F%2Flocalhost%3A8123%00", 0, NULL},
        {"http%3A%2F%2Flocalhost%3A8123%zz", 0, NULL},
    };
    struct opener_login l;
    const char *why;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *url = str_dupf(PAGE "?response_type=code&client_id=me&state=a%%20b&redirect_uri=%s", cases[i].uri);
        int r = read_url(url, &l, &why);

        if (r != (cases[i].port ? 0 : -EACCES) || (r == 0 && (l.port != cases[i].port || !str_eq(l.path, cases[i].path))))
            fail_msg("%s: %d %u %s", url, r, l.port, l.path);
        if (r == 0)
            assert_string_equal(l.state, "a b");
    }
}

static void test_pieces(void **state) {
    struct opener o = opener(NULL);
    struct opener_login l;
    char big[600];

    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    assert_false(opener_piece(&o, "https://id.exam", false, &l));
    assert_string_equal(buf_str(&seen), "");
    assert_int_equal(opener_piece(&o, "ple/authorize" GOOD, true, &l), OPENER_LOGIN);
    assert_string_equal(buf_str(&seen), ""); /* the user is asked first */
    assert_int_equal(l.port, 8123);
    assert_int_equal(opener_piece(&o, PAGE "?client_id=evil&state=s&" BACK, true, &l), OPENER_REFUSED);
    assert_int_equal(l.port, 8123); /* where the program inside waits */
    assert_string_equal(l.state, "s");
    assert_null(strstr(buf_str(&seen), "evil"));
    assert_non_null(strstr(buf_str(&seen), "its definition does not allow"));
    buf_clear(&seen);
    assert_false(opener_piece(&o, "https://evil.example/?redirect_uri=http://localhost:5000/", true, &l));
    assert_string_equal(buf_str(&seen),
                        "bawn: the sandbox asks to open https://evil.example/?redirect_uri=http://localhost:5000/\n");
    buf_clear(&seen);
    assert_false(opener_piece(&o, "https://id.example/activate?code=1", true, &l));
    assert_non_null(strstr(buf_str(&seen), "confirm nothing that you did not begin yourself"));
    buf_clear(&seen);
    for (int i = 0; i < 100; i++) /* never ends, and is never kept */
        assert_false(opener_piece(&o, big, false, &l));
    assert_true(o.url.cap <= OPENER_URL_MAX * 2);
    assert_false(opener_piece(&o, "", true, &l));
    assert_false(opener_piece(&o, "javascript:alert(1)", true, &l));
    assert_string_equal(buf_str(&seen), "");
    o.only_show = true; /* the sandbox has ended */
    assert_false(opener_piece(&o, PAGE GOOD, true, &l));
    opener_done(&o);
}

static void test_flood(void **state) {
    char *none[] = {NULL};
    struct opener o = opener(none);
    size_t lines = 0;

    for (int i = 0; i < 1000; i++)
        opener_piece(&o, "https://evil.example/", true, &(struct opener_login){0});
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
    opener_open(&o, &grants[1], "https://id.example/authorize?a=1&b=$(id);x");
    assert_non_null(strstr(buf_str(&seen), "is opened in your browser"));
    while ((n = fd_read_file_at(AT_FDCWD, out, text, sizeof text)) < 0 && n == -ENOENT)
        poll(NULL, 0, 5);
    assert_string_equal(text, "1 https://id.example/authorize?a=1&b=$(id);x\n/\nend\n");
    opener_done(&o);
    close(77);
    assert_int_equal(remove_tree(AT_FDCWD, dir), 0);
}

/* The workspace is the current folder: who is inside can put a program there, and asks for the page. */
static void test_program_of_the_workspace(void **state) {
    char dir[] = "/tmp/bawn-test-XXXXXX", script[64];
    CLEANUP(freep) char *path = str_dupf("PATH=%s:.:", dir);
    char *env[] = {"DISPLAY=:0", path, NULL}, before[PATH_MAX];
    struct opener o = opener(env);

    assert_non_null(mkdtemp(dir));
    memcpy(strstr(path, "/tmp"), dir, strlen(dir));
    snprintf(script, sizeof script, "%s/xdg-open", dir);
    close(open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
    assert_int_equal(fd_write_file_at(AT_FDCWD, script, "#!/bin/sh\n"), 0);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    opener_open(&o, &grants[1], "https://id.example/");
    assert_non_null(strstr(buf_str(&seen), "open this in your browser"));
    assert_int_equal(chdir(before), 0);
    opener_done(&o);
    assert_int_equal(remove_tree(AT_FDCWD, dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url),     cmocka_unit_test(test_grant),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_callback),
        cmocka_unit_test(test_pieces),  cmocka_unit_test(test_flood),
        cmocka_unit_test(test_program), cmocka_unit_test(test_program_of_the_workspace),
    };

    log_set_sink(sink);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
