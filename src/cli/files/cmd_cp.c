/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "supervisor/session/progress_bar.h"
#include "workspace/copy/transfer.h"

enum { OPT_JSON = 1, OPT_RECURSIVE };

static const struct opt opts[] = {
    {OPT_RECURSIVE, 'r', "recursive", NULL, "for those who type it: folders are always copied with all in them", NULL},
    {OPT_JSON, 0, "json", NULL, "print what was copied as JSON", NULL},
};

struct cp_request {
    struct sandbox_pick pick;
    struct strv words;
    bool json;
    bool out;           /* from the sandbox */
    char *inside;       /* the path in there */
    const char *host;   /* the path out here */
    bool whole_content; /* the source ends with "/.": what is in it, not itself */
};

static void request_done(struct cp_request *q) {
    sandbox_pick_done(&q->pick);
    strv_done(&q->words);
    free(q->inside);
}

static int take(void *arg, int id, const char *value UNUSED, struct err *err UNUSED) {
    struct cp_request *q = arg;

    q->json |= id == OPT_JSON;
    return 0;
}

static bool is_content_of(const char *path) {
    return str_eq(path, ".") || str_ends(path, "/.") || str_eq(path, "/");
}

static int choose(struct cp_request *q, struct err *err) {
    CLEANUP(freep) char *source = NULL, *target = NULL;
    const char *from = q->words.v[0], *to = q->words.v[1];
    bool out = inside_split(from, &source, &from), in = inside_split(to, &target, &to);
    const struct sandbox_pick_opts pick = {.name = out ? source : target, .need = SANDBOX_RUNNING};
    int r;

    if (out && in)
        return err_usage(err, "from one sandbox to another: copy to the host first");
    if (!out && !in)
        return err_usage(err, "none of the two is 'SANDBOX:PATH', a path in a sandbox");
    q->out = out;
    q->host = out ? to : from;
    q->whole_content = is_content_of(from);
    r = sandbox_pick(&pick, &q->pick, err);
    return r < 0 ? r : inside_path(&q->pick, out ? from : to, &q->inside, err);
}

static int read_request(const struct verb *self, int argc, char **argv, struct cp_request *q, struct err *err) {
    int r = inside_read_words(self, argc, argv, take, q, &q->words, err);

    if (r < 0)
        return r;
    if (q->words.len != 2)
        return err_usage(err, "two paths are needed: from where, and to where");
    return choose(q, err);
}

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Folder or file `from` becomes (dir, name), or what is in it comes into dir if name is NULL. */
static int bring(struct transfer *t, int from, const struct stat *st, int dir, const char *name, const char *shown,
                 struct err *err) {
    CLEANUP(closep) int folder = -1;

    if (S_ISREG(st->st_mode) && !name)
        return err_usage(err, "'%.300s' is a file, and the target has no name for it", shown);
    if (S_ISREG(st->st_mode))
        return transfer_file(t, from, dir, name, st->st_mode, shown, err);
    if (!name)
        return transfer_tree(t, from, dir, err);
    folder = transfer_folder(t, dir, name, err);
    return folder < 0 ? folder : transfer_tree(t, from, folder, err);
}

/* -- to the host -------------------------------------------------------------------------------------------------------- */

