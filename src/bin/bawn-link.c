/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-link: the near end of a link to a sandbox with whom we share no kernel (link/near.h). It locks itself in before it reads the first byte of
 * the far end. Exit status: 0 when the sandbox or the supervisor is gone, 125 if the link failed; the supervisor hears why.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "link/near.h"
#include "os/fd.h"
#include "os/sock.h"

static struct near near; /* large */

static bool is_socket(int fd) {
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int read_arguments(char **argv, struct err *err) {
    for (; *argv; argv++) {
        uint64_t i;

        if (str_eq(*argv, "--network")) {
            near.start.flags |= LINK_START_NETWORK;
            continue;
        }
        if (!str_eq(*argv, "--show") || !argv[1] || !argv[2] || parse_u64(argv[1], 0, LINK_PLACES_SHOWN - 1, &i, err) < 0 ||
            argv[2][0] != '/' || strlen(argv[2]) >= LINK_PATH_MAX)
            return err_usage(err, "bawn-link is started by bawn");
        snprintf(near.start.shown[i], LINK_PATH_MAX, "%s", argv[2]);
        argv += 2;
    }
    return 0;
}

/* A null device stands for a stream that is not there, or that the terminal inside replaces. */
static int find_born(struct err *err) {
    for (int i = 0; i < LINK_PLACES; i++)
        near.place[i] = -1;
    near.control = is_socket(NEAR_FD_CONTROL) ? NEAR_FD_CONTROL : -1;
    near.start_fd = NEAR_FD_START;
    near.maker = -1;
    for (int i = 0; i < 3; i++)
        near.stdio[i] = i;
    for (int i = 0; i < LINK_PLACES_SHOWN; i++)
        if (is_socket(NEAR_FD_SHOWN + i))
            near.place[LINK_PLACES_NETWORK + i] = NEAR_FD_SHOWN + i;
    if (near.control < 0)
        return err_usage(err, "bawn-link is started by bawn");
    for (int i = NEAR_FD_SHOWN; i < NEAR_FDS; i++)
        if (is_socket(i) && fcntl(i, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
            return err_sys(err, -errno, "set up the link");
    return fd_close_from(NEAR_FDS);
}

/* Its flags are the first thing behind the magic (spec/init-protocol.md). */
static bool may_have_terminals(void) {
    uint32_t flags = 0;

    return pread(near.start_fd, &flags, sizeof flags, 8) == sizeof flags && flags & (INIT_FLAG_TTY | INIT_FLAG_RESIDENT);
}

static int serve(char **argv, struct err *err) {
    int r = find_born(err);

    r = r < 0 ? r : read_arguments(argv, err);
    if (r < 0)
        return r;
    signal(SIGPIPE, SIG_IGN);
    r = near_init(&near, NEAR_FD_IN, NEAR_FD_OUT, err);
    if (r == 0 && may_have_terminals())
        r = near_maker_start(&near, err);
    r = r < 0 ? r : near_lock(err);
    if (r < 0) {
        struct init_msg msg = {.type = INIT_MSG_FAILED, .value = -r};

        snprintf(msg.text, sizeof msg.text, "%.*s", (int)sizeof msg.text - 1, err->msg);
        sock_send(near.control, &msg, sizeof msg, NULL, 0);
        return r;
    }
    return near_run(&near);
}

int main(int argc, char **argv) {
    struct err err = {0};

    _exit(serve(argc > 0 ? argv + 1 : argv, &err) < 0 ? EXIT_SANDBOX : 0);
}
