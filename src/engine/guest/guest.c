/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the machine of a run, runs bawn-enter in it over the program's own standard streams, and removes it. */
#include "engine/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/container/container_box.h"
#include "engine/link_start.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"

/* The first machine of an image waits for the image. */
enum { CREATE_MS = 20 * 60 * 1000, REMOVE_MS = 2 * 60 * 1000 };
enum { GUEST_SAID_MAX = 16 * 1024, PROGRAM_MAX = 64 * 1024 * 1024 };
static const char guest_prefix[] = "bawn-";

int guest_argv(const struct guest_kind *k, struct strv *ret, ...) {
    va_list words;
    const char *word;
    int r = strv_add(ret, k->cli.program);

    for (size_t i = 0; r >= 0 && k->prefix[i]; i++)
        r = strv_add(ret, k->prefix[i]);
    va_start(words, ret);
    while (r >= 0 && (word = va_arg(words, const char *)))
        r = strv_add(ret, word);
    va_end(words);
    return r;
}

/* -- what its program says --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *part, *what, *remedy;
} guest_troubles[] = {
    {"'sandbox' is not a docker command", "this docker has no sandboxes",
     "install sbx, or Docker Desktop 4.58 or later ('docker sandbox ls' must work)"},
    {"unknown command: docker sandbox", "this docker has no sandboxes",
     "install sbx, or Docker Desktop 4.58 or later ('docker sandbox ls' must work)"},
    {"unknown command \"sandbox\"", "this docker has no sandboxes", "install sbx, or Docker Desktop 4.58 or later"},
    {"Docker Desktop is not running", "Docker Desktop does not run", "start it, wait until 'docker info' works, and try again"},
    {"not signed in", "Docker Sandboxes want you to sign in", "'sbx login', then try again"},
    {"qemu-system", "lima has no program that runs machines",
     "install QEMU ('brew install qemu'), or use a Mac with macOS 13.5 or later, where lima needs none"},
    {"did not receive an event with the", "the machine did not start in time",
     "see ha.stderr.log in its folder ('limactl list'), then try again"},
    {"no space left on device", "there is no space left for machines", "'limactl prune' or 'sbx prune' frees some"},
    {"a password is required", "the guest's user may not become root", "use an image with sudo without a password"},
    {"unshare: not found", "the guest has no unshare", "use an image with util-linux"},
    {"overlay", "the guest's kernel has no overlayfs", "use another image"},
};

static int guest_trouble(const struct guest_kind *k, const char *said, int r, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(guest_troubles); i++)
        if (strcasestr(said, guest_troubles[i].part))
            return err_set(err, r, "engine %s: %s; %s", k->cli.name, guest_troubles[i].what, guest_troubles[i].remedy);
    return container_trouble(&k->cli, said, r, err);
}

/* There is no container to find by a label: the machine has a name, and guest_finish() removes it. */
int guest_bundle(struct container_box *b UNUSED, const struct engine_request *req UNUSED, struct err *err) {
    return err_set(err, -ENOTSUP, "a machine is no container");
}

static int call_program(const struct guest_kind *k, const struct container_cli *cli, const struct strv *argv, struct buf *out,
                        struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(GUEST_SAID_MAX);
    int r = container_call(cli, argv->v, NULL, out, &said);

    if (r < 0)
        return err_sys(err, r, "run %s", cli->program);
    return r == 0 ? 0 : guest_trouble(k, buf_str(&said), -EIO, err);
}

/* The first kind whose program is there. */
static int find_kind(const struct guest_kind *const *kinds, const char *workspace, struct container_cli *cli,
                     const struct guest_kind **ret, struct err *err) {
    for (size_t i = 0; kinds[i]; i++) {
        struct err ignored = {0};

        if (container_cli_find(&kinds[i]->cli, workspace, cli, &ignored) == 0) {
            *ret = kinds[i];
            return 0;
        }
        strv_done(&cli->env);
    }
    return err_set(err, -ENOENT, "engine %s: there is no program '%s' in PATH; %s, or use another engine ('bawn engines')",
                   kinds[0]->cli.name, kinds[0]->cli.program, kinds[0]->remedy);
}

