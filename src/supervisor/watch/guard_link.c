/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's end of the guard: messages, the journal, and the answers. */
#include "supervisor/watch/guard_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "os/sock.h"
#include "proto/guardmsg.h"
#include "supervisor/watch/ignored_folders.h"
#include "supervisor/watch/latecomers.h"
#include "workspace/copy/place.h"
#include "workspace/run/spool.h"

enum { BATCH = 256 };

/* A message and what came with it. */
struct incoming {
    struct guard_msg head;
    char path[GUARD_PATH_MAX + 1];
    int fd; /* -1: none */
};

int guard_init(struct guard_link *g, int sock, int workspace, guard_begin_fn *begin, void *arg, struct err *err) {
    int flags = fcntl(sock, F_GETFL);

    *g = (struct guard_link){.sock = sock, .workspace = workspace, .begin = begin, .arg = arg};
    if (flags >= 0 && fcntl(sock, F_SETFL, flags | O_NONBLOCK) == 0)
        return 0;
    flags = -errno;
    closep(&g->sock);
    return err_sys(err, flags, "the guard's socket");
}

void guard_done(struct guard_link *g) {
    closep(&g->sock);
    journal_close(TAKE_PTR(g->journal));
    ignored_folders_free(TAKE_PTR(g->ignored));
    strv_done(&g->refused);
    if (g->share)
        munmap(g->share, g->share_size);
    *g = (struct guard_link)GUARD_INIT;
}

/* Without its supervisor the guard refuses every change: that is what must happen when nothing can be recorded, or when
 * bawn-init breaks the protocol and so may have been taken over. */
static void hang_up(struct guard_link *g, const char *why) {
    if (!g->reported)
        log_line("%s: nothing in the workspace can be changed any more", why);
    g->reported = true;
    closep(&g->sock);
}

/* Whether the file that the host's side shows is the one that is about to change. */
static bool is_same_file(const struct guard_msg *m, const struct journal_entry *e) {
    return S_ISREG(m->mode) && m->dev == e->dev && m->ino == e->ino;
}

/* By the guard's word alone, because the file may be gone: only where that was allowed before. */
static int record_named(struct guard_link *g, const struct incoming *in, struct err *err) {
    const struct guard_msg *m = &in->head;
    const struct journal_entry e = {.kind = S_ISDIR(m->mode) ? JOURNAL_DIR : JOURNAL_FILE,
                                    .path = in->path,
                                    .mode = m->mode & 07777,
                                    .size = m->size,
                                    .mtime_ns = m->mtime_ns,
                                    .dev = m->dev,
                                    .ino = m->ino,
                                    .named = true};

    if (!g->ignored || !ignored_folders_found(g->ignored, in->path) || !(S_ISREG(m->mode) || S_ISDIR(m->mode)))
        return err_set(err, -EINVAL, "the guard did not wait");
    return journal_add(g->journal, &e, -1, false, -1, err);
}

/* The length of the folder in which nothing has to be stored; 0: it has to be. */
static size_t ignored_length(struct guard_link *g, const char *path) {
    if (!g->skip_ignored)
        return 0;
    if (!g->ignored)
        g->ignored = ignored_folders_new(g->workspace);
    return g->ignored ? ignored_folders_find(g->ignored, g->journal, path) : 0;
}

/* What the guard may have put away by itself: names that were new, names only where that was allowed before, and content, but for what is hidden: that it
 * cannot have read. 1: the content is stored. */
static int judge_spooled(void *arg, const struct spool_entry *e) {
    const struct guard_link *g = arg;

    if (e->head.named)
        return g->ignored && ignored_folders_found(g->ignored, e->path) ? 0 : -EINVAL;
    return S_ISREG(e->head.mode) && !(g->latecomers && latecomers_hides(g->latecomers, e->path));
}

static int take_spool(struct guard_link *g, size_t len, bool rewind, struct err *err) {
    return g->journal ? journal_spool_take(g->journal, len, rewind, judge_spooled, g, err) : 0;
}

