/* SPDX-License-Identifier: Apache-2.0 */
/* What only the dashboard asks for: links, sessions, what sandboxes use now, and the verdicts of the network. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "os/clock.h"
#include "service/core/core_session.h"
#include "service/core/core_worker.h"

enum { SMALL = 4096, VERDICTS_USUAL = 100 };

static void add_time(struct jsonout *j, const char *key, uint64_t ns) {
    char text[CLOCK_TEXT_SIZE];

    jsonout_text(j, key, clock_text(ns, CLOCK_ISO_MS, text));
}

/* The code is behind a "#": browsers send that to no server, and no log has it. */
void op_link_create(struct core *c, struct api_call *call) {
    struct buf b = BUF_INIT(SMALL);
    struct jsonout j = {.to = &b, .compact = true};
    char code[TOKEN_SIZE], address[256], url[512];
    uint64_t expires;
    int r;

    if (!session_address(c, address, sizeof address)) {
        call_fail(call, API_PROBLEM_CONFLICT,
                  "the service has no address for browsers: put \"listen\": [\"127.0.0.1:7070\"] into its configuration");
        return;
    }
    r = session_link(c, call, code, &expires);
    if (r < 0) {
        call_fail(call, r == -EBUSY ? API_PROBLEM_TOO_MANY : API_PROBLEM_INTERNAL, "no more links can be made now");
        return;
    }
    snprintf(url, sizeof url, "%s/#login=%s", address, code);
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "url", url);
    add_time(&j, "expires", expires);
    jsonout_close(&j, '}');
    explicit_bzero(code, sizeof code);
    explicit_bzero(url, sizeof url);
    core_log(c, "info", "link", call_text(call, API_FIELD_REQUEST_ID), "a link for the dashboard of '%s'",
             call->tenant->row.name);
    call_json(call, 201, &b);
}

/* "COOKIE NUL JSON": the front makes a header of the first (spec/api-protocol.md). */
void op_session_create(struct core *c, struct api_call *call) {
    struct buf b = BUF_INIT(SMALL);
    struct jsonout j = {.to = &b, .compact = true};
    char cookie[TOKEN_SIZE], csrf[TOKEN_SIZE];
    struct core_pass s = {0};
    size_t len = 0;
    const char *code = api_field_bytes(&call->fields, API_FIELD_CODE, 0, &len);
    int r = session_open(c, code, len, cookie, csrf, &s);

    if (r <= 0) {
        c->counts.unauthorized += r == 0;
        call_fail(call,
                  r == 0        ? API_PROBLEM_UNAUTHORIZED
                  : r == -EBUSY ? API_PROBLEM_TOO_MANY
                                : API_PROBLEM_INTERNAL,
                  "%s", r == 0 ? "this link was used, or is too old: run 'bawn dashboard' again" : "no session can be made now");
        return;
    }
    buf_add(&b, cookie, TOKEN_SIZE);
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "csrf", csrf);
    jsonout_text(&j, "tenant", s.tenant);
    jsonout_bool(&j, "admin", s.admin);
    add_time(&j, "expires", s.expires_ns);
    jsonout_close(&j, '}');
    explicit_bzero(cookie, sizeof cookie);
    explicit_bzero(csrf, sizeof csrf);
    core_log(c, "info", "login", call_text(call, API_FIELD_REQUEST_ID), "a session of the dashboard of '%s'", s.tenant);
    call_json(call, 201, &b);
}

void op_session_end(struct core *c, struct api_call *call) {
    session_sign_out(c, call);
    call_nothing(call);
}

/* -- what is going on --------------------------------------------------------------------------------------------------------- */

static int plan_add(struct worker_plan *p, const char *const *words) {
    int r = 0;

    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(&p->argv, words[i]);
    return r;
}

static void plan_answer(struct core *c, struct api_call *call, struct worker_plan *p, int r, const char *before,
                        const char *behind) {
    if (r >= 0) {
        worker_answer(c, call, NULL, p, API_FLAG_JSON, before, behind);
        return;
    }
    strv_done(&p->argv);
    call_fail(call, API_PROBLEM_INTERNAL, "no memory");
}

void op_usage(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;
    int r = plan_add(&p, (const char *const[]){"bawn", "top", "--json", NULL});

    plan_answer(c, call, &p, r, "{\"items\":", "}");
}

void op_verdicts(struct core *c, struct api_call *call) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = WORKER_PLAN_INIT;
    char limit[24], lines[32];
    int r = program ? 0 : -ENOMEM;

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)api_field_number(&call->fields, API_FIELD_LIMIT, VERDICTS_USUAL));
    snprintf(lines, sizeof lines, "--lines=%s", limit);
    p.program = program;
    r = r < 0 ? r
              : plan_add(&p, (const char *const[]){"bawn-task", "--items", "lines", limit, c->conf.bawn, "policy", "log",
                                                   "--json", lines, NULL});
    plan_answer(c, call, &p, r, NULL, NULL);
}
