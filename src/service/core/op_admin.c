/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants and tokens, for administrators; and what a tenant sees of itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "service/core/core_worker.h"

enum { LIST_USUAL = 100, LIST_BYTES = 16 * 1024 * 1024 };

static const unsigned create_fields[QUOTAS] = {
    API_FIELD_QUOTAS_RUNNING, API_FIELD_QUOTAS_QUEUED, API_FIELD_QUOTAS_RUNS_PER_HOUR,     API_FIELD_QUOTAS_CPU_SECONDS_PER_HOUR,
    API_FIELD_QUOTAS_MEMORY,  API_FIELD_QUOTAS_DISK,   API_FIELD_QUOTAS_BYTES_OUT_PER_HOUR};
static const unsigned change_fields[QUOTAS] = {
    API_FIELD_RUNNING, API_FIELD_QUEUED, API_FIELD_RUNS_PER_HOUR,     API_FIELD_CPU_SECONDS_PER_HOUR,
    API_FIELD_MEMORY,  API_FIELD_DISK,   API_FIELD_BYTES_OUT_PER_HOUR};

/* -- tenants ------------------------------------------------------------------------------------------------------------------ */

static void time_json(struct jsonout *j, const char *key, uint64_t ns) {
    char text[CLOCK_TEXT_SIZE];

    jsonout_text(j, key, ns ? clock_text(ns, CLOCK_ISO_MS, text) : NULL);
}

static void tenant_json(const struct core *c, const struct tenant *t, struct buf *to) {
    struct jsonout j = {.to = to, .compact = true};
    const struct usage_part use = hour_sum(&t->use, clock_mark());

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "name", t->row.name);
    time_json(&j, "created", t->row.created_ns);
    jsonout_u64_if(&j, "uid", c->root, t->uid);
    jsonout_list(&j, "paths", &t->row.paths);
    jsonout_open(&j, "quotas", '{');
    for (int i = 0; i < QUOTAS; i++)
        if (t->row.quotas[i] != QUOTA_NONE)
            jsonout_u64(&j, quota_names[i], t->row.quotas[i]);
    jsonout_close(&j, '}');
    jsonout_open(&j, "usage", '{');
    jsonout_u64(&j, quota_names[QUOTA_RUNNING], t->running + t->boxes);
    jsonout_u64(&j, quota_names[QUOTA_QUEUED], t->queued);
    jsonout_u64(&j, quota_names[QUOTA_RUNS], use.runs);
    jsonout_u64(&j, quota_names[QUOTA_CPU], use.cpu_us / 1000000);
    jsonout_u64(&j, quota_names[QUOTA_MEMORY], MIN_OF(t->memory + t->box_memory, MEMORY_COUNTED_MAX));
    jsonout_u64(&j, quota_names[QUOTA_DISK], t->disk);
    jsonout_u64(&j, quota_names[QUOTA_OUT], use.sent);
    jsonout_close(&j, '}');
    jsonout_close(&j, '}');
}

static void answer_tenant(struct api_call *call, unsigned status, const struct tenant *t) {
    struct buf b = BUF_INIT(LIST_BYTES);

    tenant_json(call->core, t, &b);
    call_json(call, status, &b);
}

void op_me(struct core *c UNUSED, struct api_call *call) {
    answer_tenant(call, 200, call->tenant);
}

static struct tenant *named_tenant(struct core *c, struct api_call *call) {
    struct tenant *t = core_tenant(c, call_text(call, API_FIELD_TENANT));

    if (!t)
        call_fail(call, API_PROBLEM_NOT_FOUND, "there is no tenant '%s'", call_text(call, API_FIELD_TENANT));
    return t;
}

void op_tenant_get(struct core *c, struct api_call *call) {
    struct tenant *t = named_tenant(c, call);

    if (t)
        answer_tenant(call, 200, t);
}

