/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn-task --usage`: for each folder in the current directory, a line with the bytes on disk below it and its name. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/strv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "service/task/taskfiles_priv.h"

enum { USAGE_DEPTH = 200, BLOCK = 512 };

/* A file with several names is counted as often as it has them: that is what removing them may give back at most. */
static uint64_t add_up(int at, const char *name, int depth) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    uint64_t sum = 0;
    struct stat st;

    if (depth > USAGE_DEPTH || dir_open_at(at, name, &d) < 0)
        return 0;
    while ((e = dir_next(&d))) {
        if (fstatat(d.fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        sum += (uint64_t)st.st_blocks * BLOCK;
        if (S_ISDIR(st.st_mode))
            sum += add_up(d.fd, e->d_name, depth + 1);
    }
    return sum;
}

int taskfiles_usage(char **args UNUSED, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir_names(AT_FDCWD, ".", &names);

    for (size_t i = 0; r >= 0 && i < names.len; i++) {
        char line[400];
        int n = snprintf(line, sizeof line, "%" PRIu64 " %.255s\n", add_up(AT_FDCWD, names.v[i], 0), names.v[i]);

        r = fd_write_all(STDOUT_FILENO, line, (size_t)n);
    }
    return r < 0 ? err_sys(err, r, "measure") : 0;
}
