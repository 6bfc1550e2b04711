/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine for tests: starts nothing of the user's. A child of ours plays bawn-init on the control socket and says what
 * BAWN_FAKE asks for: "exit:N", "signal:N" or "fail:TEXT". BAWN_FAKE_KEEPS limits what it claims to keep.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    const char *keeps = getenv("BAWN_FAKE_KEEPS");
    uint64_t set = ENFORCES_EVERYTHING;

    if (max == 0)
        return 0;
    if (keeps && parse_u64(keeps, 0, ENFORCES_EVERYTHING, &set, NULL) < 0)
        set = 0;
    *ret = (struct engine_state){.available = true, .keeps = (unsigned)set};
    ret_names[0] = "fake";
    return 1;
}

static struct init_msg answer(const char *what) {
    struct init_msg msg = {.type = INIT_MSG_EXITED};
    uint64_t n = 0;

    if (str_starts(what, "exit:") && parse_u64(what + 5, 0, 255, &n, NULL) == 0)
        msg.value = (int)(n << 8);
    else if (str_starts(what, "signal:") && parse_u64(what + 7, 1, 64, &n, NULL) == 0)
        msg.value = (int)n;
    else
        msg = (struct init_msg){.type = INIT_MSG_FAILED, .value = EIO};
    if (str_starts(what, "fail:"))
        snprintf(msg.text, sizeof msg.text, "%s", what + 5);
    return msg;
}

static int fake_start(const struct engine_request *req UNUSED, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    const char *what = getenv("BAWN_FAKE");
    struct init_msg msg = answer(what ? what : "exit:0");
    int pair[2], r = sock_pair(pair);

    *ret_next = RUNG_FULL;
    if (r < 0)
        return err_sys(err, r, "control socket");
    sb->pid = fork();
    if (sb->pid < 0)
        return err_sys(err, -errno, "fork");
    if (sb->pid == 0) {
        sock_send(pair[1], &msg, sizeof msg, NULL, 0);
        _exit(0);
    }
    close(pair[1]);
    sb->control = pair[0];
    return 0;
}

static void fake_stop(struct sandbox *sb) {
    closep(&sb->control);
    if (sb->pid > 0)
        waitpid(sb->pid, NULL, 0);
    sb->pid = -1;
}

const struct engine_ops engine_fake = {
    .name = "fake",
    .summary = "for tests: runs nothing",
    .can_keep = ENFORCES_EVERYTHING,
    .for_tests = true,
    .modes = (1 << WORKSPACE_MODES) - 1,
    .probe = probe,
    .start = fake_start,
    .stop = fake_stop,
    .finish = fake_stop,
};
