/* SPDX-License-Identifier: Apache-2.0 */
/* Values in what a server says: every way to write one, every way to cut it, and a tail that says nothing about the bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/secret/cover.h"
#include "gateway/secret/cover_ends.h"

enum { OUT_MAX = 16 * 1024 * 1024 };

static const char value[] = "sk-ant-api03-Zq9/x+\"7 secret?~=";

static struct cover *make(const char *v) {
    struct cover *c = NULL;

    assert_int_equal(cover_new(&c), 0);
    assert_int_equal(cover_add(c, v, strlen(v)), 0);
    cover_build(c);
    return c;
}

static char *covered(struct cover *c, const char *text, size_t len, size_t step) {
    struct buf out = BUF_INIT(OUT_MAX);
    CLEANUP(cover_stream_done) struct cover_stream s = {0};

    for (size_t at = 0; at < len; at += step)
        assert_int_equal(cover_pass(c, &s, text + at, MIN_OF(step, len - at), COVER_HOLD, &out), 0);
    assert_int_equal(cover_pass(c, &s, NULL, 0, 0, &out), 0);
    assert_false(cover_holds(&s));
    assert_int_equal(out.len, len);
    return buf_take(&out);
}

/* Made with other programs: see tests/network/secret_echo.py, which uses the libraries themselves. */
static void test_forms(void **state) {
    static const char *const rows[] = {
        "sk-ant-api03-Zq9/x+\"7 secret?~=",
        "=~?terces 7\"+x/9qZ-30ipa-tna-ks",
        "sk-ant-api03-Zq9%2Fx%2B%227%20secret%3F~%3D",
        "sk-ant-api03-Zq9%2fx%2b%227+secret%3f%7e%3d",
        "sk-ant-api03-Zq9%252Fx%252B%25227%2520secret%253F~%253D",
        "sk-ant-api03-Zq9%25252Fx%25252B%2525227%252520secret%25253F~%25253D",
        "sk-ant-api03-Zq9\\/x+\\\"7 secret?~=",
        "sk-ant-api03-Zq9/x\\u002B\\u00227 secret?~\\u003d",
        "sk-ant-api03-Zq9\\\\/x\\\\u002B\\\\\\\"7 secret?~\\\\u003D",
        "sk-ant-api03-Zq9\\x2Fx\\x2b\\x227\\x20secret\\x3F~\\x3d",
        "sk-ant-api03-Zq9\\057x\\053\\0427\\040secret\\077~\\075",
        "sk-ant-api03-Zq9\\u{2f}x\\u{2B}\\u{22}7 secret?~\\u{3d}",
        "sk-ant-api03-Zq9&#x2F;x&#x2b;&quot;7 secret?~&#x3d;",
        "sk-ant-api03-Zq9&#47;x&#43;&#34;7&#32;secret&#63;~&#061;",
        "sk-ant-api03-Zq9&sol;x&plus;&quot;7 secret&quest;~&equals;",
        "sk-ant-api03-Zq9&amp;sol;x&amp;#43;&amp;quot;7 secret?~&amp;equals;",
        "sk-ant-api03-Zq9/x+\"7 secret?~=3D",
        "sk-ant-api03=2DZq9=2Fx=2B=227=20sec=\r\nret?~=3D",
        "sk-ant-api03-Zq9/x+\"7 =\nsecret?~=3D",
        "736b2d616e742d61706930332d5a71392f782b2237207365637265743f7e3d",
        "736B2D616E742D61706930332D5A71392F782B2237207365637265743F7E3D",
        "73:6b:2d:61:6e:74:2d:61:70:69:30:33:2d:5a:71:39:2f:78:2b:22:37:20:73:65:63:72:65:74:3f:7e:3d",
        "c2stYW50LWFwaTAzLVpxOS94KyI3IHNlY3JldD9+PQ",
        "c2stYW50LWFwaTAzLVpxOS94KyI3IHNlY3JldD9-PQ",
        "c2stYW50LWFwaTAzL\nVpxOS94KyI3IHNlY3JldD9+PQ",
        "c2stYW50LWFwaTAzL\r\n    VpxOS94KyI3IHNlY3JldD9+PQ",
        "c2stYW50LWFwaTAzL\\nVpxOS94KyI3IHNlY3JldD9\\u002bPQ",
        "c2stYW50LWFwaTAzL%0D%0AVpxOS94KyI3IHNlY3JldD9%2BPQ",
        "c2stYW50LWFwaTAzL&#10;VpxOS94KyI3IHNlY3JldD9&#43;PQ",
        "ONVS2YLOOQWWC4DJGAZS2WTRHEXXQKZCG4QHGZLDOJSXIP36HU",
        "onvs2ylooQWWC4DJGAZS2WTRHEXXQKZCG4QHGZLDOJSXIP36HU",
        "&#115;&#107;&#45;&#97;&#110;&#116;&#45;&#97;&#112;&#105;&#48;&#51;&#45;&#90;&#113;&#57;&#47;&#120;&#43;&#34;&#55;&#32;"
        "&#115;&#101;&#99;&#114;&#101;&#116;&#63;&#126;&#61;",
        "s&#107;-&#x61;nt%2dap\\u0069"
        "03-Zq9/x+\\\"7 &#115;ecret?~\\x3d", /* mixed at will */
        "%73%6b%2d%61%6e%74%2d%61%70%69%30%33%2d%5a%71%39%2f%78%2b%22%37%20%73%65%63%72%65%74%3f%7e%3d",
        "\\u0073\\u006b\\u002d\\u0061\\u006e\\u0074\\u002d\\u0061\\u0070\\u0069\\u0030\\u0033\\u002d\\u005a\\u0071\\u0039\\u002f"
        "\\u0078\\u002b\\u0022\\u0037\\u0020\\u0073\\u0065\\u0063\\u0072\\u0065\\u0074\\u003f\\u007e\\u003d",
        "=73=6B=2D=61=6E=74=2D=61=70=69=30=33=2D=5A=71=39=2F=78=2B=22=37=20=73=65=63=72=65=74=3F=7E=3D",
    };
    struct cover *c = make(value);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t before = 0; before < 3; before++) {
            char text[700], want[700];
            int n = snprintf(text, sizeof text, "%.*s%s. and more", (int)before, "xy", rows[i]);
            CLEANUP(freep) char *one = covered(c, text, (size_t)n, 1), *all = covered(c, text, (size_t)n, (size_t)n);
            size_t stars = strspn(all + before, "*");

            snprintf(want, sizeof want, "%.*s%.*s%s", (int)before, "xy", (int)stars, one + before, text + before + stars);
            if (strlen(rows[i]) - stars > 3 || stars > strlen(rows[i]) || !str_eq(one, all) || !str_eq(all, want))
                fail_msg("%s becomes %s, byte by byte %s", text, all, one);
            assert_true(cover_text(c, text, (size_t)n));
            assert_string_equal(text, all);
        }
    cover_free(c);
}

