/* SPDX-License-Identifier: Apache-2.0 */
/* Network rules and questions of a tenant, and lists: secrets, images, the audit log. All by `bawn`, as the tenant. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "service/core/core_worker.h"

enum { LIST_USUAL = 100 };

static int plan_words(struct worker_plan *p, const char *const *words) {
    int r = 0;

    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(&p->argv, words[i]);
    return r;
}

static void plan_failed(struct api_call *call, struct worker_plan *p) {
    strv_done(&p->argv);
    call_fail(call, API_PROBLEM_INTERNAL, "no memory");
}

/* -- lists -------------------------------------------------------------------------------------------------------------------- */

/* {"items": ...} of what `bawn WORDS...` prints. */
static void answer_items(struct core *c, struct api_call *call, const char *how, const char *const *words) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = WORKER_PLAN_INIT;
    char limit[24];

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)api_field_number(&call->fields, API_FIELD_LIMIT, LIST_USUAL));
    if (!program || plan_words(&p, (const char *const[]){"bawn-task", "--items", how, limit, c->conf.bawn, NULL}) < 0 ||
        plan_words(&p, words) < 0) {
        plan_failed(call, &p);
        return;
    }
    p.program = program;
    worker_answer(c, call, NULL, &p, API_FLAG_JSON, NULL, NULL);
}

void op_secrets(struct core *c, struct api_call *call) {
    answer_items(c, call, "secrets", (const char *const[]){"secret", "ls", "--json", NULL});
}

/* A tenant without a store of images has none. */
void op_images(struct core *c, struct api_call *call) {
    struct buf none = BUF_INIT(64);
    struct err err = {0};
    struct stat st;

    if (core_tenant_place(c, call->tenant, &err) == 0 &&
        fstatat(call->tenant->dir, "home/.local/state/bawn/images", &st, AT_SYMLINK_NOFOLLOW) == 0) {
        answer_items(c, call, "images", (const char *const[]){"image", "ls", "--json", NULL});
        return;
    }
    buf_adds(&none, "{\"items\":[]}");
    call_json(call, 200, &none);
}

void op_audit(struct core *c, struct api_call *call) {
    const char *since = call_text(call, API_FIELD_SINCE), *event = call_text(call, API_FIELD_EVENT),
               *box = call_text(call, API_FIELD_SANDBOX);
    const char *words[8] = {"log", "--json"};
    CLEANUP(freep) char *from = since ? str_dupf("--since=%s", since) : NULL;
    CLEANUP(freep) char *type = event ? str_dupf("--type=%s", event) : NULL;
    CLEANUP(freep) char *of = box ? str_dupf("--sandbox=%s", box) : NULL;
    size_t n = 2;

    if (from)
        words[n++] = from;
    if (type)
        words[n++] = type;
    if (of)
        words[n++] = of;
    answer_items(c, call, "lines", words);
}

/* -- rules and questions ------------------------------------------------------------------------------------------------------ */

static void rule_added(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    struct buf b = BUF_INIT(256);

    if (status || !call) {
        worker_nothing(c, w, call, status);
        return;
    }
    buf_addf(&b, "{\"id\":\"%s\"}", w->id);
    call_json(call, 201, &b);
}

static void run_bawn(struct core *c, struct api_call *call, const char *id, const char *const *words, worker_done *done) {
    struct worker_plan p = WORKER_PLAN_INIT;

    if (strv_add(&p.argv, "bawn") < 0 || plan_words(&p, words) < 0) {
        plan_failed(call, &p);
        return;
    }
    p.done = done;
    worker_start(c, call, id, &p);
}

void op_policy_add(struct core *c, struct api_call *call) {
    const char *method = call_text(call, API_FIELD_METHOD), *path = call_text(call, API_FIELD_PATH);
    CLEANUP(freep) char *only = method ? str_dupf("--method=%s", method) : NULL;
    CLEANUP(freep) char *at = path ? str_dupf("--path=%s", path) : NULL;
    char id[RANDID_SIZE], named[RANDID_SIZE + 8];
    const char *words[10] = {"policy", call_text(call, API_FIELD_ACTION), "--user", named};
    size_t n = 4;

    if (randid_make("rul", id) < 0) {
        call_fail(call, API_PROBLEM_INTERNAL, "no random bytes");
        return;
    }
    snprintf(named, sizeof named, "--id=%s", id);
    if (only)
        words[n++] = only;
    if (at)
        words[n++] = at;
    words[n++] = "--";
    words[n] = call_text(call, API_FIELD_HOST);
    run_bawn(c, call, id, words, rule_added);
}

void op_policy_remove(struct core *c, struct api_call *call) {
    run_bawn(c, call, NULL, (const char *const[]){"policy", "rm", "--user", "--", call_text(call, API_FIELD_RULE), NULL},
             worker_nothing);
}

void op_question_answer(struct core *c, struct api_call *call) {
    const char *answer = call_text(call, API_FIELD_ANSWER), *id = call_text(call, API_FIELD_QUESTION);
    char how[16];

    snprintf(how, sizeof how, "--%s", answer);
    if (str_eq(answer, "deny"))
        run_bawn(c, call, NULL, (const char *const[]){"policy", "reject", "--", id, NULL}, worker_nothing);
    else
        run_bawn(c, call, NULL, (const char *const[]){"policy", "approve", how, "--", id, NULL}, worker_nothing);
}
