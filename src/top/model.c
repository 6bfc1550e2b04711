/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "top/top.h"

const char *const top_order_names[TOP_ORDERS] = {"name", "cpu", "memory"};

static uint64_t now_us(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void model_done(struct top_model *m) {
    free(m->v);
    *m = (struct top_model){0};
}

static void escape(const char *from, char *to, size_t size) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    buf_add_printable(&b, from ? from : "");
    snprintf(to, size, "%s", buf_str(&b));
}

static const struct top_row *find(const struct top_model *m, const char *name) {
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

static void fill(struct top_row *r, const struct box *b, const struct box_usage *u) {
    const struct box_state *s = &b->state;

    *r = (struct top_row){
        .since_ns = s->since_ns, .memory_max = s->memory, .pids_max = s->pids, .cpus_milli = s->cpus_milli, .usage = *u};
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
    struct top_model fresh = {.at_us = now_us()};
    int r = registry_list(boxes, &list, err);

    if (r < 0)
        return r;
    usage = calloc(list.n + 1, sizeof *usage);
    fresh.v = usage ? calloc(list.n + 1, sizeof *fresh.v) : NULL;
    if (!fresh.v)
        return err_oom(err);
    box_usage_all(list.v, list.n, usage);
    for (fresh.n = 0; fresh.n < list.n; fresh.n++) {
        struct top_row *row = &fresh.v[fresh.n];

        fill(row, &list.v[fresh.n], &usage[fresh.n]);
        row->cpu = cpu_percent(find(m, row->name), row, fresh.at_us - m->at_us);
        fresh.running += row->phase <= BOX_STOPPING;
    }
    model_done(m);
    *m = fresh;
    return 0;
}

static int by_name(const struct top_row *a, const struct top_row *b) {
    int live = (b->phase <= BOX_STOPPING) - (a->phase <= BOX_STOPPING);

    return live ? live : strcmp(a->name, b->name);
}

static int compare_name(const void *a, const void *b) {
    return by_name(a, b);
}

static int compare_cpu(const void *a, const void *b) {
    double x = ((const struct top_row *)a)->cpu, y = ((const struct top_row *)b)->cpu;

    return x < y ? 1 : x > y ? -1 : by_name(a, b);
}

static int compare_memory(const void *a, const void *b) {
    uint64_t x = ((const struct top_row *)a)->usage.memory, y = ((const struct top_row *)b)->usage.memory;

    return x < y ? 1 : x > y ? -1 : by_name(a, b);
}

void model_sort(struct top_model *m, enum top_order order) {
    static int (*const compare[TOP_ORDERS])(const void *, const void *) = {compare_name, compare_cpu, compare_memory};

    if (m->n)
        qsort(m->v, m->n, sizeof *m->v, compare[order]);
}

static void add_number(struct buf *out, const char *key, bool known, uint64_t value) {
    buf_addf(out, ",\"%s\":", key);
    if (known)
        buf_addf(out, "%llu", (unsigned long long)value);
    else
        buf_adds(out, "null");
}

void model_json(const struct top_model *m, struct buf *out) {
    buf_addc(out, '[');
    for (size_t i = 0; i < m->n; i++) {
        const struct top_row *r = &m->v[i];

        buf_adds(out, i ? ",\n {\"name\":" : "{\"name\":");
        buf_add_json(out, r->name);
        buf_addf(out, ",\"phase\":\"%s\",\"crashed\":%s,\"mode\":", box_phase_names[r->phase], r->crashed ? "true" : "false");
        buf_add_json(out, r->mode);
        buf_adds(out, ",\"workspace\":");
        buf_add_json(out, r->workspace);
        if (r->cpu < 0)
            buf_adds(out, ",\"cpu_percent\":null");
        else
            buf_addf(out, ",\"cpu_percent\":%.1f", r->cpu);
        add_number(out, "memory", r->usage.has_memory, r->usage.memory);
        add_number(out, "memory_max", r->memory_max != 0, r->memory_max);
        add_number(out, "pids", r->usage.has_pids, r->usage.pids);
        add_number(out, "pids_max", r->pids_max != 0, r->pids_max);
        buf_addc(out, '}');
    }
    buf_adds(out, "]\n");
}
