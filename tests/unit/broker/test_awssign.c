/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "broker/values/awssign.h"
#include "broker/values/render.h"

#define KEY "AKIDEXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define TOKEN                                                                                                              \
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx"  \
    "7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6" \
    "d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
#define HEADERS "host:example.amazonaws.com\nx-amz-date:20150830T123600Z\n"

static const struct credential service = {.place = PLACE_SIGV4, .region = "us-east-1", .service = "service"};

/* AWS's own test suite (aws-sig-v4-test-suite). */
static const struct {
    const char *text, *value, *names, *signature, *token;
} vectors[] = {
    /* get-vanilla */
    {"GET\n/\n\n" HEADERS "\nhost;x-amz-date\n" EMPTY, KEY ":" SECRET, "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", ""},
    /* post-vanilla */
    {"POST\n/\n\n" HEADERS "\nhost;x-amz-date\n" EMPTY, KEY ":" SECRET, "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", ""},
    /* get-vanilla-query-order-key-case */
    {"GET\n/\nParam1=value1&Param2=value2\n" HEADERS "\nhost;x-amz-date\n" EMPTY, KEY ":" SECRET, "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", ""},
    /* post-sts-header-before: the token is ours to put in */
    {"POST\n/\n\n" HEADERS "\nhost;x-amz-date\n" EMPTY, KEY ":" SECRET ":" TOKEN, "host;x-amz-date;x-amz-security-token",
     "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", TOKEN},
    /* ... in the place of one that is there */
    {"POST\n/\n\n" HEADERS "x-amz-security-token:PLACEHOLDER\n\nhost;x-amz-date;x-amz-security-token\n" EMPTY,
     KEY ":" SECRET ":" TOKEN, "host;x-amz-date;x-amz-security-token",
     "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", TOKEN},
    /* ... which goes if there is none */
    {"POST\n/\n\n" HEADERS "x-amz-security-token:PLACEHOLDER\n\nhost;x-amz-date;x-amz-security-token\n" EMPTY, KEY ":" SECRET,
     "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", ""},
};

static void assert_part(const struct broker_part *p, const char *text) {
    assert_int_equal(p->len, strlen(text));
    assert_memory_equal(p->p, text, p->len);
}

static void test_vectors(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct broker_part parts[AWSSIGN_PARTS];
        struct secret value = {0}, work = {0};
        struct aws_request q;
        char want[1024];

        assert_int_equal(secret_alloc(&work, RENDER_WORK_MAX), 0);
        assert_int_equal(secret_alloc(&value, CREDENTIAL_VALUE_MAX), 0);
        assert_int_equal(secret_set(&value, vectors[i].value, strlen(vectors[i].value)), 0);
        assert_int_equal(awssign_parse(vectors[i].text, strlen(vectors[i].text), &q), 0);
        assert_int_equal(awssign_make(&service, &q, &value, &work, parts), 0);
        snprintf(want, sizeof want,
                 "AWS4-HMAC-SHA256 Credential=" KEY "/20150830/us-east-1/service/aws4_request, SignedHeaders=%s, Signature=%s",
                 vectors[i].names, vectors[i].signature);
        assert_part(&parts[0], want);
        assert_part(&parts[1], vectors[i].token);
        assert_part(&parts[2], KEY);
        assert_part(&parts[3], SECRET);
        secret_done(&work);
        secret_done(&value);
    }
}

/* No room: an error, never a signature that is cut. */
static void test_room(void **state) {
    struct secret value = {0}, work = {0};
    struct broker_part parts[AWSSIGN_PARTS];
    struct aws_request q;
    size_t size;

    assert_int_equal(secret_alloc(&work, RENDER_WORK_MAX), 0);
    assert_int_equal(secret_alloc(&value, CREDENTIAL_VALUE_MAX), 0);
    assert_int_equal(secret_set(&value, vectors[3].value, strlen(vectors[3].value)), 0);
    assert_int_equal(awssign_parse(vectors[3].text, strlen(vectors[3].text), &q), 0);
    size = work.cap;
    for (work.cap = 0; work.cap < 260; work.cap++) {
        work.len = 0;
        assert_true(awssign_make(&service, &q, &value, &work, parts) < 0);
    }
    work.cap = size;
    secret_done(&work);
    secret_done(&value);
}

static void test_form(void **state) {
    static const char *const wrong[] = {
        "",
        "GET",
        "GET\n/\n\n",
        "GET\n/\n\n\n\n" EMPTY,
        "GET\n/\n\n" HEADERS "\nhost;x-amz-date\n",
        "GET\n/\n\n" HEADERS "\nhost;x-amz-date\n" EMPTY "\n",
        "GET\n/\n\n" HEADERS "\nhost;x-amz-dat\n" EMPTY,
        "GET\n/\n\n" HEADERS "\nhost;x-amz-date;\n" EMPTY,
        "GET\n/\n\n" HEADERS "\nhost x-amz-date\n" EMPTY,
        "GET\n/\n\n" HEADERS "\nHost;x-amz-date\n" EMPTY,
        "GET\n/\n\n" HEADERS "zz\n\nhost;x-amz-date;zz\n" EMPTY,
        "GET\n/\n\n" HEADERS ":v\n\nhost;x-amz-date;\n" EMPTY,
        "GET\n/\n\na:\x01\n" HEADERS "\na;host;x-amz-date\n" EMPTY,
        "GET\n/\n\nhost:a\nx-amz-date:2015\n\nhost;x-amz-date\n" EMPTY,
        "GET\n/\nX-Amz-Expires=1\n" HEADERS "\nhost;x-amz-date\n" EMPTY,
        "GET\n/\n\n" HEADERS "\nhost;x-amz-date\n"
        "E3B0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    };
    struct aws_request q;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_int_equal(awssign_parse(wrong[i], strlen(wrong[i]), &q), -EBADMSG);
}

/* One header more than there may be. */
static void test_many_headers(void **state) {
    for (int n = AWSSIGN_HEADERS_MAX - 2; n <= AWSSIGN_HEADERS_MAX - 1; n++) {
        char text[8192], names[2048] = "";
        size_t at = (size_t)snprintf(text, sizeof text, "GET\n/\n\n"), name = 0;
        struct aws_request q;

        for (int i = 0; i < n; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "a%03d:v\n", i);
            name += (size_t)snprintf(names + name, sizeof names - name, "a%03d;", i);
        }
        snprintf(text + at, sizeof text - at, HEADERS "\n%shost;x-amz-date\n" EMPTY, names);
        assert_int_equal(awssign_parse(text, strlen(text), &q), n + 2 > AWSSIGN_HEADERS_MAX ? -EBADMSG : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_many_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