static void test_utf16(void **state) {
    struct cover *c = make(value);

    for (int big = 0; big < 2; big++) {
        char text[2 * sizeof value] = {0};
        CLEANUP(freep) char *out = NULL;

        for (size_t i = 0; i < strlen(value); i++)
            text[2 * i + (size_t)big] = value[i];
        out = covered(c, text, sizeof text, 7);
        assert_null(memchr(out, 's', sizeof text));
        assert_null(memchr(out, '=', sizeof text));
    }
    cover_free(c);
}

/* Whole values and whole runs of letters, nothing less: every other rule tells the letters one by one. */
static void test_no_part_is_covered(void **state) {
    struct cover *c = make("ghp_abcdefgh/ijklmnop+qrs/sk-ant-1234567");

    static const char *const open[] = {"ghp_abcdefg", "ghp_abcdefg/", "abcdefgh", "ijklmno",
                                       "jklmnop",     "qrs",          "+qrs/",    "sk-ant-123456"};
    static const char *const closed[] = {"ghp_abcdefgh", "ijklmnop", "<ijklmnop>", "sk-ant-1234567"};

    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        CLEANUP(freep) char *out = covered(c, open[i], strlen(open[i]), 3);

        assert_string_equal(out, open[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        CLEANUP(freep) char *out = covered(c, closed[i], strlen(closed[i]), 3);

        assert_non_null(strchr(out, '*'));
        assert_null(strchr(out, 'j'));
    }
    cover_free(c);
    c = make("sk-ant-api03-1234567/abcdefgh"); /* the letters behind a beginning that all know are too few to be a run */
    {
        CLEANUP(freep) char *out = covered(c, "sk-ant-api03-1234567", 20, 20);

        assert_string_equal(out, "sk-ant-api03-1234567");
    }
    cover_free(c);
}

static uint32_t seed = 1;

static uint32_t chance(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

static void add_escaped(struct buf *b, uint8_t c) {
    static const char *const ways[] = {"%%%02X",  "%%%02x", "%%25%02X", "%%u%04x", "\\u%04x", "\\\\u%04X", "\\x%02x",
                                       "\\u{%x}", "\\%03o", "&#%d;",    "&#x%X;",  "&#00%d;", "&amp;#%d;", "=%02X"};
    size_t way = chance(ARRAY_LEN(ways) + 8);

    if (way < ARRAY_LEN(ways))
        buf_addf(b, ways[way], c);
    else if (way < ARRAY_LEN(ways) + 2)
        buf_addf(b, "%s%c", strchr("\\\"'/+=", c) ? "\\" : "", c);
    else
        buf_addc(b, (char)c);
    if (!chance(12))
        buf_adds(b, (const char *[]){"\n", "\r\n", "=\r\n", "\\n", "%0A", "&#10;"}[chance(6)]);
}

/* Any mixture of escapes is found, whatever stands before it. */
static void test_mixed_at_random(void **state) {
    static const char letters[] = "aaZ09/+=%\\&\"'#;<>~-_.u25";

    for (size_t round = 0; round < 5000; round++) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(OUT_MAX);
        CLEANUP(freep) char *was = NULL;
        char v[32] = {0};
        size_t len = 8 + chance(20), before = chance(4);
        struct cover *c;

        for (size_t i = 0; i < len; i++)
            v[i] = letters[chance(sizeof letters - 1)];
        c = make(v);
        for (size_t i = 0; i < before; i++)
            buf_addc(&text, "x\"a "[i]);
        for (size_t i = 0; i < len; i++)
            add_escaped(&text, (uint8_t)v[i]);
        was = strdup(buf_str(&text));
        cover_text(c, text.data, text.len);
        for (size_t i = before; i + 24 < text.len; i++) /* a gap at the end is none */
            if (text.data[i] != '*')
                fail_msg("%s in %s: %s", v, was, text.data);
        cover_free(c);
    }
}

/* How much is held is known from the sizes of the pieces, and from when it was asked for. */
static void test_tail_depends_on_counts_only(void **state) {
    struct cover *c[] = {make("value-one/AAAABBBBCCCC"), make("value-two/ZZZZYYYYXXXX")};
    static const char words[][24] = {"value-one/AAAABBBBCCCC", "value-two/ZZZZYYYYXXXX", "value-one/AAAABBBBCCC", "%2F\\u003d",
                                     "noise noise"};

    assert_int_equal(cover_tail(c[0]), cover_tail(c[1]));
    for (size_t round = 0; round < 200; round++) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(OUT_MAX);
        struct cover_stream s[2] = {{0}, {0}};
        CLEANUP(buf_done) struct buf out0 = BUF_INIT(OUT_MAX), out1 = BUF_INIT(OUT_MAX);
        size_t total = 0, gone = 0;

        while (text.len < 3000)
            buf_adds(&text, words[chance(ARRAY_LEN(words))]);
        for (size_t at = 0; at < text.len;) {
            size_t n = MIN_OF((size_t)1 + chance(400), text.len - at), upto = chance(5) ? COVER_HOLD : chance((uint32_t)n + 1);

            assert_int_equal(cover_pass(c[0], &s[0], text.data + at, n, upto, &out0), 0);
            assert_int_equal(cover_pass(c[1], &s[1], text.data + at, n, upto, &out1), 0);
            if (upto != COVER_HOLD)
                gone = MAX_OF(gone, total + upto);
            total += n;
            gone = MAX_OF(gone, total > cover_tail(c[0]) ? total - cover_tail(c[0]) : 0);
            assert_int_equal(out0.len, gone);
            assert_int_equal(out1.len, gone);
            at += n;
        }
        cover_stream_done(&s[0]);
        cover_stream_done(&s[1]);
    }
    cover_free(c[0]);
    cover_free(c[1]);
}

