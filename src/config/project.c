#include "config/project.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "os/safepath.h"

void project_done(struct project *p) {
    doc_done(&p->doc);
    free(p->workspace);
    *p = (struct project){0};
}

static int open_failed(int r, const char *path, struct err *err) {
    if (r == -ENOENT)
        return 0;
    if (r == -ELOOP)
        return err_usage(err, "%s:1:1: a symbolic link is not followed here", path);
    if (r == -ENOTDIR || r == -ENXIO || r == -ENODEV)
        return err_usage(err, "%s:1:1: not a regular file in a folder", path);
    return err_sys(err, r, "open '%s'", path);
}

int project_read(const char *workspace, struct project *ret, struct err *err) {
    CLEANUP(closep) int top = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(project_done) struct project p = {0};
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int fd = -1;
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace '%s'", workspace);
    if (asprintf(&path, "%s/%s", workspace, PROJECT_FILE) < 0)
        return err_oom(err);
    fd = safepath_open(top, PROJECT_FILE, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return open_failed(fd, path, err);
    r = doc_read_fd(fd, path, &p.doc, err);
    if (r < 0)
        return r;
    r = paths_of_fd(top, &p.workspace, err);
    if (r < 0)
        return r;
    sha256_hex(p.doc.data, p.doc.len, p.hash);
    *ret = TAKE(p, (struct project){0});
    return 1;
}
