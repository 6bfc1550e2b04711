/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the supervisor to ask, and looks for the answer until there is one. */
#include "ops/policy/access_ask.h"

#include <errno.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/control/control_client.h"

const char *const access_kinds[ACCESS_KINDS] = {
    [ACCESS_NETWORK] = "network", [ACCESS_PATH] = "path", [ACCESS_PACKAGE] = "package"};

enum { LOOK_AGAIN_NS = 200 * 1000 * 1000 };

/* The supervisor serves few clients at once, and the oldest gives way: then it is asked again. One that has ended refuses connections. */
static int access_call(const char *socket, const char *request, json_t **ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS / 4};
    int r;

    while ((r = sandbox_call(socket, request, ret, err)) == -ECONNRESET || r == -EPIPE) {
        *err = (struct err){0};
        nanosleep(&pause, NULL);
    }
    return r;
}

static int access_begin(const char *socket, const struct access_wish *q, int64_t *ret_number, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CONTROL_LINE_MAX);
    CLEANUP(json_decrefp) json_t *answer = NULL;
    int r;

    buf_addf(&b, "{\"cmd\":\"request\",\"kind\":\"%s\",\"value\":", access_kinds[q->kind]);
    buf_add_json(&b, q->value);
    buf_adds(&b, ",\"reason\":");
    buf_add_json(&b, q->reason);
    buf_addc(&b, '}');
    if (!buf_ok(&b))
        return err_usage(err, "value and reason are too long");
    r = access_call(socket, buf_str(&b), &answer, err);
    if (r == 0)
        *ret_number = json_get_int(answer, "request", 0);
    return r;
}

/* 1: there is no answer yet. */
static int access_look(const char *socket, int64_t number, struct access_answer *ret, struct err *err) {
    CLEANUP(json_decrefp) json_t *answer = NULL;
    char text[80];
    int r;

    snprintf(text, sizeof text, "{\"cmd\":\"requested\",\"request\":%lld}", (long long)number);
    r = access_call(socket, text, &answer, err);
    if (r < 0)
        return r;
    if (json_get_bool(answer, "waiting"))
        return 1;
    snprintf(ret->how, sizeof ret->how, "%s", json_get_text(answer, "answer"));
    snprintf(ret->reason, sizeof ret->reason, "%s", json_get_text(answer, "reason"));
    snprintf(ret->note, sizeof ret->note, "%s", json_get_text(answer, "note"));
    ret->granted = str_eq(ret->how, "once") || str_eq(ret->how, "session") || str_eq(ret->how, "always");
    return 0;
}

int access_ask(const struct access_wish *q, struct access_answer *ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(freep) char *socket = NULL;
    int64_t number = 0;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = q->sandbox, .need = SANDBOX_RUNNING}, &p, err);

    r = r < 0 ? r : sandbox_control(&p.box, &socket, err);
    r = r < 0 ? r : access_begin(socket, q, &number, err);
    while (r == 0 && (r = access_look(socket, number, ret, err)) == 1) {
        nanosleep(&pause, NULL);
        r = 0;
    }
    return r;
}