/* They are by number, and a page is the number of the last one. */
void op_tenant_list(struct core *c, struct api_call *call) {
    size_t limit = (size_t)api_field_number(&call->fields, API_FIELD_LIMIT, LIST_USUAL), n = 0;
    const char *page = call_text(call, API_FIELD_PAGE);
    struct buf b = BUF_INIT(LIST_BYTES);
    uint64_t after = 0, last = 0;
    bool more = false;

    if (page && parse_u64(page, 1, UINT64_MAX, &after, NULL) < 0) {
        call_fail_field(call, API_FIELD_PAGE, "is not the \"next\" of an answer");
        return;
    }
    buf_adds(&b, "{\"items\":[");
    for (size_t i = 0; i < c->n_tenants && !more; i++) {
        if (c->tenants[i]->row.number <= after)
            continue;
        more = n == limit;
        if (more)
            break;
        n++;
        last = c->tenants[i]->row.number;
        tenant_json(c, c->tenants[i], &b);
    }
    if (more)
        buf_addf(&b, "],\"next\":\"%llu\"}", (unsigned long long)last);
    else
        buf_adds(&b, "],\"next\":null}");
    call_json(call, 200, &b);
}

static void take_quotas(const struct api_call *call, const unsigned fields[static QUOTAS], uint64_t *quotas) {
    for (int i = 0; i < QUOTAS; i++)
        quotas[i] = api_field_number(&call->fields, fields[i], quotas[i]);
}

void op_tenant_create(struct core *c, struct api_call *call) {
    CLEANUP(tenant_row_done) struct tenant_row row = {0};
    const char *name = call_text(call, API_FIELD_NAME);
    struct tenant *t = NULL;
    struct err err = {0};
    int r = 0;

    if (str_starts(name, "uid-") || str_eq(name, ".") || str_eq(name, "..")) {
        call_fail_field(call, API_FIELD_NAME, "names that begin with \"uid-\" are those of users of the machine");
        return;
    }
    if (core_tenant(c, name)) {
        call_fail(call, API_PROBLEM_CONFLICT, "there is a tenant '%s'", name);
        return;
    }
    snprintf(row.name, sizeof row.name, "%s", name);
    memcpy(row.quotas, c->conf.quotas, sizeof row.quotas);
    take_quotas(call, create_fields, row.quotas);
    for (size_t i = 0; r >= 0 && i < api_field_count(&call->fields, API_FIELD_PATHS); i++)
        r = strv_add(&row.paths, api_field_get(&call->fields, API_FIELD_PATHS, i));
    r = r < 0 ? err_oom(&err) : core_tenant_add(c, &row, &t, &err);
    if (r < 0)
        call_broken(call, &err);
    else
        answer_tenant(call, 201, t);
}

void op_tenant_change(struct core *c, struct api_call *call) {
    struct tenant *t = named_tenant(c, call);
    struct err err = {0};
    int r;

    if (!t)
        return;
    take_quotas(call, change_fields, t->row.quotas);
    r = ledger_begin(&c->db, &err);
    r = r < 0 ? r : ledger_tenant_quotas(&c->db, &t->row, &err);
    if (r < 0)
        call_broken(call, &err);
    else
        answer_tenant(call, 200, t);
}

static int64_t count_of(struct core *c, enum ledger_statement s, const struct tenant *t, struct err *err) {
    int64_t n = ledger_ask(&c->db, s, err, "t", t->row.name);

    n = n < 0 ? n : ledger_next(&c->db, s, err);
    if (n > 0)
        n = ledger_int(&c->db, s, 0);
    ledger_end(&c->db, s);
    return n;
}

void op_tenant_delete(struct core *c, struct api_call *call) {
    struct tenant *t = named_tenant(c, call);
    struct err err = {0};
    int64_t runs, boxes;
    int r;

    if (!t)
        return;
    for (size_t i = 0; i < c->n_workers; i++)
        if (c->workers[i].tenant == t && c->workers[i].stays && !c->workers[i].outside) {
            call_fail(call, API_PROBLEM_CONFLICT, "something of the tenant is just being removed; try again");
            return;
        }
    runs = count_of(c, LEDGER_RUN_COUNT, t, &err);
    boxes = runs < 0 ? runs : count_of(c, LEDGER_BOX_COUNT, t, &err);
    if (boxes < 0) {
        call_broken(call, &err);
        return;
    }
    if (runs || boxes || t == call->tenant) {
        call_fail(call, API_PROBLEM_CONFLICT, "the tenant has runs or sandboxes, or is your own");
        return;
    }
    r = ledger_begin(&c->db, &err);
    r = r < 0 ? r : ledger_tenant_remove(&c->db, t->row.name, &err);
    if (r < 0) {
        call_broken(call, &err);
        return;
    }
    for (struct api_call *other = c->calls, *next; other; other = next) {
        next = other->next;
        if (other->tenant == t && other != call)
            call_end(other, "the tenant was removed");
    }
    for (size_t i = 0; i < c->n_workers; i++) /* those that were killed just now, and ports */
        if (c->workers[i].tenant == t)
            c->workers[i].tenant = NULL;
    core_tenant_trash(c, t);
    core_tenant_remove(c, t);
    call_nothing(call);
}