static int begin_journal(struct guard_link *g, struct err *err) {
    if (!g->journal && !g->failed)
        g->failed = g->begin(g->arg, &g->journal, err);
    return g->failed;
}

/* Returns 0, or the length of the folder in which the guard need not wait any more. */
static int record(struct guard_link *g, const struct incoming *in, struct err *err) {
    struct journal_entry e = {.kind = JOURNAL_ABSENT, .path = in->path};
    CLEANUP(closep) int content = -1;
    size_t ignored;
    int r;

    if (!g->begin)
        return 0;
    r = begin_journal(g, err);
    r = r < 0 ? r : take_spool(g, in->head.spooled, false, err); /* what the guard said before */
    if (r < 0)
        return r;
    if (journal_find(g->journal, in->path))
        return 0;
    if (!in->head.wait && in->head.mode) {
        r = record_named(g, in, err);
        return MIN_OF(r, 0);
    }
    /* Who does not wait says that nothing was there; now there may be. */
    if (in->head.wait)
        r = journal_look(g->journal, g->workspace, in->path, &e, &content, err);
    if (r < 0)
        return r;
    ignored = e.kind == JOURNAL_FILE || e.kind == JOURNAL_DIR ? ignored_length(g, in->path) : 0;
    e.named = ignored > 0;
    if (content >= 0 && !is_same_file(&in->head, &e))
        closep(&content);
    r = journal_add(g->journal, &e, content, false, -1, err);
    return r < 0 ? r : (int)ignored;
}

/* What the caller of the system call gets to see. */
static int errno_for_caller(int r) {
    static const int plain[] = {-ENOSPC, -EDQUOT, -EROFS, -ENOMEM, -EINVAL, -EPERM};

    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        if (plain[i] == r)
            return r;
    return -EIO;
}

/* fd: goes with it; -1: none. */
static void send_go_with(struct guard_link *g, int value, size_t folder, int fd) {
    struct guard_msg go = {.type = GUARD_MSG_GO, .value = value, .folder_len = (uint32_t)folder};

    if (sock_send(g->sock, &go, sizeof go, &fd, fd >= 0) == -EAGAIN)
        hang_up(g, "the guard asks without reading the answers");
}

static void send_go(struct guard_link *g, int value) {
    send_go_with(g, value, 0, -1);
}

static void answer_guard(struct guard_link *g, int r) {
    send_go(g, r < 0 ? errno_for_caller(r) : 0);
}

static void report_once(struct guard_link *g, const struct err *err) {
    if (err->msg[0] && !g->reported) {
        log_line("a change was refused because the old content cannot be recorded: %s", err->msg);
        g->reported = true;
    }
}

/* Without a file for it, or when it was asked for before, the guard goes on with messages. */
static void on_spool(struct guard_link *g, const struct incoming *in) {
    CLEANUP(closep) int fd = -1;
    struct err err = {0};
    int r = g->begin ? begin_journal(g, &err) : 0;

    if (r == 0 && g->spools)
        r = take_spool(g, in->head.spooled, true, &err);
    else if (r == 0 && g->journal)
        fd = journal_spool_make(g->journal);
    g->spools |= fd >= 0;
    if (r < 0)
        report_once(g, &err);
    send_go_with(g, r < 0 ? errno_for_caller(r) : 0, 0, fd);
}

static void on_touch(struct guard_link *g, const struct incoming *in) {
    struct err err = {0};
    int r = journal_is_path(in->path, in->head.path_len) ? record(g, in, &err) : -EINVAL;

    if (r < 0)
        report_once(g, &err);
    if (!in->head.wait) {
        if (r < 0)
            hang_up(g, "a change could not be recorded"); /* it has happened, and there will not be another */
        return;
    }
    send_go_with(g, r < 0 ? errno_for_caller(r) : 0, (size_t)MAX_OF(r, 0), -1);
}

