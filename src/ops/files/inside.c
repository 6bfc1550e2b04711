/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a sandbox: from the words of the user to open files. */
#include "ops/files/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/changes/run_pick.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "supervisor/keep/exec_client.h"
#include "workspace/run/rundir.h"

enum { MEMBERS_MAX = 32 * 1024 };

/* -- words -------------------------------------------------------------------------------------------------------------- */

bool inside_split(const char *word, char **ret_name, const char **ret_path) {
    size_t n = strcspn(word, ":/");

    if (word[n] != ':' || n == 0)
        return false;
    *ret_name = strndup(word, n);
    *ret_path = word + n + 1;
    return *ret_name != NULL;
}

int inside_file_pick(const char *sandbox, const char *path, struct inside_file *ret, struct err *err) {
    const struct sandbox_pick_opts pick = {.name = sandbox, .need = SANDBOX_RUNNING};
    int r = sandbox_pick(&pick, &ret->pick, err);

    return r < 0 ? r : inside_path(&ret->pick, path, &ret->path, err);
}

void inside_file_done(struct inside_file *f) {
    sandbox_pick_done(&f->pick);
    free(f->path);
}

/* -- paths -------------------------------------------------------------------------------------------------------------- */

/* "a/./b//../c" to "/a/c" behind what out has; never above where it began to be absolute. */
static void add_parts(struct buf *out, const char *path) {
    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && path[0] == '.' && path[1] == '.') {
            const char *slash = out->len ? strrchr(out->data, '/') : NULL;

            if (slash) {
                out->len = (size_t)(slash - out->data);
                out->data[out->len] = 0;
            }
        } else if (len && !(len == 1 && path[0] == '.')) {
            buf_addc(out, '/');
            buf_add(out, path, len);
        }
        path += len + (path[len] == '/');
    }
}

static bool is_landlock(const struct box *b) {
    return str_eq(b->state.rung, "landlock");
}

/* On the landlock rung nothing is mounted: sync mode works on the copy itself. */
static int workspace_inside(const struct box *b, struct buf *out, struct err *err) {
    CLEANUP(freep) char *runs = NULL;
    int r;

    if (!is_landlock(b) || !str_eq(b->state.mode, "sync")) {
        add_parts(out, b->info.workspace);
        return 0;
    }
    r = run_pick_folder(&runs, err);
    if (r == 0)
        buf_addf(out, "%s/%s/tree", runs ? runs : "", b->name);
    return r;
}

/* jail/plan/plan.c chooses the user's own path, or else this one. The sandbox itself shows which. */
static int home_inside(const struct sandbox_pick *p, struct buf *out, struct err *err) {
    CLEANUP(freep) char *home = NULL, *real = NULL;
    CLEANUP(closep) int fd = -1;
    struct err none = {0};
    int r;

    if (is_landlock(&p->box)) {
        buf_addf(out, "%s/home", p->box.path);
        return 0;
    }
    r = geteuid() == 0 ? 0 : paths_home(environ, &home, err);
    if (r < 0)
        return r;
    if (home && paths_workspace(home, &real, &none) == 0 && inside_open(p, real, EXEC_OPEN_FOLDER, &fd, &none) == 0)
        add_parts(out, real);
    else
        buf_adds(out, "/home/bawn");
    return 0;
}

int inside_path(const struct sandbox_pick *p, const char *path, char **ret, struct err *err) {
    static const char shared[] = "/workspace";
    CLEANUP(buf_done) struct buf b = BUF_INIT(PATH_MAX);
    size_t n = sizeof shared - 1;
    int r = 0;

    if (path[0] == '~' && (path[1] == '/' || path[1] == 0)) {
        r = home_inside(p, &b, err);
        path++;
    } else if (strncmp(path, shared, n) == 0 && (path[n] == '/' || path[n] == 0)) {
        r = workspace_inside(&p->box, &b, err);
        path += n;
    } else if (path[0] != '/') {
        r = workspace_inside(&p->box, &b, err);
    }
    if (r < 0)
        return r;
    add_parts(&b, path);
    if (!buf_ok(&b))
        return err_set(err, -ENAMETOOLONG, "the path is longer than %d bytes", PATH_MAX);
    if (b.len == 0)
        buf_addc(&b, '/');
    *ret = buf_take(&b);
    return *ret ? 0 : err_oom(err);
}

int inside_open(const struct sandbox_pick *p, const char *path, int how, int *ret_fd, struct err *err) {
    CLEANUP(closep) int sock = -1;
    CLEANUP(buf_done) struct buf shown = BUF_INIT(4 * PATH_MAX);
    int r = exec_connect(environ, NULL, p->box.name, &sock, err);

    if (r < 0)
        return r;
    r = exec_open(sock, path, how, ret_fd, err);
    buf_add_printable(&shown, path);
    if (r == -ELOOP)
        return err_set(err, r, "'%.600s' in the sandbox '%s': a symbolic link is on the way; links are not followed",
                       buf_str(&shown), p->box.name);
    return r < 0 ? err_ctx(err, r, "'%.600s' in the sandbox '%s'", buf_str(&shown), p->box.name) : 0;
}

int inside_open_target(const struct sandbox_pick *p, const char *path, const char *name, int *ret_dir, char **ret_name,
                       struct err *err) {
    CLEANUP(freep) char *parent = strdup(path), *own = name ? strdup(name) : NULL;
    CLEANUP(closep) int dir = -1;
    struct err none = {0};
    char *slash = parent ? strrchr(parent, '/') : NULL;
    int r;

    if (!parent || !slash || (name && !own))
        return err_oom(err);
    r = inside_open(p, path, EXEC_OPEN_FOLDER, &dir, &none);
    if (r < 0 && (r != -ENOENT && r != -ENOTDIR)) {
        *err = none;
        return r;
    }
    if (r < 0) {
        freep(&own);
        own = strdup(slash + 1);
        slash[slash == parent] = 0;
        r = own ? inside_open(p, parent, EXEC_OPEN_FOLDER, &dir, err) : err_oom(err);
    }
    if (r < 0)
        return r;
    *ret_dir = TAKE_FD(dir);
    *ret_name = TAKE_PTR(own);
    return 0;
}

/* -- before it is done --------------------------------------------------------------------------------------------------- */

int inside_audit(const struct sandbox_pick *p, const char *verb, const char *path, const char *host, struct err *err) {
    CLEANUP(audit_freep) struct audit *a = NULL;
    CLEANUP(buf_done) struct buf members = BUF_INIT(MEMBERS_MAX);
    CLEANUP(freep) char *state = strdup(p->boxes);
    const struct audit_ids ids = {.log = p->box.info.id, .sandbox = p->box.info.id, .run = "", .tenant = ""};
    char *slash = state ? strrchr(state, '/') : NULL;
    int r;

    if (!slash)
        return err_oom(err);
    *slash = 0;
    audit_add(&members, "verb", verb);
    audit_add(&members, "path", path);
    audit_add(&members, "host", host);
    r = buf_ok(&members) ? audit_new(state, &ids, &a, err) : err_oom(err);
    return r < 0 ? r : audit_write(a, AUDIT_FILE, buf_str(&members), err);
}

mode_t inside_umask(void) {
    mode_t m = umask(077);

    umask(m);
    return m;
}
