/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a container, hands bawn-enter what bawn-init is born with, and ends it. */
#include "engine/container/container_far.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "engine/link_start.h"
#include "engine/startmsg.h"
#include "jail/network/network.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"
#include "os/sock.h"
#include "os/spawn.h"
#include "proto/entermsg.h"

enum { ROOT_MAX = 256 * 1024 * 1024, ROOTS_MAX = 4, SAID_MAX = 16 * 1024, END_WAIT_MS = 10000, LAST_WORDS_MS = 3000 };

static void box_free(struct container_box *b) {
    if (!b)
        return;
    container_folder_done(&b->folder);
    container_plan_done(&b->plan);
    strv_done(&b->argv);
    strv_done(&b->cli.env);
    closep(&b->pidfd);
    closep(&b->first);
    closep(&b->messages);
    buf_done(&b->said);
    private_dir_remove(&b->image_root);
    free(b->image);
    free(b);
}

static int find_programs(struct container_box *b, const char *workspace, struct err *err) {
    static const char missing[] = "which belongs beside the bawn program or in ../libexec/bawn";
    CLEANUP(closep) int enter = engine_helper("bawn-enter", b->enter, sizeof b->enter);
    CLEANUP(closep) int init = engine_helper("bawn-init", b->init, sizeof b->init);
    int r;

    if (enter < 0 || init < 0)
        return err_sys(err, enter < 0 ? enter : init, "%s, %s", enter < 0 ? "bawn-enter" : "bawn-init", missing);
    r = container_cli_find(b->kind, workspace, &b->cli, err);
    r = r < 0 || b->remote ? r : container_find_place(b->kind, &b->cli, b->where, err);
    b->remote |= r > 0;
    return MIN_OF(r, 0);
}

/* -- before the container -------------------------------------------------------------------------------------------------- */

/* Those of an /etc as it was once, newest first; one that is in use is not removed by the engine. */
static void remove_old_roots(const struct container_box *b) {
    CLEANUP(buf_done) struct buf ids = BUF_INIT(SAID_MAX), said = BUF_INIT(SAID_MAX);
    char *const list[] = {(char *)(uintptr_t)b->kind->program, "images", "--quiet", "bawn-root", NULL};
    size_t n = 0;

    if (container_call(&b->cli, list, NULL, &ids, &said) != 0)
        return;
    for (char *id = ids.data, *end; id && (end = strchr(id, '\n')); id = end + 1) {
        char *const rm[] = {(char *)(uintptr_t)b->kind->program, "rmi", id, NULL};

        *end = 0;
        if (++n > ROOTS_MAX)
            container_call(&b->cli, rm, NULL, NULL, &said);
    }
}

static int build_root(struct container_box *b, struct err *err) {
    CLEANUP(buf_done) struct buf tar = BUF_INIT(ROOT_MAX), said = BUF_INIT(SAID_MAX);
    char *const argv[] = {(char *)(uintptr_t)b->kind->program, "import", "-", b->image, NULL};
    int r = container_root_tar(&b->plan, &tar);

    if (r < 0)
        return err_sys(err, r, "image of the host's root");
    r = container_call(&b->cli, argv, &tar, NULL, &said);
    if (r != 0)
        return r < 0 ? err_sys(err, r, "run %s", b->cli.program) : container_trouble(b->kind, buf_str(&said), -EIO, err);
    remove_old_roots(b);
    return 0;
}

static int make_argv(struct container_box *b, const struct engine_request *req, struct err *err) {
    CLEANUP(strv_done) struct strv flags = {0};
    const char *more = paths_getenv(environ, "SANDBOX_FLAGS");
    const struct container_names n = {.image = b->image,
                                      .label = b->folder.owner,
                                      .folder = b->folder.path,
                                      .enter = b->enter,
                                      .init = b->init,
                                      .selinux = b->selinux,
                                      .by_bytes = b->by_bytes,
                                      .own_kernel = b->own_kernel,
                                      .remote = b->remote,
                                      .flags = &flags};
    const char *origin = req->settings->origin[SETTING_ENGINE_FLAGS];
    bool by_user = origin && str_starts(origin, "user"); /* neither a project nor a variable of the moment allows more */
    const struct container_flags_rules rules = {.allowed = by_user ? &req->settings->engine_flags : NULL,
                                                .workspace = req->plan->workspace};
    int r = b->kind->bundle ? b->kind->bundle(b, req, err) : more ? container_flags_parse(more, &rules, &flags, err) : 0;

    b->other_limits = r == 0 && container_flags_limit(&flags);
    return r < 0 || b->kind->bundle ? r : container_argv_make(b->kind, req->plan, &b->plan, &n, &b->argv, err);
}