/* -- tokens ------------------------------------------------------------------------------------------------------------------- */

static int list_token(const struct token_row *t, void *arg) {
    struct jsonout j = {.to = arg, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "id", t->id);
    jsonout_text(&j, "tenant", t->tenant);
    jsonout_text(&j, "name", t->name[0] ? t->name : NULL);
    jsonout_bool(&j, "admin", t->admin);
    time_json(&j, "created", t->created_ns);
    time_json(&j, "expires", t->expires_ns);
    time_json(&j, "used", t->used_ns);
    jsonout_close(&j, '}');
    return 0;
}

void op_token_list(struct core *c, struct api_call *call) {
    struct tenant *t = named_tenant(c, call);
    struct buf out = BUF_INIT(LIST_BYTES);
    struct err err = {0};

    if (!t)
        return;
    buf_adds(&out, "{\"items\":[");
    if (ledger_tokens(&c->db, t->row.name, list_token, &out, &err) < 0) {
        buf_done(&out);
        call_broken(call, &err);
        return;
    }
    buf_adds(&out, "]}");
    call_json(call, 200, &out);
}

void op_token_create(struct core *c, struct api_call *call) {
    struct tenant *t = named_tenant(c, call);
    const char *name = call_text(call, API_FIELD_NAME), *expires = call_text(call, API_FIELD_EXPIRES);
    struct token_row row = {.admin = api_field_bool(&call->fields, API_FIELD_ADMIN, false)};
    struct buf b = BUF_INIT(4096);
    char token[TOKEN_SIZE];
    struct err err = {0};
    uint64_t ms;
    int r;

    if (!t)
        return;
    if (expires && parse_duration(expires, &ms, &err) < 0) {
        call_fail_field(call, API_FIELD_EXPIRES, err.msg);
        return;
    }
    row.expires_ns = expires ? clock_mark() + ms * 1000000 : 0;
    snprintf(row.tenant, sizeof row.tenant, "%s", t->row.name);
    snprintf(row.name, sizeof row.name, "%s", name ? name : "");
    r = ledger_begin(&c->db, &err);
    r = r < 0 ? r : ledger_token_add(&c->db, &row, token, &err);
    if (r < 0) {
        call_broken(call, &err);
        return;
    }
    buf_addf(&b, "{\"id\":\"%s\",\"token\":\"%s\"}", row.id, token);
    explicit_bzero(token, sizeof token);
    call_json(call, 201, &b);
}

/* What goes on with it ends, but for terminals: those are the front's. */
static void end_calls_of_token(struct core *c, const struct api_call *call) {
    for (struct api_call *other = c->calls, *next; other; other = next) {
        next = other->next;
        if (other != call && str_eq(other->token, call_text(call, API_FIELD_TOKEN)))
            call_end(other, "the token was removed");
    }
}

void op_token_delete(struct core *c, struct api_call *call) {
    struct err err = {0};
    int r = ledger_begin(&c->db, &err);

    r = r < 0 ? r : ledger_do(&c->db, LEDGER_TOKEN_REMOVE, &err, "t", call_text(call, API_FIELD_TOKEN));
    if (r < 0)
        call_broken(call, &err);
    else if (r == 0)
        call_fail(call, API_PROBLEM_NOT_FOUND, "there is no token '%s'", call_text(call, API_FIELD_TOKEN));
    else {
        session_end_token(c, call_text(call, API_FIELD_TOKEN));
        end_calls_of_token(c, call);
        call_nothing(call);
    }
}