/* What went out in the middle of a value is out; the rest of it is covered. */
static void test_goes_on_after_a_flush(void **state) {
    struct cover *c = make("real-value-4711");

    for (size_t cut = 1; cut < 15; cut++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(100);
        CLEANUP(cover_stream_done) struct cover_stream s = {0};
        char want[] = "***************";

        assert_int_equal(cover_pass(c, &s, "real-value-4711", cut, cut, &out), 0);
        assert_int_equal(out.len, cut);
        assert_int_equal(cover_pass(c, &s, &"real-value-4711"[cut], 15 - cut, 15 - cut, &out), 0);
        memcpy(want, "real-value-4711", cut);
        assert_string_equal(buf_str(&out), want);
    }
    cover_free(c);
}

/* Bytes that are as much like the value as can be, in every spelling: the work for each is bounded. */
static void test_worst_case(void **state) {
    static const char *const nearly[] = {
        "aaaaaaa", "aaaaaaa%aaaaaaa\\aaaaaaa&", "%61", "\\u0061", "&#97;", "\\\\\\\\", "%25", "&amp;", "a\n"};
    struct cover *c = make("aaaaaaa%aaaaaaa\\aaaaaaa&b");
    uint64_t before = 0;

    for (size_t i = 0; i < ARRAY_LEN(nearly); i++) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(OUT_MAX);
        CLEANUP(freep) char *out = NULL;

        while (text.len < 20000)
            buf_adds(&text, nearly[i]);
        out = covered(c, buf_str(&text), text.len, 1000);
        assert_string_equal(out, buf_str(&text));
        /* the texts that begin alike x their characters x once more for the tail that is searched at the end */
        assert_true(cover_steps(c) - before <= (uint64_t)text.len * 2 * 25 * 2);
        before = cover_steps(c);
    }
    cover_free(c);
}

