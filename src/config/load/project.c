/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file of a project. */
#include "config/load/project.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/trust.h"
#include "os/fd.h"
#include "os/safepath.h"

void project_done(struct project *p) {
    jsonfile_done(&p->doc);
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

void project_network_done(struct project_network *n) {
    free(n->path);
    free(n->text);
    *n = (struct project_network){0};
}

int project_network_read(int workspace_fd, struct project_network *ret, struct err *err) {
    CLEANUP(project_network_done) struct project_network n = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(DOC_SIZE_MAX);
    CLEANUP(freep) char *workspace = NULL;
    CLEANUP(closep) int fd = -1;
    int r;

    r = paths_of_fd(workspace_fd, &workspace, err);
    if (r < 0)
        return r;
    n.path = str_dupf("%s/%s", workspace, PROJECT_NETWORK_FILE);
    if (!n.path)
        return err_oom(err);
    fd = safepath_open(workspace_fd, PROJECT_NETWORK_FILE, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return open_failed(fd, n.path, err);
    r = paths_read_fd(fd, n.path, DOC_SIZE_MAX, &text, err);
    if (r < 0)
        return r;
    n.len = text.len;
    n.text = buf_take(&text);
    if (!n.text)
        return err_oom(err);
    sha256_hex(n.text, n.len, n.hash);
    *ret = TAKE(n, (struct project_network){0});
    return 1;
}

int project_network_trusted(const char *records, const struct project_network *n, bool *ret, struct err *err) {
    *ret = false;
    return records ? trust_check(records, n->path, n->hash, ret, err) : 0;
}
