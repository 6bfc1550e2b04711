/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn VERB --json` does for a tenant: changes of a run or sandbox, and what there is. */
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "service/core/core_worker.h"

/* Whether the run or sandbox of the call is the tenant's; else it is answered. *ret_cwd: its workspace. */
bool call_workspace(struct core *c, struct api_call *call, int *ret_cwd) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    const char *id = call_text(call, API_FIELD_ID), *kind = call_text(call, API_FIELD_KIND);
    bool box = kind && str_eq(kind, "sandboxes");
    struct err err = {0};
    int n;

    if (box) {
        n = ledger_ask(&c->db, LEDGER_BOX_GET, &err, "tt", call->tenant->row.name, id);
        n = n < 0 ? n : ledger_next(&c->db, LEDGER_BOX_GET, &err);
        ledger_end(&c->db, LEDGER_BOX_GET);
    } else
        n = core_find_run(c, call->tenant, id) ? 1 : ledger_run_get(&c->db, call->tenant->row.name, id, &row, &err);
    if (n < 0)
        call_broken(call, &err);
    else if (n == 0)
        call_fail(call, API_PROBLEM_NOT_FOUND, "there is no %s '%s'", box ? "sandbox" : "run", id);
    if (n <= 0)
        return false;
    *ret_cwd = place_workspace(c, call->tenant, id);
    if (*ret_cwd < 0)
        call_fail(call, API_PROBLEM_NOT_FOUND, "the workspace of '%s' is not there", id);
    return *ret_cwd >= 0;
}

static int add_words(struct strv *v, const char *const *words) {
    int r = strv_add(v, "bawn");

    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(v, words[i]);
    return r;
}

/* `bawn WORDS...` in no workspace; between before and behind. */
static void answer_verb(struct core *c, struct api_call *call, const char *const *words, const char *before, const char *behind) {
    struct worker_plan p = WORKER_PLAN_INIT;

    if (add_words(&p.argv, words) < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
        return;
    }
    worker_answer(c, call, NULL, &p, API_FLAG_JSON, before, behind);
}

void op_engines(struct core *c, struct api_call *call) {
    answer_verb(c, call, (const char *const[]){"engines", "--json", NULL}, NULL, NULL);
}

void op_policy_get(struct core *c, struct api_call *call) {
    answer_verb(c, call, (const char *const[]){"policy", "ls", "--json", NULL}, NULL, NULL);
}

void op_question_list(struct core *c, struct api_call *call) {
    answer_verb(c, call, (const char *const[]){"policy", "pending", "--json", NULL}, "{\"items\":", "}");
}

/* -- changes ------------------------------------------------------------------------------------------------------------------ */

static int add_lists(struct strv *v, const struct api_call *call) {
    static const struct {
        unsigned field;
        const char *option;
    } lists[] = {{API_FIELD_ONLY, "only"}, {API_FIELD_EXCEPT, "except"}};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (size_t k = 0; r >= 0 && k < api_field_count(&call->fields, lists[i].field); k++)
            r = strv_addf(v, "--%s=%s", lists[i].option, api_field_get(&call->fields, lists[i].field, k));
    return r;
}

/* Classes that may be applied without a person at a terminal; without any, only what is of no high risk is. */
static int add_classes(struct strv *v, const struct api_call *call) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(256);

    for (size_t i = 0; i < api_field_count(&call->fields, API_FIELD_CLASSES); i++)
        buf_addf(&list, "%s%s", list.len ? "," : "--yes=", api_field_get(&call->fields, API_FIELD_CLASSES, i));
    return list.len ? strv_add(v, list.data) : 0;
}

static int add_apply(struct strv *v, const struct api_call *call) {
    static const char *const ways[][2] = {{"fail", "stop"}, {"ours", "skip"}, {"theirs", "overwrite"}, {"merge", "stop"}};
    const char *conflict = call_text(call, API_FIELD_CONFLICT);
    int r = add_classes(v, call);

    for (size_t i = 0; r >= 0 && conflict && i < ARRAY_LEN(ways); i++)
        if (str_eq(conflict, ways[i][0]))
            r = strv_addf(v, "--conflict=%s", ways[i][1]);
    if (r >= 0 && api_field_bool(&call->fields, API_FIELD_DRY_RUN, false))
        r = strv_add(v, "--dry-run");
    return r;
}

static void change_verb(struct core *c, struct api_call *call, const char *const *words, bool json) {
    struct worker_plan p = WORKER_PLAN_INIT;
    CLEANUP(closep) int cwd = -1;
    const char *id = call_text(call, API_FIELD_ID);
    int r;

    if (!call_workspace(c, call, &cwd))
        return;
    r = add_words(&p.argv, words);
    r = r < 0 ? r : add_lists(&p.argv, call);
    if (r >= 0 && call->route->op == API_OP_APPLY)
        r = add_apply(&p.argv, call);
    r = r < 0 ? r : strv_add(&p.argv, "--");
    r = r < 0 ? r : strv_add(&p.argv, id);
    if (r < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
        return;
    }
    p.cwd = cwd;
    if (json) {
        worker_answer(c, call, id, &p, API_FLAG_JSON, NULL, NULL);
        return;
    }
    p.done = worker_nothing;
    worker_start(c, call, id, &p);
}

void op_diff(struct core *c, struct api_call *call) {
    change_verb(c, call, (const char *const[]){"diff", "--json", NULL}, true);
}

void op_review(struct core *c, struct api_call *call) {
    change_verb(c, call, (const char *const[]){"review", "--json", "--fail-on=none", NULL}, true);
}

void op_apply(struct core *c, struct api_call *call) {
    change_verb(c, call, (const char *const[]){"apply", "--json", NULL}, true);
}

void op_discard(struct core *c, struct api_call *call) {
    change_verb(c, call, (const char *const[]){"discard", "--yes", NULL}, false);
}
