/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-scope UNIT PID: asks systemd (the user's manager; for root the system's) for a transient scope with Delegate=yes
 * around process PID, and ends when it exists. On failure one line on standard output says why.
 *
 * A program of its own because libsystemd is large and must not be on the path of every start: it is run only where
 * groups cannot be made directly. The caller trusts nothing that it says: it looks where the kernel has put it.
 */
#include <errno.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"

static const char manager_name[] = "org.freedesktop.systemd1";
static const char manager_path[] = "/org/freedesktop/systemd1";
static const char manager_interface[] = "org.freedesktop.systemd1.Manager";

enum {
    PID_MAX_EVER = 1 << 22,
    WAIT_SECONDS = 10, /* for the job; a manager that is busy for longer would keep the user waiting for nothing */
};

struct scope_job {
    const char *path;
    bool removed;
    char result[32];
};

static int on_job_removed(sd_bus_message *m, void *data, sd_bus_error *e UNUSED) {
    const char *path, *unit, *result;
    struct scope_job *job = data;
    uint32_t id;
    int r = sd_bus_message_read(m, "uoss", &id, &path, &unit, &result);

    if (r < 0)
        return r;
    if (str_eq(path, job->path)) {
        snprintf(job->result, sizeof job->result, "%s", result);
        job->removed = true;
    }
    return 0;
}

static int scope_request(sd_bus *bus, const char *unit, uint32_t pid, sd_bus_message **ret) {
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *m = NULL;
    int r = sd_bus_message_new_method_call(bus, &m, manager_name, manager_path, manager_interface, "StartTransientUnit");

    if (r < 0)
        return r;
    /* CollectMode: a scope that failed would stay in the manager's list until reset by hand. */
    r = sd_bus_message_append(m, "ssa(sv)a(sa(sv))", unit, "fail", 4, "Description", "s", "Bawn sandbox", "Delegate", "b", 1,
                              "CollectMode", "s", "inactive-or-failed", "PIDs", "au", 1, pid, 0);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(m);
    return 0;
}

/* Signals that came in while the call waited for its answer are queued by sd-bus, and handed out here. */
static int job_wait(sd_bus *bus, struct scope_job *job, struct err *err) {
    time_t end = time(NULL) + WAIT_SECONDS;

    while (!job->removed) {
        int r = sd_bus_process(bus, NULL);

        if (r == 0)
            r = sd_bus_wait(bus, 200 * 1000);
        if (r < 0 && r != -EINTR)
            return err_sys(err, r, "wait for systemd");
        if (time(NULL) > end)
            return err_set(err, -ETIMEDOUT, "systemd did not answer within %d s", WAIT_SECONDS);
    }
    if (!str_eq(job->result, "done"))
        return err_set(err, -EIO, "the job ended with '%s'", job->result);
    return 0;
}

static int scope_start(sd_bus *bus, const char *unit, uint32_t pid, struct err *err) {
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *request = NULL;
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    CLEANUP(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    struct scope_job job = {0};
    int r = sd_bus_match_signal(bus, NULL, manager_name, manager_path, manager_interface, "JobRemoved", on_job_removed, &job);

    if (r < 0)
        return err_sys(err, r, "listen to systemd");
    r = scope_request(bus, unit, pid, &request);
    if (r < 0)
        return err_sys(err, r, "compose the request");
    r = sd_bus_call(bus, request, 0, &e, &reply);
    if (r < 0)
        return err_set(err, r, "%s", e.message ? e.message : strerror(-r));
    r = sd_bus_message_read(reply, "o", &job.path);
    if (r < 0)
        return err_sys(err, r, "read systemd's answer");
    return job_wait(bus, &job, err);
}

static int run_scope(int argc, char **argv, struct err *err) {
    CLEANUP(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
    uint64_t pid;
    int r;

    if (argc != 3)
        return err_usage(err, "usage: bawn-scope UNIT PID");
    r = parse_u64(argv[2], 1, PID_MAX_EVER, &pid, err);
    if (r < 0)
        return r;
    r = geteuid() == 0 ? sd_bus_open_system(&bus) : sd_bus_open_user(&bus);
    if (r < 0)
        return err_sys(err, r, "connect to the bus");
    return scope_start(bus, argv[1], (uint32_t)pid, err);
}

int main(int argc, char **argv) {
    struct err err;

    if (run_scope(argc, argv, &err) >= 0)
        return 0;
    printf("%s\n", err.msg);
    return err_exit_status(&err);
}
