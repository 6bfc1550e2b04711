/* SPDX-License-Identifier: Apache-2.0 */
/* Starts bawn-pull, hears how far it is, and puts what it made into the store. */
#include "ops/image/image_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/image/image_source.h"
#include "os/fd.h"
#include "os/hidden.h"
#include "os/process.h"
#include "os/remove.h"
#include "supervisor/helper.h"

enum {
    MESSAGE_MAX = 900,
    IMAGE_OWNER = 0x6ffffff0 /* IMAGE_ID of image/image_layer.h, which only bawn-pull includes */,
    PLAIN_OWNER = 65534
};

void image_pulled_done(struct image_pulled *p) {
    free(p->name);
    free(p->id);
    *p = (struct image_pulled){0};
}

int image_store_of_user(bool make, struct image_store *ret, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    return r < 0 ? r : image_store_open(environ, home, make, ret, err);
}

/* A pull that goes on. */
struct pull_job {
    struct image_store store;
    int staging;
    char staging_name[HIDDEN_NAME_SIZE];
    struct image_source source;
    pid_t pid;
    int out, messages;
};
#define PULL_JOB_INIT \
    { .store = IMAGE_STORE_INIT, .staging = -1, .source = IMAGE_SOURCE_INIT, .pid = -1, .out = -1, .messages = -1 }

static void pull_job_done(struct pull_job *j) {
    closep(&j->out);
    closep(&j->messages);
    if (j->pid > 0)
        process_end(j->pid);
    image_source_done(&j->source);
    if (j->staging >= 0)
        remove_tree(j->store.pulls, j->staging_name);
    closep(&j->staging);
    image_store_done(&j->store);
}

/* Root's bawn-pull is another id, which owns what it makes. */
static int give_away(int fd, struct err *err) {
    if (geteuid() != 0 || fchown(fd, IMAGE_OWNER, IMAGE_OWNER) == 0 ||
        (errno == EINVAL && fchown(fd, PLAIN_OWNER, PLAIN_OWNER) == 0) || errno == EINVAL)
        return 0;
    return err_sys(err, -errno, "prepare the image store");
}

static int make_staging(struct pull_job *j, struct err *err) {
    int r = hidden_lock(j->store.pulls);

    if (r == 0) {
        j->staging = r = hidden_make(j->store.pulls, j->staging_name);
        hidden_unlock(j->store.pulls);
    }
    if (r < 0)
        return err_sys(err, r, "make a folder for the image");
    hidden_sweep_gone(j->store.pulls);
    hidden_sweep_gone(j->store.layers);
    r = give_away(j->staging, err);
    return r < 0 ? r : give_away(j->store.partial, err);
}

/* Of the user's variables only those that say how to get out. */
static int pull_environment(struct strv *ret) {
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy",     "ALL_PROXY",
                                        "no_proxy",    "NO_PROXY",    "SSL_CERT_FILE", "SSL_CERT_DIR"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++) {
        const char *value = paths_getenv(environ, names[i]);

        r = value ? strv_addf(ret, "%s=%s", names[i], value) : 0;
    }
    return r;
}

