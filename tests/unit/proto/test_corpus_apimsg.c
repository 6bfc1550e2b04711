/* SPDX-License-Identifier: Apache-2.0 */
#include "../../fuzz/fuzz_apimsg.c"

#include "../policy/corpus.h"

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/apimsg", 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