size_t guest_probe(const struct guest_kind *const *kinds, struct engine_state *ret, const char **ret_names, size_t max) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(GUEST_TEXT_MAX);
    CLEANUP(strv_done) struct strv argv = {0};
    struct container_cli cli = {.env = {0}};
    const struct guest_kind *k = NULL;
    struct err err = {0};
    char cwd[PATH_MAX];
    int r;

    if (max == 0)
        return 0;
    *ret = (struct engine_state){0};
    ret_names[0] = kinds[0]->cli.name;
    r = find_kind(kinds, getcwd(cwd, sizeof cwd) ? cwd : "/", &cli, &k, &err);
    if (r < 0)
        snprintf(ret->remedy, sizeof ret->remedy, "%s", kinds[0]->remedy);
    r = r < 0 ? r : guest_argv(k, &argv, NULL);
    for (size_t i = 0; r >= 0 && k->version[i]; i++)
        r = strv_add(&argv, k->version[i]);
    r = r < 0 ? r : call_program(k, &cli, &argv, &out, &err);
    strv_done(&cli.env);
    ret->available = r >= 0;
    ret->keeps = r >= 0 ? (unsigned)(GUEST_KEEPS | (k->sized ? GUEST_SIZE : 0)) : 0;
    snprintf(ret->why, sizeof ret->why, "%s%.*s", r >= 0 ? GUEST_UNTRIED : "", r >= 0 ? 0 : (int)sizeof ret->why - 1, err.msg);
    return 1;
}