static int start_pull(struct pull_job *j, const struct image_pull_request *q, struct err *err) {
    CLEANUP(strv_done) struct strv argv = {0}, envp = {0};
    CLEANUP(closep) int out = -1, errors = -1;
    struct helper h = {.name = "bawn-pull", .n_fds = 8};
    int r = fd_pipe(&j->out, &out);

    r = r < 0 ? r : fd_pipe(&j->messages, &errors);
    if (r < 0 || fcntl(errors, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, r < 0 ? r : -errno, "start bawn-pull");
    if (strv_add(&argv, "bawn-pull") < 0 || strv_addf(&argv, "--from=%s", j->source.from) < 0 ||
        (j->source.ref[0] && strv_addf(&argv, "--ref=%s", j->source.ref) < 0) ||
        (q->arch && strv_addf(&argv, "--arch=%s", q->arch) < 0) || pull_environment(&envp) < 0)
        return err_oom(err);
    h.argv = argv.v;
    h.envp = envp.len ? envp.v : (char *[]){NULL};
    memcpy(h.fds, (const int[]){-1, out, errors, j->staging, j->store.layers, j->store.partial, j->source.fd, j->source.secret},
           8 * sizeof(int));
    r = helper_start(&h, &j->pid, err);
    closep(&j->source.fd); /* a pipe ends when its reader does */
    closep(&j->source.secret);
    return r;
}

/* "P DONE TOTAL". What it says is shown, not used. */
static void take_progress(const struct image_pull_request *q, char *line) {
    char *space = strchr(line, ' ');
    uint64_t done, total;

    if (!q->progress || !space)
        return;
    *space++ = 0;
    if (parse_u64(line, 0, INT64_MAX, &done, NULL) == 0 && parse_u64(space, 0, INT64_MAX, &total, NULL) == 0)
        q->progress->report(0, done, total, q->progress->arg);
}

/* Lines up to the one with the image. 0: it did not come. */
static int hear_pull(struct pull_job *j, const struct image_pull_request *q, struct image_info *ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(IMAGE_INFO_MAX + 4096);
    char part[64 * 1024];
    ssize_t n;

    while ((n = fd_read_some(j->out, part, sizeof part)) > 0) {
        char *line, *end;

        buf_add(&b, part, (size_t)n);
        if (!buf_ok(&b))
            return err_set(err, -EBADMSG, "bawn-pull says too much");
        for (line = b.data; (end = memchr(line, '\n', b.len - (size_t)(line - b.data))); line = end + 1) {
            *end = 0;
            if (str_starts(line, "R "))
                return image_info_read(line + 2, (size_t)(end - line) - 2, ret, err) < 0 ? err_ctx(err, err->code, "bawn-pull")
                                                                                         : 1;
            if (str_starts(line, "P "))
                take_progress(q, line + 2);
        }
        memmove(b.data, line, b.len - (size_t)(line - b.data));
        b.len -= (size_t)(line - b.data);
    }
    return 0;
}

static int finish_pull(struct pull_job *j, struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(4 * MESSAGE_MAX);
    char text[MESSAGE_MAX];
    int status = process_wait(TAKE(j->pid, -1)), r = image_source_end(&j->source, err);

    if (r < 0)
        return r;
    if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (status >= 0 && WIFSIGNALED(status))
        return err_set(err, -EIO, "bawn-pull was ended by signal %d", WTERMSIG(status));
    buf_add_printable(&said, helper_message(j->messages, text, sizeof text)); /* it may have been taken over by what it read */
    if (status >= 0 && WEXITSTATUS(status) == EXIT_USAGE_ERR)
        return err_usage(err, "%s", buf_str(&said));
    return err_set(err, -EIO, "%s", said.len ? buf_str(&said) : "bawn-pull failed and did not say why");
}

/* The name in the store: what the user says, or the reference, or what the archive says. */
static int choose_name(const struct image_pull_request *q, const struct image_source *src, const struct image_info *i,
                       char name[static OCI_NAME_SIZE], struct err *err) {
    const char *text = q->tag ? q->tag : src->ref[0] ? src->ref : i->name;
    struct oci_ref ref;
    int r;

    if (!text[0])
        return err_usage(err, "the image in '%s' has no name: give it one with --tag NAME", q->what);
    r = oci_ref_parse(text, &ref, err);
    if (r == 0)
        oci_ref_name(&ref, name);
    return r;
}

static int pull_once(const struct image_pull_request *q, struct image_pulled *ret, struct err *err) {
    CLEANUP(pull_job_done) struct pull_job j = PULL_JOB_INIT;
    CLEANUP(image_info_done) struct image_info info = {0};
    char name[OCI_NAME_SIZE];
    int r = image_store_of_user(true, &j.store, err), heard = 0, ended;

    r = r < 0 ? r : image_source_open(q, &j.source, err);
    r = r < 0 ? r : make_staging(&j, err);
    r = r < 0 ? r : start_pull(&j, q, err);
    if (r < 0)
        return r;
    heard = hear_pull(&j, q, &info, err);
    if (heard < 0)
        return heard;
    ended = finish_pull(&j, err);
    if (ended < 0)
        return ended;
    if (heard == 0)
        return err_set(err, -EIO, "bawn-pull ended before it was done");
    r = choose_name(q, &j.source, &info, name, err);
    r = r < 0 ? r : image_store_add(&j.store, j.staging, &info, name, err);
    if (r < 0)
        return r;
    *ret = (struct image_pulled){strdup(name), TAKE_PTR(info.id), info.bytes, info.layers.len};
    return ret->name ? 0 : err_oom(err);
}

int image_pull(const struct image_pull_request *q, struct image_pulled *ret, struct err *err) {
    int r = pull_once(q, ret, err);

    if (r == -EAGAIN) { /* a layer that was there was removed while the others came */
        *err = (struct err){0};
        r = pull_once(q, ret, err);
    }
    return r;
}
