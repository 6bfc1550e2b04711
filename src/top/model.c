/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes that bawn-top shows. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "os/clock.h"
#include "registry/running.h"
#include "top/top.h"

const char *const top_order_names[TOP_ORDERS] = {"name", "cpu", "memory"};

void model_done(struct top_model *m) {
    free(m->v);
    *m = (struct top_model){0};
}

static void escape(const char *from, char *to, size_t size) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    buf_add_printable(&b, from ? from : "");
    snprintf(to, size, "%s", buf_str(&b));
}

static const struct top_row *find_row(const struct top_model *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->v[i].name, name))
            return &m->v[i];
    return NULL;
}

static double cpu_percent(const struct top_row *before, const struct top_row *now, uint64_t elapsed_us) {
    if (!before || !before->usage.has_cpu || !now->usage.has_cpu || elapsed_us == 0 || now->usage.cpu_us < before->usage.cpu_us)
        return -1;
    return 100.0 * (double)(now->usage.cpu_us - before->usage.cpu_us) / (double)elapsed_us;
}

static void fill_row(struct top_row *r, const struct box *b, const struct box_usage *u) {
    const struct box_state *s = &b->state;

    *r = (struct top_row){.kind = b->kind,
                          .since_ns = s->since_ns,
                          .memory_max = s->memory,
                          .pids_max = s->pids,
                          .cpus_milli = s->cpus_milli,
                          .usage = *u};
    r->phase = box_look(b, &r->crashed);
    escape(b->name, r->name, sizeof r->name);
    escape(s->mode, r->mode, sizeof r->mode);
    escape(s->profile, r->profile, sizeof r->profile);
    escape(s->why, r->why, sizeof r->why);
    escape(b->info.workspace, r->workspace, sizeof r->workspace);
}

int model_refresh(struct top_model *m, const char *boxes, struct err *err) {
    CLEANUP(box_list_done) struct box_list list = {0};
    CLEANUP(freep) struct box_usage *usage = NULL;
    struct top_model fresh = {.at_us = clock_us()};
    int r = registry_list(boxes, &list, err);

    r = r < 0 ? r : running_list(environ, &list, err);
    if (r < 0)
        return r;
    usage = calloc(list.n + 1, sizeof *usage);
    fresh.v = usage ? calloc(list.n + 1, sizeof *fresh.v) : NULL;
    if (!fresh.v)
        return err_oom(err);
    box_usage_all(list.v, list.n, usage);
    for (fresh.n = 0; fresh.n < list.n; fresh.n++) {
        struct top_row *row = &fresh.v[fresh.n];

        fill_row(row, &list.v[fresh.n], &usage[fresh.n]);
        row->cpu = cpu_percent(find_row(m, row->name), row, fresh.at_us - m->at_us);
        fresh.running += row->phase <= BOX_STOPPING;
    }
    model_done(m);
    *m = fresh;
    return 0;
}

static int compare_name(const void *x, const void *y) {
    const struct top_row *a = x, *b = y;
    int live = (b->phase <= BOX_STOPPING) - (a->phase <= BOX_STOPPING);

    return live ? live : strcmp(a->name, b->name);
}

static int compare_cpu(const void *a, const void *b) {
    double x = ((const struct top_row *)a)->cpu, y = ((const struct top_row *)b)->cpu;

    return x < y ? 1 : x > y ? -1 : compare_name(a, b);
}

static int compare_memory(const void *a, const void *b) {
    uint64_t x = ((const struct top_row *)a)->usage.memory, y = ((const struct top_row *)b)->usage.memory;

    return x < y ? 1 : x > y ? -1 : compare_name(a, b);
}

void model_sort(struct top_model *m, enum top_order order) {
    static int (*const compare[TOP_ORDERS])(const void *, const void *) = {compare_name, compare_cpu, compare_memory};

    if (m->n)
        qsort(m->v, m->n, sizeof *m->v, compare[order]);
}

static void add_row_json(const struct top_row *r, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "name", r->name);
    jsonout_text(j, "kind", box_kind_names[r->kind]);
    jsonout_text(j, "phase", box_phase_names[r->phase]);
    jsonout_bool(j, "crashed", r->crashed);
    jsonout_text(j, "mode", r->mode);
    jsonout_text(j, "workspace", r->workspace);
    jsonout_key(j, "cpu_percent");
    if (r->cpu < 0)
        buf_adds(j->to, "null");
    else
        buf_addf(j->to, "%.1f", r->cpu);
    jsonout_u64_if(j, "memory", r->usage.has_memory, r->usage.memory);
    jsonout_u64_if(j, "memory_max", r->memory_max != 0, r->memory_max);
    jsonout_u64_if(j, "pids", r->usage.has_pids, r->usage.pids);
    jsonout_u64_if(j, "pids_max", r->pids_max != 0, r->pids_max);
    jsonout_close(j, '}');
}

void model_json(const struct top_model *m, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < m->n; i++) {
        if (i)
            jsonout_break(&j, "\n ");
        add_row_json(&m->v[i], &j);
    }
    buf_adds(out, "]\n");
}
