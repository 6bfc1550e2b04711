/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the keeper of a sandbox. */
#include "ops/sandbox/sandbox_jobs.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/control/control_client.h"

/* The other side is our own program, but its words may come from a sandbox: they are escaped. */
int sandbox_call(const char *socket, const char *request, json_t **ret, struct err *err) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX), shown = BUF_INIT(sizeof err->msg);
    const char *error;
    json_t *v;
    int r = control_call(socket, request, &answer, err);

    if (r < 0)
        return r;
    v = json_loadb(buf_str(&answer), answer.len, JSON_REJECT_DUPLICATES, NULL);
    error = json_string_value(json_object_get(v, "error"));
    if (json_is_object(v) && !error) {
        if (ret)
            *ret = json_incref(v);
        json_decref(v);
        return 0;
    }
    buf_add_printable(&shown, error ? error : "no JSON object");
    json_decref(v);
    return err_set(err, -EPROTO, "the sandbox's supervisor says: %s", buf_str(&shown));
}

int sandbox_request(const struct box *b, const char *request, json_t **ret, struct err *err) {
    CLEANUP(freep) char *socket = NULL;
    int r = sandbox_control(b, &socket, err);

    return r < 0 ? r : sandbox_call(socket, request, ret, err);
}

int sandbox_ask(const struct box *b, const char *cmd, json_t **ret, struct err *err) {
    char request[64];

    snprintf(request, sizeof request, "{\"cmd\": \"%s\"}", cmd);
    return sandbox_request(b, request, ret, err);
}

int sandbox_jobs(const struct box *b, json_t **ret, struct err *err) {
    CLEANUP(json_decrefp) json_t *answer = NULL;
    json_t *jobs;
    int r = sandbox_ask(b, "jobs", &answer, err);

    if (r < 0)
        return r;
    jobs = json_object_get(answer, "jobs");
    if (!json_is_array(jobs))
        return err_set(err, -EPROTO, "the supervisor of sandbox '%s' does not list its jobs", b->name);
    *ret = json_incref(jobs);
    return 0;
}

bool sandbox_job_runs(const json_t *job) {
    const json_t *ended = json_object_get(job, "ended");

    return !ended || json_is_null(ended);
}

size_t sandbox_jobs_running(const json_t *jobs) {
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(jobs); i++)
        n += sandbox_job_runs(json_array_get(jobs, i));
    return n;
}

const json_t *sandbox_job_find(const json_t *jobs, int number) {
    const json_t *best = NULL;

    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);

        if (number && json_integer_value(json_object_get(job, "job")) == number)
            return job;
        if (number || !json_is_true(json_object_get(job, "background")))
            continue;
        if (!best || sandbox_job_runs(job) || !sandbox_job_runs(best))
            best = job;
    }
    return best;
}
