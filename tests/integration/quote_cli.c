/* SPDX-License-Identifier: Apache-2.0 */
/* Strings on standard input, each ended by NUL: each as a string of YAML, one in a line. For test_quote.py. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/guest/guest.h"

int main(void) {
    char *line = NULL;
    size_t size = 0;

    while (getdelim(&line, &size, 0, stdin) > 0) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(1024 * 1024);

        puts(lima_quote(line, &out) < 0 ? "null" : buf_str(&out));
    }
    free(line);
    return 0;
}
