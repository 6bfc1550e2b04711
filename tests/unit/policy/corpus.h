/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's corpus as a unit test; it is found from the project's root, where tests are run. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static void run_corpus(const char *folder, int at_least) {
    static char data[1 << 20];
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
    assert_true(files >= at_least);
}
