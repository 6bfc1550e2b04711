/* SPDX-License-Identifier: Apache-2.0 */
#include "../../fuzz/fuzz_refuse_wire.c"

#include "../policy/corpus.h"

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/refuse_wire", 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
