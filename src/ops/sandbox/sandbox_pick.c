/* SPDX-License-Identifier: Apache-2.0 */
/* Finds persistent sandboxes, and asks their keepers to stop. */
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "registry/running.h"
#include "supervisor/control/control_client.h"
#include "supervisor/keep/exec_client.h"
#include "supervisor/session/box_run.h"

enum { MOMENT_MS = 10, SOON_MS = 5000 };

void sandbox_pick_done(struct sandbox_pick *p) {
    free(p->boxes);
    box_done(&p->box);
    *p = (struct sandbox_pick)SANDBOX_PICK_INIT;
}

int sandbox_boxes(char **ret, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    char *boxes = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : registry_folder(environ, home, &boxes, err);
    if (r < 0)
        return r;
    if (!boxes)
        return err_set(err, -ENOENT, "there is no home folder, and so no persistent sandbox; set HOME or XDG_STATE_HOME");
    *ret = boxes;
    return 0;
}

static bool is_id(const char *name) {
    size_t len = strlen(name);

    return len > BOX_NAME_MAX && len <= BOX_ID_MAX && str_starts(name, "bawn-") &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

int sandbox_name(const char *name, const char *directory, char ret[static BOX_ID_MAX + 1], struct err *err) {
    CLEANUP(freep) char *workspace = NULL;
    char own[BOX_NAME_MAX + 1];
    int r;

    if (name) {
        r = is_id(name) ? 0 : box_check_name(name, err);
    } else {
        r = paths_workspace(directory, &workspace, err);
        if (r == 0)
            box_name_for(workspace, own);
    }
    if (r == 0)
        snprintf(ret, BOX_ID_MAX + 1, "%s", name ? name : own);
    return r;
}

/* The name of the project's own was not typed: the message has the workspace. */
static int no_own(const struct sandbox_pick_opts *o, const char *name, struct err *err) {
    CLEANUP(freep) char *workspace = NULL;
    int r = paths_workspace(o->directory, &workspace, err);

    return r < 0 ? r
                 : err_set(err, -ENOENT, "%.300s has no sandbox of its own ('%s'): 'bawn start' makes it; see 'bawn ps -a'",
                           workspace, name);
}

static void settle_rename(const struct box *b) {
    CLEANUP(freep) char *home = NULL;

    if (paths_home(environ, &home, NULL) == 0)
        box_rename_settle(environ, home, b);
}

int sandbox_pick(const struct sandbox_pick_opts *o, struct sandbox_pick *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    char name[BOX_ID_MAX + 1];
    struct err run = {0};
    int r = sandbox_name(o->name, o->directory, name, err), refused;

    r = r < 0 ? r : sandbox_boxes(&p.boxes, err);
    r = r < 0 ? r : registry_open(p.boxes, name, o->need == SANDBOX_STOPPED, &p.box, err);
    if (r == -ENOENT && !o->name)
        return no_own(o, name, err);
    if (r == -ENOENT && (refused = running_refuse(environ, name, &run)) < 0) {
        *err = run;
        return refused;
    }
    if (r == 0 && o->need == SANDBOX_RUNNING && !p.box.alive)
        r = exec_not_running(&p.box, err);
    if (r == 0 && o->need == SANDBOX_STOPPED)
        settle_rename(&p.box);
    if (r < 0)
        return r;
    *ret = TAKE(p, (struct sandbox_pick)SANDBOX_PICK_INIT);
    return 0;
}

/* -- its keeper ---------------------------------------------------------------------------------------------------------- */

int sandbox_control(const struct box *b, char **ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    int r = paths_runtime(environ, &folder, err);

    if (r < 0)
        return r;
    if (!folder || b->state.pid <= 0 || process_is_dead(b->state.pid, b->state.start_time)) /* another's number is not its own */
        return exec_not_running(b, err);
    *ret = str_dupf("%s/%d.sock", folder, (int)b->state.pid);
    return *ret ? 0 : err_oom(err);
}

static int ask_stop(const struct box *b, unsigned seconds, struct err *err) {
    char request[64];

    snprintf(request, sizeof request, "{\"cmd\": \"stop\", \"seconds\": %u}", seconds);
    return sandbox_request(b, request, NULL, err);
}

static int look_again(struct box *b, struct err *err) {
    CLEANUP(freep) char *boxes = strndup(b->path, (size_t)(strrchr(b->path, '/') - b->path));
    struct box now = BOX_INIT;
    int r = boxes ? registry_open(boxes, b->info.id, false, &now, err) : err_oom(err);

    if (r < 0)
        return r == -ENOENT ? -ESRCH : r;
    box_done(b);
    *b = now;
    return b->alive ? 0 : -ESRCH;
}

/* While it starts or ends it has no socket, and while it is copied it is locked. All of that is soon over. */
static bool is_soon_over(int r) {
    return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET || r == -EPIPE || r == -EAGAIN;
}

int sandbox_ask_stop(struct box *b, unsigned seconds, struct err *err) {
    const struct timespec moment = {.tv_nsec = MOMENT_MS * 1000000L};
    uint64_t end = clock_ms() + SOON_MS;
    struct err why = {0};
    int r = ask_stop(b, seconds, &why);

    while (is_soon_over(r) && clock_ms() < end) {
        nanosleep(&moment, NULL);
        r = look_again(b, err);
        if (r < 0)
            return r;
        r = ask_stop(b, seconds, &why);
    }
    return r < 0 ? exec_not_running(b, err) : 0;
}

/* By pidfd: once it is open and the start time was right, no other process is meant. */
int sandbox_wait_end(const struct box *b, int timeout_ms) {
    CLEANUP(closep) int fd = b->state.pid > 0 ? (int)syscall(SYS_pidfd_open, b->state.pid, 0) : -1;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;

    if (fd < 0 || process_start_time(b->state.pid) != b->state.start_time)
        return -ESRCH;
    do
        r = poll(&p, 1, timeout_ms);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}