static bool is_special(mode_t mode) {
    return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

/* The folder on the host, and the name in it. The user's own path: links in it are his. */
static int open_host_target(const struct cp_request *q, bool from_folder, int *ret_dir, char **ret_name, struct err *err) {
    CLEANUP(freep) char *path = strdup(q->host);
    CLEANUP(closep) int dir = open(q->host, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *name = q->whole_content && from_folder ? NULL : last_name(q->inside);
    struct stat st;
    char *slash;

    if (!path || !q->host[0])
        return path ? err_usage(err, "the path on the host is empty") : err_oom(err);
    if (dir < 0) {
        while (path[1] && path[strlen(path) - 1] == '/' && from_folder)
            path[strlen(path) - 1] = 0;
        slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        if (slash)
            *slash = 0;
        dir = open(!slash ? "." : path[0] ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || !name[0])
            return err_sys(err, dir < 0 ? -errno : -ENOTDIR, "open the folder '%.300s'", slash ? path : ".");
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_special(st.st_mode))
            return err_set(err, -EINVAL, "'%.300s' is a device, FIFO or socket; 'bawn get' writes to its standard output",
                           q->host);
    }
    *ret_name = name ? strdup(name) : NULL;
    if (name && !*ret_name)
        return err_oom(err);
    *ret_dir = TAKE_FD(dir);
    return 0;
}

static int copy_out(const struct cp_request *q, struct transfer *t, struct err *err) {
    CLEANUP(closep) int from = -1, dir = -1;
    CLEANUP(freep) char *name = NULL;
    struct stat st;
    int r = inside_open(&q->pick, q->inside, EXEC_OPEN_READ, &from, err);

    if (r == 0 && (fstat(from, &st) < 0 || is_special(st.st_mode))) /* bawn-init looked, too; it is not believed */
        r = err_set(err, -EINVAL, "'%.300s' is no file and no folder", q->inside);
    r = r < 0 ? r : open_host_target(q, S_ISDIR(st.st_mode), &dir, &name, err);
    return r < 0 ? r : bring(t, from, &st, dir, name, q->host, err);
}

/* -- into the sandbox --------------------------------------------------------------------------------------------------- */

static int open_host_source(const char *path, struct stat *ret, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, ret) < 0)
        return err_sys(err, -errno, "open '%.300s'", path);
    if (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode))
        return err_set(err, -EINVAL, "'%.300s' is no file and no folder; 'bawn put' takes what comes from standard input", path);
    return TAKE_FD(fd);
}

/* The name that "a/b/" has. */
static char *name_of(const char *path) {
    size_t end = strlen(path);

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (size_t i = end; i > 0; i--)
        if (path[i - 1] == '/')
            return strndup(path + i, end - i);
    return strndup(path, end);
}

static int copy_in(const struct cp_request *q, struct transfer *t, struct err *err) {
    CLEANUP(closep) int dir = -1, from = -1;
    CLEANUP(freep) char *name = NULL, *own = name_of(q->host);
    struct stat st;
    bool content = q->whole_content || str_eq(own ? own : "", "..");
    int r = from = own ? open_host_source(q->host, &st, err) : err_oom(err);

    r = r < 0 ? r : inside_open_target(&q->pick, q->inside, content && S_ISDIR(st.st_mode) ? NULL : own, &dir, &name, err);
    return r < 0 ? r : bring(t, from, &st, dir, name, q->inside, err);
}

static int copy(const struct cp_request *q, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {.progress = &progress, .out = q->out, .give = !q->out, .umask_ = inside_umask()};
    int r = inside_audit(&q->pick, q->out ? "cp out" : "cp in", q->inside, q->host, err);

    r = r < 0 ? r : q->out ? copy_out(q, &t, err) : copy_in(q, &t, err);
    progress_bar_done(&bar);
    return r < 0 ? r : inside_report(&t, q->json, err);
}

static int run_cp(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct cp_request q = {.pick = SANDBOX_PICK_INIT};
    struct err err = {0};
    int r = read_request(self, argc, argv, &q, &err);

    r = r < 0 ? r : copy(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Copies a file, or a folder with all in it, between the host and a sandbox that runs. In SANDBOX:PATH a relative path counts from the "
    "workspace, '~' is the sandbox's home, and '/workspace' the workspace; a ':' behind a '/' is part of a path of the host's. If the target "
    "is a folder, the source comes into it under its own name; 'FOLDER/.' means what is in the folder.\n\n"
    "No link is followed on the sandbox's side, whatever it changes meanwhile. Links are copied as links; coming out, one that "
    "leads out of what is copied is left out, as are devices, FIFOs and sockets everywhere. What is replaced is replaced as a whole, never written through. "
    "What comes out is yours, without setuid bits, and was not reviewed: see 'bawn review' for changes of the workspace.\n\n"
    "The exit status is 1 if something was left out; each is named.\n\n"
    "    bawn cp box:build/report.html .\n"
    "    bawn cp fixtures/. box:~/fixtures";

const struct verb verb_cp = {
    .name = "cp",
    .summary = "copy files and folders into or out of a sandbox",
    .synopsis = "[options] SANDBOX:PATH HOST | HOST SANDBOX:PATH",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_cp,
};
