/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/clock.h"
#include "supervisor/clone/clone_priv.h"
#include "supervisor/control/control_client.h"

enum { FROZEN_MS = 55000 }; /* the keeper thaws by itself after 60 seconds, and at once if we are killed */

static int ask(const char *control, const char *request, struct err *err) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    int r = control_call(control, request, &answer, err);
    const char *text;
    json_t *o;

    if (r < 0)
        return r;
    o = json_loadb(buf_str(&answer), answer.len, 0, NULL);
    text = json_string_value(json_object_get(o, "error"));
    if (!o || text)
        r = err_set(err, -EIO, "the sandbox cannot be frozen: %.300s", text ? text : "its supervisor gave no answer");
    json_decref(o);
    return r;
}

int frozen_begin(struct frozen *f, const char *control, struct err *err) {
    char request[64];
    int r;

    if (!control)
        return 0;
    snprintf(request, sizeof request, "{\"cmd\":\"freeze\",\"pid\":%d}", (int)getpid());
    r = ask(control, request, err);
    if (r < 0)
        return r;
    f->control = control;
    f->since_ms = clock_ms();
    return 0;
}

int frozen_check(const struct frozen *f, struct err *err) {
    if (!f->control || clock_ms() - f->since_ms < FROZEN_MS)
        return 0;
    return err_set(
        err, -ETIME,
        "copying takes longer than a sandbox may be frozen (a minute); stop it first, then it may take as long as it takes");
}

void frozen_end(struct frozen *f) {
    struct err ignored = {0};

    if (f->control)
        ask(f->control, "{\"cmd\":\"thaw\"}", &ignored);
    f->control = NULL;
}