/* About hidden names (latecomers.h). If it fails the call fails; a file that cannot be covered ends the run soon after. */
static void on_names(struct guard_link *g, const struct incoming *in) {
    int r = journal_is_path(in->path, in->head.path_len) ? 0 : -EINVAL;

    if (in->head.type == GUARD_MSG_MADE) {
        if (r == 0 && g->latecomers)
            latecomers_made(g->latecomers, in->path, in->fd);
        return;
    }
    if (r == 0 && g->latecomers)
        r = in->head.type == GUARD_MSG_LOOK ? latecomers_look(g->latecomers, in->path, in->head.value != 0)
                                            : latecomers_making(g->latecomers, in->path);
    answer_guard(g, r);
}

static void on_refused(struct guard_link *g, const struct incoming *in) {
    static const char *const why[] = {
        [GUARD_WHY_PROTECTED] = "protected: the host would run or obey it; workspace.protect can allow it",
        [GUARD_WHY_HIDDEN] = "hidden by .sandboxignore",
        [GUARD_WHY_BARE_REPO] = "it would make the folder a git repository that the host's git obeys",
        [GUARD_WHY_SAVE] = "protected: programs on the host save a protected file by this name",
        [GUARD_WHY_BUSY] = "a program on the host is just writing it",
        [GUARD_WHY_GIT] = "git on the host would obey it"};
    size_t len = strlen(in->path);
    const char *detail = len < in->head.path_len ? in->path + len + 1 : NULL;
    CLEANUP(freep) char *line = NULL;

    if (in->head.value <= 0 || in->head.value >= (int)ARRAY_LEN(why))
        return;
    line = str_dupf("refused: write to '%s' (%s%s%s)", in->path, why[in->head.value], detail ? ": " : "", detail ? detail : "");
    if (line && strv_has(&g->refused, line))
        return;
    if (!line || g->refused.len >= GUARD_REFUSED_MAX || strv_add_take(&g->refused, TAKE_PTR(line)) < 0)
        g->more_refused++;
}

/* The memory is the sandbox's, so that its limits count it; sealed, so that it cannot be taken away under us. */
static void on_share(struct guard_link *g, const struct incoming *in) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    void *at;

    if (g->share || in->fd < 0 || (fcntl(in->fd, F_GET_SEALS) & seals) != seals || fstat(in->fd, &st) < 0 ||
        st.st_size <= (off_t)offsetof(struct guard_share, written) || st.st_size > (off_t)sizeof(struct guard_share)) {
        hang_up(g, "bawn-init sent memory that cannot be shared");
        return;
    }
    at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, in->fd, 0);
    if (at == MAP_FAILED) {
        hang_up(g, "memory cannot be shared with bawn-init");
        return;
    }
    g->share = at;
    g->share_size = (size_t)st.st_size;
    if (g->shared)
        g->shared(g->shared_arg);
    send_go(g, 0);
}

/* Does a program of the host have the file open for writing? If another file has the name by now, it does not matter any more. */
static void on_open(struct guard_link *g, const struct incoming *in) {
    CLEANUP(closep) int fd = -1;
    int r = -EINVAL;
    struct stat st;

    if (journal_is_path(in->path, in->head.path_len))
        fd = safepath_open(g->workspace, in->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == in->head.ino)
        r = place_writers(fd);
    if (r == 0 && g->arrived && g->arrived(g->shared_arg, in->path, &st))
        r = -EEXIST;
    send_go(g, r == 1 ? -EBUSY : r);
}

