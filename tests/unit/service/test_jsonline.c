/* SPDX-License-Identifier: Apache-2.0 */
/* What is one JSON object. jansson is the second opinion, also for random texts. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "proto/api/jsonline.h"

static void known_cases(void **state UNUSED) {
    static const char *const good[] = {
        "{}", " {} ", "{\"a\":1}", "{\"a\":[1,2.5e-3,-0,true,false,null,\"\\u00e4\\n\"],\"b\":{\"c\":{}}}", "{\"\xc3\xa4\":[]}"};
    static const char *const bad[] = {"",
                                      "[]",
                                      "{",
                                      "}",
                                      "{}}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{\"a\":01}",
                                      "{\"a\":1.}",
                                      "{\"a\":\"\n\"}",
                                      "{a:1}",
                                      "{\"a\":1 \"b\":2}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":nul}",
                                      "{\"\xff\":1}",
                                      "{}\n",
                                      "{\"a\":[}",
                                      "{\"a\":+1}",
                                      "{\"\xed\xa0\x80\":1}"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(jsonline_is_object(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(jsonline_is_object(bad[i], strlen(bad[i])));
    assert_false(jsonline_is_object("{\"a\":\"\0\"}", 9));
}

static void depth_has_an_end(void **state UNUSED) {
    char deep[4096] = "{\"a\":";
    size_t n = strlen(deep);

    for (int i = 0; i < 500; i++)
        deep[n++] = '[';
    for (int i = 0; i < 500; i++)
        deep[n++] = ']';
    deep[n++] = '}';
    assert_false(jsonline_is_object(deep, n));
}

static void random_texts_as_jansson_has_them(void **state UNUSED) {
    static const char letters[] = "{}[]\",:\\0123456789.-+eEtrufalsn \xc3\xa4";
    unsigned seed = 7, yes = 0;

    for (int i = 0; i < 200000; i++) {
        char text[32];
        size_t n = 2 + (size_t)rand_r(&seed) % 10;
        json_t *v;
        bool ours, theirs;

        snprintf(text, sizeof text, "{\"a\":");
        for (size_t k = 5; k < 5 + n; k++)
            text[k] = letters[(size_t)rand_r(&seed) % (sizeof letters - 1)];
        text[5 + n] = '}';
        v = json_loadb(text, n + 6, 0, NULL);
        theirs = json_is_object(v);
        json_decref(v);
        ours = jsonline_is_object(text, n + 6);
        yes += ours;
        if (ours != theirs && !strpbrk(text, "eE\\")) /* jansson refuses numbers that are too large, and lone surrogates */
            fail_msg("%.*s: %d, jansson %d", (int)n + 6, text, ours, theirs);
    }
    assert_true(yes > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(random_texts_as_jansson_has_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
