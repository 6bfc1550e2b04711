/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-enter: the first program of a container, which becomes bawn-init. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/enter.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/sock.h"
#include "proto/entermsg.h"
#include "proto/initmsg.h"

/* To the engine's log, where the supervisor looks while there is no socket; else over that. */
static NORETURN void fail(const struct enter *e, const struct err *err) {
    struct init_msg msg = {.type = INIT_MSG_FAILED, .value = -err->code};

    if (e->fds[ENTER_FD_CONTROL] >= 0) {
        snprintf(msg.text, sizeof msg.text, "%.*s", (int)sizeof msg.text - 1, err->msg);
        sock_send(e->fds[ENTER_FD_CONTROL], &msg, sizeof msg, NULL, 0);
    } else {
        dprintf(STDERR_FILENO, "bawn-enter: %s\n", err->msg);
    }
    _exit(EXIT_SANDBOX);
}

static int make_list(const struct enter *e, struct err *err) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(ENTER_LIST_MAX);
    int r = file_read_fd(e->list, 0, &list);

    return r < 0 ? err_sys(err, r, "read what is to be made inside") : enter_make(buf_str(&list), list.len, err);
}

/* The folder that bawn-init is in is the supervisor's, read-only. */
static int open_list(struct enter *e, struct err *err) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%.*s" ENTER_LIST_NAME, (int)(strrchr(e->init, '/') - e->init), e->init);
    e->list = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return e->list < 0 ? err_sys(err, -errno, "open '%s'", path) : 0;
}

static NORETURN void enter_linked(struct enter *e, struct err *err) {
    if (open_list(e, err) == 0 && make_list(e, err) == 0)
        enter_exec_linked(e, err);
    fail(e, err);
}

int main(int argc, char **argv) {
    struct enter e = {.listeners = LISTENERS_INIT, .fds = {-1, -1, -1, -1, -1, -1}, .list = -1};
    struct err err = {0};

    if (enter_parse(argc, argv, &e, &err) < 0 || (e.network && network_make(NETWORK_EVERYTHING, &e.listeners, &err) < 0) ||
        (e.mapped && enter_map(&e, &err) < 0) || enter_give(&e, &err) < 0 || enter_become(&e, &err) < 0)
        fail(&e, &err);
    if (enter_by_bytes(&e))
        enter_linked(&e, &err);
    if (enter_receive(&e, &err) < 0 || (e.network && network_send(e.fds[ENTER_FD_CONTROL], &e.listeners, &err) < 0) ||
        make_list(&e, &err) < 0)
        fail(&e, &err);
    enter_exec(&e, &err);
    e.fds[ENTER_FD_CONTROL] = ENTER_FD_CONTROL;
    fail(&e, &err);
}