static int name_image(struct container_box *b, const char *named, struct err *err) {
    char root[32];
    int r = 0;

    if (!named && b->remote)
        named = CONTAINER_HOST_IMAGE;
    r = named ? 0 : container_root_name(&b->plan, root);

    if (r < 0)
        return err_sys(err, r, "image of the host's root");
    b->image = strdup(named ? named : root);
    return b->image ? 0 : err_oom(err);
}

/* Over bytes the list of what is to be made lies beside bawn-init, in the folder of the run. */
static void add_programs(struct container_box *b, const struct engine_request *req) {
    if (!b->by_bytes && !req->settings->image && !b->kind->bundle && container_root_program(&b->plan, b->enter) &&
        !container_root_program(&b->plan, b->init))
        strv_done(&b->plan.root_programs);
}

static int prepare(struct container_box *b, const struct engine_request *req, struct err *err) {
    const char *named = req->settings->image;
    int r = find_programs(b, req->plan->workspace, err);

    b->by_bytes |= b->remote;
    if (r == 0 && b->by_bytes)
        link_plan(req->plan);
    if (r == 0 && b->remote && plan_use_small_ids(req->plan) < 0)
        return err_oom(err);
    r = r < 0 ? r : container_folder_make(b->kind->program, b->where, &b->folder, err);
    r = r < 0 ? r
              : container_plan_make(req->plan, b->folder.path,
                                    named || b->remote ? ROOT_OF_IMAGE
                                    : b->kind->bundle  ? ROOT_OF_MOUNTS
                                                       : ROOT_OF_HOST,
                                    &b->plan, err);
    if (r == 0)
        add_programs(b, req);
    r = r < 0 ? r : container_folder_fill(&b->folder, &b->plan, !b->remote, err);
    b->run_plan = r < 0 || b->remote ? NULL : req->plan;
    r = r < 0 || b->remote ? r : container_give(req->plan, &b->plan, err);
    r = r < 0 ? r : name_image(b, named, err);
    if (r < 0)
        return r;
    if (b->folder.dead.len)
        container_remove(b, NULL);
    return make_argv(b, req, err);
}

/* bawn-enter's connection. */
static int accept_enter(struct container_box *b, uid_t uid, struct err *err) {
    for (;;) {
        int r = container_await(b, b->folder.listener, err);
        CLEANUP(closep) int fd = r < 0 ? -1 : accept4(b->folder.listener, NULL, NULL, SOCK_CLOEXEC);
        uid_t peer = 0;

        if (r < 0)
            return r;
        if (fd >= 0 && sock_peer(fd, &peer) == 0 && peer == uid)
            return TAKE_FD(fd);
    }
}

/* -- what bawn-init is born with ------------------------------------------------------------------------------------------- */

static int send_streams(int sock, const struct engine_request *req) {
    int fds[4];
    size_t n = 0;

    for (int i = 0; i < 3; i++)
        if (req->stdio[i] >= 0)
            fds[n++] = req->stdio[i];
    if (req->guard >= 0)
        fds[n++] = req->guard;
    return sock_send(sock, "", 1, fds, n);
}

static int hand_over(struct container_box *b, const struct engine_request *req, struct sandbox *sb, int sock, struct err *err) {
    struct enter_hello hello = {.flags = req->guard >= 0 ? ENTER_GUARD : 0};
    CLEANUP(closep) int theirs = -1, start = -1, list = fd_memory("bawn-list", buf_str(&b->plan.list), b->plan.list.len);
    int pair[2], r = startmsg_make(req, &sb->cgroup, &start, err);

    if (r < 0)
        return r;
    r = list < 0 ? list : sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "control socket");
    sb->control = pair[0];
    theirs = pair[1];
    memcpy(hello.magic, ENTER_MAGIC, sizeof hello.magic);
    for (int i = 0; i < 3; i++)
        hello.flags |= req->stdio[i] >= 0 ? 1u << i : 0;
    r = sock_send(sock, &hello, sizeof hello, (const int[]){theirs, start, list}, 3);
    r = r < 0 ? r : send_streams(sock, req);
    return r < 0 ? err_sys(err, r, "hand the descriptors to the container") : 0;
}