int guest_image(struct engine_image *ret, struct err *err) {
    ret->workdir = strdup("");
    return !ret->workdir || strv_add(&ret->env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") < 0
               ? err_oom(err)
               : 0;
}

/* -- the folder of the run ----------------------------------------------------------------------------------------------------- */

static int write_file(const struct container_folder *f, const char *sub, const char *name, mode_t mode, const struct buf *content,
                      struct err *err) {
    char path[128];
    int r;

    snprintf(path, sizeof path, "%s/%s", f->name, sub);
    CLEANUP(closep) int dir = openat(f->parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    r = dir < 0 ? -errno : file_replace_at(dir, name, mode, 0, buf_str(content), content->len);
    if (r == 0 && fchmodat(dir, name, mode, 0) < 0) /* whatever the umask is: root of the guest may be another id here */
        r = -errno;
    return r < 0 ? err_sys(err, r, "write '%s/%s/%s'", f->path, sub, name) : 0;
}

/* A copy, because the machine is given the folder of the run and not that of our programs. */
static int copy_program(const struct container_folder *f, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf content = BUF_INIT(PROGRAM_MAX);
    char path[PATH_MAX];
    CLEANUP(closep) int fd = engine_helper(name, path, sizeof path);
    int r = fd < 0 ? fd : file_read_fd(fd, 0, &content);

    if (r < 0)
        return err_sys(err, r, "%s, which belongs beside the bawn program or in ../libexec/bawn", name);
    return write_file(f, "link", name, 0755, &content, err);
}

static int fill_folder(struct container_box *b, const struct engine_request *req, struct err *err) {
    int r = container_plan_make(req->plan, b->folder.path, ROOT_OF_IMAGE, &b->plan, err);

    r = r < 0 ? r : container_folder_fill(&b->folder, &b->plan, true, err);
    r = r < 0 ? r : container_give(req->plan, &b->plan, err);
    r = r < 0 ? r : guest_files_copy(&b->plan, &b->folder, err);
    r = r < 0 ? r : copy_program(&b->folder, "bawn-enter", err);
    return r < 0 ? r : copy_program(&b->folder, "bawn-init", err);
}

static int write_script(struct container_box *b, const struct plan *p, const struct guest_shares *s, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GUEST_TEXT_MAX);
    int r = guest_script_make(p, &b->plan, s, b->folder.path, &text, err);

    return r < 0 ? r : write_file(&b->folder, "link", "guest.sh", 0644, &text, err);
}

/* -- the machine --------------------------------------------------------------------------------------------------------------- */

static void name_machine(const struct container_box *b, char ret[static GUEST_NAME_SIZE]) {
    snprintf(ret, GUEST_NAME_SIZE, "%s%.50s", guest_prefix, b->folder.label);
}

static int remove_machine(const struct guest_kind *k, const struct container_cli *cli, const char *name, struct err *err) {
    CLEANUP(strv_done) struct strv argv = {0};
    int r = k->remove(k, name, &argv);

    return r < 0 ? err_oom(err) : call_program(k, cli, &argv, NULL, err);
}

/* What runs that were killed have left. */
static void remove_stale(const struct guest_kind *k, const struct container_cli *cli) {
    CLEANUP(buf_done) struct buf names = BUF_INIT(GUEST_TEXT_MAX);
    CLEANUP(strv_done) struct strv argv = {0};
    struct err ignored = {0};
    int r = guest_argv(k, &argv, NULL);

    for (size_t i = 0; r >= 0 && k->list[i]; i++)
        r = strv_add(&argv, k->list[i]);
    if (r < 0 || call_program(k, cli, &argv, &names, &ignored) < 0)
        return;
    for (char *line = names.data, *next; line && *line; line = next) {
        unsigned long long start;
        int pid;

        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (str_starts(line, guest_prefix) && sscanf(line + strlen(guest_prefix), "%d-%llu", &pid, &start) == 2 && pid > 0 &&
            process_is_dead(pid, start))
            remove_machine(k, cli, line, &ignored);
    }
}

static int create_machine(const struct guest_kind *k, struct container_box *b, const struct engine_request *req, const char *name,
                          struct err *err) {
    CLEANUP(guest_shares_done) struct guest_shares shares = {0};
    CLEANUP(buf_done) struct buf file = BUF_INIT(GUEST_TEXT_MAX);
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(freep) char *script = NULL, *path = str_dupf("%s/link/guest.sh", b->folder.path);
    int r = guest_shares_make(&b->plan, b->folder.path, k->at, &shares, err);

    r = r < 0 ? r : write_script(b, req->plan, &shares, err);
    r = r < 0 ? r : k->create(k, name, b->folder.path, req->plan, req->settings->image, &shares, &argv, &file, err);
    if (r == 0 && file.len)
        r = write_file(&b->folder, "", GUEST_FILE, 0600, &file, err);
    script = path ? guest_path(&shares, path) : NULL;
    if (r == 0 && (!script || k->exec(k, name, script, &b->argv) < 0))
        r = err_oom(err);
    b->cli.limit_ms = CREATE_MS;
    r = r < 0 ? r : call_program(k, &b->cli, &argv, NULL, err);
    b->cli.limit_ms = 0;
    return r < 0 || !k->check ? r : k->check(k, &b->cli, name, &shares, err);
}

int guest_start(const struct guest_kind *const *kinds, const struct engine_request *req, struct sandbox *sb, struct err *err) {
    struct container_box *b = calloc(1, sizeof *b);
    const struct guest_kind *k = NULL;
    char name[GUEST_NAME_SIZE];
    int r;

    if (!b)
        return err_oom(err);
    *b = (struct container_box){.kind = &kinds[0]->cli,
                                .by_bytes = true,
                                .own_kernel = true,
                                .folder = CONTAINER_FOLDER_INIT,
                                .image_root = PRIVATE_DIR_INIT,
                                .plan = CONTAINER_PLAN_INIT,
                                .pid = -1,
                                .pidfd = -1,
                                .messages = -1,
                                .limit_ms = req->settings->start_timeout_ms,
                                .said = BUF_INIT(GUEST_SAID_MAX)};
    sb->own = b;
    r = find_kind(kinds, req->plan->workspace, &b->cli, &k, err);
    r = r < 0 ? r : container_folder_make(kinds[0]->cli.name, "", &b->folder, err);
    if (r < 0)
        return r;
    b->kind = &k->cli;
    log_note("engine %s: %s", k->cli.name, GUEST_UNTRIED);
    container_folder_close(&b->folder); /* nothing connects from another kernel */
    remove_stale(k, &b->cli);
    link_plan(req->plan);
    name_machine(b, name);
    r = fill_folder(b, req, err);
    r = r < 0 ? r : create_machine(k, b, req, name, err);
    r = r < 0 ? r : container_run_bytes(b, req, sb, err);
    if (r == -EIO && b->said.len)
        guest_trouble(k, buf_str(&b->said), r, err);
    return r;
}

/* A machine that was not made is removed in vain. */
void guest_finish(const struct guest_kind *const *kinds, struct sandbox *sb) {
    struct container_box *b = sb->own;
    const struct guest_kind *k = NULL;
    char name[GUEST_NAME_SIZE];
    struct err err = {0};

    container_stop(sb);
    for (size_t i = 0; b && kinds[i]; i++)
        k = b->kind == &kinds[i]->cli && b->argv.len ? kinds[i] : k;
    if (k) {
        name_machine(b, name);
        b->cli.limit_ms = REMOVE_MS;
        b->cli.deaf = true;
        if (remove_machine(k, &b->cli, name, &err) < 0 && sb->bytes) /* else it was not even made, which was reported */
            log_line("engine %s: machine '%s' is left: %s", k->cli.name, name, err.msg);
    }
    container_finish(sb);
}
