/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's corpus as a unit test; it is found from the project's root, where tests are run. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../fuzz/fuzz_config.c"

static void test_corpus(void **state) {
    static const char folder[] = "tests/fuzz/corpus/config";
    static char data[DOC_SIZE_MAX];
    DIR *d = opendir(folder);
    struct dirent *e;
    int files = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        ssize_t n = e->d_name[0] == '.' ? -1 : read(fd, data, sizeof data);

        if (n >= 0) {
            assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)data, (size_t)n), 0);
            files++;
        }
        close(fd);
    }
    closedir(d);
    assert_true(files >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
