/* SPDX-License-Identifier: Apache-2.0 */
/* References, paths, and images that a container engine has. */
#include "ops/image/image_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "engine/container/container.h"
#include "ops/image/image_pull.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "supervisor/credential/vault_spawn.h"
#include "supervisor/helper.h"

enum { MESSAGE_MAX = 900, TAR_CHANGED = 1 /* a file changed while tar read it */ };

bool image_is_path(const char *what) {
    return what[0] == '/' || what[0] == '.' || str_ends(what, ".tar") || str_ends(what, ".tar.gz");
}

void image_source_done(struct image_source *s) {
    closep(&s->fd);
    closep(&s->secret);
    closep(&s->messages);
    if (s->engine > 0)
        process_end(s->engine);
    if (s->vault > 0)
        process_end(s->vault);
    *s = (struct image_source)IMAGE_SOURCE_INIT;
}

static int open_path(const char *path, struct image_source *s, struct err *err) {
    struct stat st;

    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return err_sys(err, -errno, "open '%s'", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_usage(err, "'%s' is neither an archive nor a folder", path);
    s->from = S_ISDIR(st.st_mode) ? "layout" : "archive";
    return 0;
}

int image_program_find(const char *name, struct container_cli *ret_cli, struct err *err) {
    const struct container_kind kind = {.name = name, .program = name};
    char cwd[PATH_MAX];
    int r = container_cli_find(&kind, getcwd(cwd, sizeof cwd) ? cwd : "/", ret_cli, err);

    if (r == -ENOENT)
        *err = (struct err){0};
    return r;
}

/* With the user's rights and variables: it is the user's own program, which finds its daemon by them. */
static int start_program(char *const *argv, const struct container_cli *cli, struct image_source *s, struct err *err) {
    const char *program = argv[0];
    CLEANUP(closep) int out = -1, errors = -1;
    struct spawn sp = {.path = cli->program, .argv = argv, .envp = cli->env.v, .n_fds = 3, .cwd = SPAWN_CWD_STAY};
    int fds[3] = {-1, -1, -1}, r = fd_pipe(&s->fd, &out);

    r = r < 0 ? r : fd_pipe(&s->messages, &errors);
    if (r < 0 || fcntl(errors, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, r < 0 ? r : -errno, "start %s", program);
    fds[1] = out;
    fds[2] = errors;
    sp.fds = fds;
    r = spawn_start(&sp, &s->engine, NULL);
    return r < 0 ? err_sys(err, r, "start '%s'", cli->program) : 0;
}

static int open_program(char *const *argv, struct image_source *s, struct err *err) {
    struct container_cli cli = {.env = {0}};
    int r = image_program_find(argv[0], &cli, err);

    if (r == -ENOENT)
        err_set(err, r, "'%s' is not installed", argv[0]);
    r = r < 0 ? r : start_program(argv, &cli, s, err);
    strv_done(&cli.env);
    return r;
}

static int open_engine(const char *program, const char *name, struct image_source *s, struct err *err) {
    char *argv[] = {(char *)(uintptr_t)program, "save", (char *)(uintptr_t)name, NULL};

    if (name[0] == '-' || !name[0])
        return err_usage(err, "'%s' is not the name of an image", name);
    s->from = "stream";
    s->name = program;
    snprintf(s->ref, sizeof s->ref, "%s", name);
    return open_program(argv, s, err);
}

int image_source_host(const struct strv *paths, struct image_source *s, struct err *err) {
    static const char *const words[] = {
        "tar",       "--create", "--file=-",          "--directory=/",        "--numeric-owner",          "--owner=0",
        "--group=0", "--sparse", "--one-file-system", "--ignore-failed-read", "--warning=no-failed-read", "--format=posix",
        "--"};
    CLEANUP(strv_done) struct strv argv = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(words); i++)
        r = strv_add(&argv, words[i]);
    if (r < 0 || strv_add_all(&argv, paths) < 0)
        return err_oom(err);
    s->from = "rootfs";
    s->name = "tar";
    return open_program(argv.v, s, err);
}

/* bawn-vault has the user's rights; of what it finds, this registry's login goes to bawn-pull, past us. */
static int open_login(const struct oci_ref *ref, struct image_source *s, struct err *err) {
    CLEANUP(closep) int theirs = -1;
    struct vault_job job = {.verb = "--registry", .name = ref->host, .environ_ = environ};
    int r = fd_pipe(&s->secret, &theirs);

    if (r < 0)
        return err_sys(err, r, "start bawn-vault");
    job.sock = theirs;
    return vault_start(&job, &s->vault, err);
}

int image_source_open(const struct image_pull_request *q, struct image_source *ret, struct err *err) {
    struct oci_ref ref;
    int r;

    if (q->host)
        return image_source_host(q->host, ret, err);
    if (str_starts(q->what, "docker:") || str_starts(q->what, "podman:")) {
        const char *colon = strchr(q->what, ':');

        return open_engine(colon == q->what + 6 && q->what[0] == 'd' ? "docker" : "podman", colon + 1, ret, err);
    }
    if (image_is_path(q->what))
        return open_path(q->what, ret, err);
    r = oci_ref_parse(q->what, &ref, err);
    if (r < 0)
        return r;
    oci_ref_name(&ref, ret->ref);
    ret->from = "registry";
    return open_login(&ref, ret, err);
}

int image_source_end(struct image_source *s, struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(4 * MESSAGE_MAX);
    char text[MESSAGE_MAX];
    int status;

    if (s->engine <= 0)
        return 0;
    status = process_wait(TAKE(s->engine, -1));
    if (status >= 0 && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0))
        return 0; /* a signal: its pipe was closed, and bawn-pull says why */
    if (!s->ref[0] && WEXITSTATUS(status) == TAR_CHANGED)
        return 0;
    buf_add_printable(&said, helper_message(s->messages, text, sizeof text));
    return err_set(err, -EIO, "'%s%s%s' failed%s%s", s->name, s->ref[0] ? " save " : "", s->ref, said.len ? ": " : "",
                   buf_str(&said));
}