/* Returns 1 and a message whose lengths are right, 0 if none is waiting, or -errno. */
static int receive_message(struct guard_link *g, struct incoming *in) {
    char bytes[sizeof in->head + GUARD_PATH_MAX];
    size_t n_fds = 1;
    long n = sock_recv(g->sock, bytes, sizeof bytes, &in->fd, &n_fds);

    if (n_fds == 0)
        in->fd = -1;
    if (n == -EAGAIN)
        return 0;
    if (n == 0)
        return -EPIPE;
    if (n < (long)sizeof in->head)
        return n < 0 ? (int)n : -EBADMSG;
    memcpy(&in->head, bytes, sizeof in->head);
    if (in->head.path_len != (size_t)n - sizeof in->head)
        return -EBADMSG;
    memcpy(in->path, bytes + sizeof in->head, in->head.path_len);
    in->path[in->head.path_len] = 0;
    return 1;
}

static void incoming_done(struct incoming *in) {
    closep(&in->fd);
}

static void handle_message(struct guard_link *g, const struct incoming *in) {
    if (in->head.type == GUARD_MSG_TOUCH)
        on_touch(g, in);
    else if (in->head.type == GUARD_MSG_REFUSED)
        on_refused(g, in);
    else if (in->head.type == GUARD_MSG_SHARE)
        on_share(g, in);
    else if (in->head.type == GUARD_MSG_OPEN)
        on_open(g, in);
    else if (in->head.type == GUARD_MSG_SPOOL)
        on_spool(g, in);
    else if (in->head.type == GUARD_MSG_LOOK || in->head.type == GUARD_MSG_MAKING || in->head.type == GUARD_MSG_MADE)
        on_names(g, in);
    else
        hang_up(g, "bawn-init sent a message of no known kind");
}

enum handled { HANDLED_NONE, HANDLED_ONE, HANDLED_ANSWERED };

static enum handled handle_one(struct guard_link *g) {
    CLEANUP(incoming_done) struct incoming in = {.fd = -1};
    int r = receive_message(g, &in);

    if (r == 0)
        return HANDLED_NONE;
    if (r == -EPIPE || r == -ECONNRESET)
        closep(&g->sock);
    else if (r < 0)
        hang_up(g, "bawn-init sent something that is no message");
    else
        handle_message(g, &in);
    if (g->sock < 0)
        return HANDLED_NONE;
    return in.head.type == GUARD_MSG_TOUCH && in.head.wait ? HANDLED_ANSWERED : HANDLED_ONE;
}

/* A guard that waited for an answer has sent nothing since; what comes next wakes us. */
void guard_handle(struct guard_link *g) {
    for (int i = 0; g->sock >= 0 && i < BATCH && handle_one(g) == HANDLED_ONE; i++)
        ;
}

/* What is left in the spool if it cannot be taken over is found by who reads the journal. */
static void finish_spool(struct guard_link *g) {
    struct err err = {0};

    if (!g->journal || !g->spools)
        return;
    if (journal_spool_rest(g->journal, judge_spooled, g, &err) < 0)
        log_line("not all that this run changed can be recorded: %s", err.msg);
    else
        journal_spool_end(g->journal);
    g->spools = false;
}

void guard_finish(struct guard_link *g) {
    while (g->sock >= 0 && handle_one(g) != HANDLED_NONE)
        ;
    closep(&g->sock);
    finish_spool(g);
}

void guard_report(const struct guard_link *g) {
    size_t lost = g->journal ? journal_not_stored(g->journal) : 0, named = g->journal ? journal_named(g->journal) : 0;

    if (lost)
        log_note("%zu changed or deleted %s too large to be recorded: 'bawn rollback' cannot restore %s (workspace.rollback)",
                 lost, lost == 1 ? "file was" : "files were", lost == 1 ? "it" : "them");
    if (named)
        log_note(
            "%zu changed or deleted %s in folders that git ignores: 'bawn rollback' cannot restore %s (workspace.skip_ignored)",
            named, named == 1 ? "file is" : "files are", named == 1 ? "it" : "them");
    for (size_t i = 0; i < g->refused.len; i++)
        log_note("%s", g->refused.v[i]);
    if (g->more_refused)
        log_note("refused: %zu more", g->more_refused);
}