/* What failed inside comes as a message of its own; where none came, the engine may know why the container ended. */
static int explain_end(struct container_box *b, struct sandbox *sb, int r, struct err *err) {
    closep(&sb->control);
    if (r == -EPROTO && container_ended(b, LAST_WORDS_MS) && b->said.len)
        return container_trouble(b->kind, buf_str(&b->said), r, err);
    return err_ctx(err, r, "engine %s: the container's first program failed", b->kind->name);
}

int container_listeners(struct container_box *b, struct sandbox *sb, struct err *err) {
    struct listeners n;
    int r = container_await(b, sb->control, err);

    if (r < 0)
        return r;
    r = network_receive(sb->control, &n, err);
    if (r < 0)
        return explain_end(b, sb, r, err);
    memcpy(sb->net, n.fds, sizeof sb->net);
    memcpy(sb->net_named, n.fds + NETWORK_NAMED, sizeof sb->net_named);
    if (!(n.has & NETWORK_EVERY_PORT))
        log_note("no packet rules in the container: only well-known TCP ports lead to the network");
    return 0;
}

/*
 * What the engine limits is what the kernel says of the container's groups, not what was asked for. bawn-enter alone has the other end of the
 * socket: while that is open, its number is not another process's.
 */
static void see_limits(struct container_box *b, struct sandbox *sb, const struct engine_request *req, int sock) {
    struct pollfd gone = {.fd = sock, .events = POLLRDHUP};
    struct ucred who;
    socklen_t len = sizeof who;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid <= 0)
        return;
    cgroup_adopt(&sb->cgroup, who.pid, &req->plan->limits);
    b->first = (int)syscall(SYS_pidfd_open, who.pid, 0);
    if (poll(&gone, 1, 0) == 0)
        sb->pid = who.pid;
    else
        cgroup_done(&sb->cgroup);
    if (sb->pid < 0)
        closep(&b->first);
}

static int run_container(struct container_box *b, const struct engine_request *req, struct sandbox *sb, struct err *err) {
    CLEANUP(closep) int sock = -1;
    int r = b->by_bytes ? container_run_bytes(b, req, sb, err) : container_launch(b, -1, err);

    if (b->by_bytes)
        return r;
    r = r < 0 ? r : (sock = accept_enter(b, req->plan->ids.host_uid, err));
    if (r < 0)
        return r;
    container_folder_close(&b->folder);
    see_limits(b, sb, req, sock);
    r = hand_over(b, req, sb, sock, err);
    return r < 0 || !req->plan->network ? r : container_listeners(b, sb, err);
}

bool container_image_missing(const struct container_box *b) {
    const char *said = buf_str(&b->said);

    return strcasestr(said, "No such image") || strcasestr(said, "image not known") || strcasestr(said, "unable to find image");
}

/* Its policy lets no container connect to a socket of a user's process: the link is the container's own streams then. */
static bool is_selinux_on(void) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(16);

    return file_read("/sys/fs/selinux/enforce", 0, &text) >= 0 && buf_str(&text)[0] == '1';
}

/* Its socket is one of this machine, but its files are not: Docker Desktop, a tunnel. What it misses is here, and ours. */
static bool is_elsewhere(const struct container_box *b) {
    const char *said = buf_str(&b->said);

    if (b->remote || b->kind->bundle || !b->folder.path ||
        !(strcasestr(said, "does not exist") || strcasestr(said, "no such file or directory")))
        return false;
    if (strstr(said, b->init) || strstr(said, b->enter)) /* the engine looks at what is mounted in any order */
        return true;
    for (size_t i = 0; i < b->plan.n_mounts; i++)
        if (b->plan.mounts[i].ours && strstr(said, b->plan.mounts[i].from) && access(b->plan.mounts[i].from, F_OK) == 0)
            return true;
    return strstr(said, b->folder.path) != NULL;
}

