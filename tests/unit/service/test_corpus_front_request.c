/* SPDX-License-Identifier: Apache-2.0 */
#include "../../fuzz/fuzz_front_request.c"

#include "../policy/corpus.h"

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/front_request", 59);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