static void test_bounds(void **state) {
    CLEANUP(freep) char *big = malloc(COVER_VALUE_MAX + 1);
    struct cover *c = NULL;

    memset(big, 'x', COVER_VALUE_MAX + 1);
    assert_int_equal(cover_new(&c), 0);
    assert_int_equal(cover_tail(c), 0);
    assert_int_equal(cover_add(c, "short", 5), 0);
    assert_int_equal(cover_tail(c), 0);
    assert_int_equal(cover_add(c, big, COVER_VALUE_MAX + 1), -E2BIG);
    assert_int_equal(cover_add(c, big, 16 * 1024), 0);
    assert_int_equal(cover_tail(c), COVER_LONGEST_MAX - 1);
    cover_free(c);
    cover_free(NULL);
}

static size_t ends_of(const char *type, const char *text, size_t cut) {
    struct cover_ends e;
    size_t n, end = 0, len = strlen(text);

    cover_ends_init(&e, type);
    for (size_t at = 0; at < len; at += n) {
        size_t upto;

        n = MIN_OF(cut, len - at);
        upto = cover_ends_take(&e, (const uint8_t *)text + at, n);
        if (upto != COVER_HOLD)
            end = at + upto;
    }
    return end;
}

static void test_ends(void **state) {
    static const struct {
        const char *type, *text;
        size_t end;
    } rows[] = {
        {NULL, "a\n\nb", 0},
        {"text/plain", "a\n\nb", 0},
        {"text/event-stream", "data: a\n\ndata", 9},
        {"text/event-stream; charset=utf-8", "data: a\r\n\r\ndata", 11},
        {"Text/Event-Stream", "data: a\r\rdata", 9},
        {"text/event-stream", "data: a\ndata: b\n", 0},
        {"application/json", "{\"a\":\n1}", 6},
        {"application/x-ndjson", "{}\n{}\n{", 6},
        {"application/problem+json", "{}\n", 3},
        {"application/jsonp", "{}\n", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t cut = 1; cut < 20; cut++)
            assert_int_equal(ends_of(rows[i].type, rows[i].text, cut), rows[i].end);
}

static void test_grpc_ends(void **state) {
    static const uint8_t bytes[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'x'};

    for (size_t cut = 1; cut < 20; cut++) {
        struct cover_ends e;
        size_t n, end = 0;

        cover_ends_init(&e, "application/grpc+proto");
        for (size_t at = 0; at < sizeof bytes; at += n) {
            size_t upto = cover_ends_take(&e, bytes + at, n = MIN_OF(cut, sizeof bytes - at));

            end = upto == COVER_HOLD ? end : at + upto;
        }
        assert_int_equal(end, 13);
    }
}

/* The payload of all data frames, and how many frames there were. */
static size_t unframe(const struct buf *b, struct buf *payload) {
    const uint8_t *p = (const uint8_t *)buf_str(b);
    size_t frames = 0;

    for (size_t at = 0; at < b->len; frames++) {
        size_t len = p[at + 1], head = 2;

        if (len == 126) {
            len = (size_t)p[at + 2] << 8 | p[at + 3];
            head = 4;
        }
        if (!(p[at] & 8))
            buf_add(payload, p + at + head, len);
        at += head + len;
        assert_true(at <= b->len);
    }
    return frames;
}

static void test_websocket(void **state) {
    /* a message in two frames with a ping between them, an empty one, one that has a value, one of 200 bytes */
    static const char start[] = "\x01\x05real-\x89\x02hi\x80\x0avalue-4711\x81\x00\x82\x11<real-value-4711>\x81\x7e\x00\xc8";
    struct cover *c = make("real-value-4711");
    char bytes[sizeof start - 1 + 200];

    memcpy(bytes, start, sizeof start - 1);
    memset(bytes + sizeof start - 1, 'x', 200);
    for (size_t cut = 1; cut <= sizeof bytes; cut++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX), payload = BUF_INIT(OUT_MAX);
        CLEANUP(cover_stream_done) struct cover_stream s = {0};
        struct cover_ws w = {.have = 0};

        for (size_t at = 0; at < sizeof bytes; at += cut)
            assert_int_equal(cover_ws_pass(c, &s, &w, (const uint8_t *)bytes + at, MIN_OF(cut, sizeof bytes - at), &out), 0);
        assert_false(cover_holds(&s)); /* every message has ended */
        assert_true(unframe(&out, &payload) >= 5);
        assert_int_equal(payload.len, 15 + 17 + 200);
        assert_memory_equal(payload.data, "***************<***************>", 32);
    }
    {
        static const char *const bad[] = {"\xc1\x01x", "\x81\x81xxxx", "\x80\x01x", "\x09\x01x", "\x89\x7e\x00\x80"};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
            CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX);
            CLEANUP(cover_stream_done) struct cover_stream s = {0};
            struct cover_ws w = {.have = 0};

            assert_int_equal(cover_ws_pass(c, &s, &w, (const uint8_t *)bad[i], i == 4 ? 4 : 3, &out), -EPROTO);
        }
    }
    cover_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_utf16),
        cmocka_unit_test(test_no_part_is_covered),
        cmocka_unit_test(test_tail_depends_on_counts_only),
        cmocka_unit_test(test_goes_on_after_a_flush),
        cmocka_unit_test(test_mixed_at_random),
        cmocka_unit_test(test_worst_case),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_grpc_ends),
        cmocka_unit_test(test_websocket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