/* where: of a machine that showed to be another one; NULL: not known yet. */
static int start_box(const struct container_kind *k, const struct engine_request *req, const char *where, struct sandbox *sb,
                     struct err *err) {
    struct container_box *b = calloc(1, sizeof *b);
    int r;

    if (!b)
        return err_oom(err);
    *b = (struct container_box){.kind = k,
                                .selinux = is_selinux_on(),
                                .own_kernel = k->by_bytes || container_flags_runsc(paths_getenv(environ, "SANDBOX_FLAGS")),
                                .cgroup = k->bundle ? &sb->cgroup : NULL,
                                .folder = CONTAINER_FOLDER_INIT,
                                .image_root = PRIVATE_DIR_INIT,
                                .plan = CONTAINER_PLAN_INIT,
                                .pid = -1,
                                .pidfd = -1,
                                .first = -1,
                                .messages = -1,
                                .limit_ms = req->settings->start_timeout_ms,
                                .said = BUF_INIT(SAID_MAX)};
    sb->own = b;
    b->by_bytes = b->own_kernel || b->selinux || str_eq(getenv("BAWN_TEST_LINK") ?: "", "bytes");
    b->remote = where != NULL;
    snprintf(b->where, sizeof b->where, "%s", where ? where : "");
    r = prepare(b, req, err);
    r = r < 0 ? r : run_container(b, req, sb, err);
    if (r < 0 && !b->remote && !req->settings->image && container_image_missing(b)) {
        buf_clear(&b->said);
        b->doubtful = false;
        closep(&b->messages);
        closep(&b->pidfd);
        r = build_root(b, err);
        r = r < 0 ? r : run_container(b, req, sb, err);
    }
    return r;
}

int container_start(const struct container_kind *k, const struct engine_request *req, struct sandbox *sb, struct err *err) {
    int r = start_box(k, req, NULL, sb, err);

    if (r == 0 || !sb->own || !is_elsewhere(sb->own))
        return r;
    container_finish(sb);
    *err = (struct err){0};
    return start_box(k, req, "behind a socket of this one", sb, err);
}

static void report_early_end(const struct container_box *b) {
    struct err err = {0};

    if (b->said.len)
        container_trouble(b->kind, buf_str(&b->said), -EIO, &err);
    else
        err_set(&err, -EIO, "engine %s ended the container", b->kind->name);
    log_err(&err);
}

/* The end of the first process is that of all others inside; the engine clears the rest away meanwhile. */
static bool has_first_ended(const struct container_box *b) {
    struct pollfd p = {.fd = b->first, .events = POLLIN};

    return b->first >= 0 && poll(&p, 1, END_WAIT_MS) > 0;
}

/* What the engine does not see to its end is removed by its label. */
static void await_end(struct container_box *b) {
    if (b->pid > 0 && !container_ended(b, END_WAIT_MS))
        container_kill(b);
    if (b->doubtful && container_remove(b, b->folder.owner) != 0) {
        b->folder.stays = true;
        log_line("engine %s does not answer: the next run with it removes what is left of the container", b->kind->name);
    }
    b->doubtful = false;
}

/* bawn-init ends when its socket is closed. */
void container_stop(struct sandbox *sb) {
    struct container_box *b = sb->own;

    cgroup_remember(&sb->cgroup); /* it goes with the container */
    closep(&sb->control);
    link_stop(sb); /* all that came was passed on; its end is that of the container's standard input */
    sb->pid = -1;
    if (!b)
        return;
    closep(&b->folder.listener);
    if (sb->silent || !has_first_ended(b))
        await_end(b);
    if (TAKE(sb->silent, false))
        report_early_end(b);
}

/* A killed run's container may have been made after we looked for it the first time. */
static void sweep_stale(struct container_box *b) {
    if (b->folder.dead.len && container_remove(b, NULL) == 0)
        container_folder_sweep(&b->folder);
}

/* Meanwhile the engine removes the container, which takes longer than all that is to be done here. */
void container_collect(struct sandbox *sb) {
    struct container_box *b = sb->own;

    container_stop(sb);
    sandbox_close_listeners(sb);
    cgroup_done(&sb->cgroup);
    if (b && b->remote) {
        await_end(b);
        container_far_collect(b);
        container_far_remove(b);
    } else if (b && !b->kind->bundle) {
        container_folder_empty(&b->folder);
    }
}

void container_finish(struct sandbox *sb) {
    struct container_box *b = sb->own;

    container_collect(sb);
    if (b)
        await_end(b);
    if (b)
        sweep_stale(b);
    if (b && b->run_plan)
        container_take_back(&b->folder, b->run_plan, &b->plan);
    box_free(sb->own);
    sb->own = NULL;
}
