/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of one run of bawnd: bawn-task BAWN NAME OUTPUT_MAX, with the descriptors of service/task/taskmsg.h. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "service/task/task.h"
#include "service/task/taskfiles.h"
#include "service/task/taskmsg.h"

/* --remove: all that is in the current directory, bawnd's trash. What cannot be removed now is there the next time. */
static int remove_all(struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir_names(AT_FDCWD, ".", &names);

    for (size_t i = 0; i < names.len; i++) {
        int one = remove_tree(AT_FDCWD, names.v[i]);

        r = r < 0 || one == -ENOENT ? r : one;
    }
    return r < 0 ? err_sys(err, r, "empty the trash") : 0;
}

static int perform(int argc, char **argv, struct err *err) {
    struct task_plan p = {0};
    int r =
        argc == 4 ? parse_u64(argv[3], 0, UINT64_MAX / 2, &p.output_max, err) : err_usage(err, "bawn-task is started by bawnd");

    for (int fd = TASK_FD_REQUEST; fd < TASK_FDS && r >= 0; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            r = err_usage(err, "bawn-task is started by bawnd");
    if (r < 0)
        return r;
    p.bawn = argv[1];
    p.name = argv[2];
    return task_perform(&p, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    int r;

    if (argc >= 2 && taskfiles_knows(argv[1])) {
        r = taskfiles_main(argc - 1, argv + 1, &err);
        if (r < 0)
            log_err(&err);
        return taskfiles_status(r);
    }
    r = argc == 2 && str_eq(argv[1], "--remove") ? remove_all(&err) : perform(argc, argv, &err);

    if (r < 0)
        log_err(&err);
    return r < 0 ? err_exit_status(&err) : 0;
}
