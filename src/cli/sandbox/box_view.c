/* SPDX-License-Identifier: Apache-2.0 */
/* Text and JSON of persistent sandboxes. */
#include "cli/sandbox/box_view.h"

#include <inttypes.h>

#include "base/parse.h"
#include "base/record.h"
#include "base/str.h"
#include "os/clock.h"

enum { CELL_MAX = 4096, COMMAND_SHOWN = 60 };

/* -- words -------------------------------------------------------------------------------------------------------------- */

void box_view_status(const struct box *b, char ret[static BOX_WORD_MAX]) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(4 * sizeof b->state.why);
    enum box_sight s = box_sight(b);
    uint64_t since = b->state.since_ns, now_ns = clock_mark();
    char age[24] = "";

    format_age(now_ns > since ? now_ns - since : 0, age);
    if (s == BOX_SIGHT_FAILED) {
        buf_add_printable(&why, b->state.why);
        snprintf(ret, BOX_WORD_MAX, "failed: %.200s", buf_str(&why));
    } else if (s == BOX_SIGHT_STOPPED) {
        snprintf(ret, BOX_WORD_MAX, "stopped %s ago", age);
    } else if (s == BOX_SIGHT_RUNNING) {
        snprintf(ret, BOX_WORD_MAX, "running %s", age);
    } else {
        snprintf(ret, BOX_WORD_MAX, "%s", box_sight_names[s]);
    }
}

const char *box_view_colour(enum box_sight s, bool colours) {
    static const char green[] = "\033[32m", yellow[] = "\033[33m", red[] = "\033[31m";

    if (!colours)
        return "";
    if (s == BOX_SIGHT_RUNNING)
        return green;
    return s == BOX_SIGHT_STARTING || s == BOX_SIGHT_STOPPING ? yellow : red;
}

const char *box_view_plain(bool colours) {
    return colours ? "\033[0m" : "";
}

void box_view_path(const char *path, const char *home, struct buf *out) {
    size_t n = home ? strlen(home) : 0;

    if (n > 1 && strncmp(path, home, n) == 0 && (path[n] == '/' || path[n] == 0)) {
        buf_addc(out, '~');
        path += n;
    }
    buf_add_printable(out, path);
}

void box_usage_words(const struct box *b, const struct box_usage *u, char memory[static 64], char cpu[static 64],
                     char pids[static 64]) {
    const struct box_state *s = &b->state;
    char used[24], limit[24];

    snprintf(memory, 64, "-");
    snprintf(cpu, 64, "-");
    snprintf(pids, 64, "-");
    format_size(u->memory, used);
    format_size(s->memory, limit);
    if (u->has_memory)
        snprintf(memory, 64, "%s%s%s", used, s->memory ? "/" : "", s->memory ? limit : "");
    if (u->has_cpu)
        snprintf(cpu, 64, "%" PRIu64 ".%" PRIu64 "s", u->cpu_us / 1000000, u->cpu_us / 100000 % 10);
    if (u->has_cpu && s->cpus_milli)
        snprintf(cpu + strlen(cpu), 64 - strlen(cpu), "/%g cpus", (double)s->cpus_milli / 1000);
    if (u->has_pids && s->pids)
        snprintf(pids, 64, "%" PRIu64 "/%" PRIu64, u->pids, s->pids);
    else if (u->has_pids)
        snprintf(pids, 64, "%" PRIu64, u->pids);
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

static void add_usage(const struct box_state *s, const struct box_usage *u, struct jsonout *j) {
    jsonout_open(j, "limits", '{');
    jsonout_u64_if(j, "memory", s->memory, s->memory);
    jsonout_u64_if(j, "pids", s->pids, s->pids);
    jsonout_u64_if(j, "cpus_milli", s->cpus_milli, s->cpus_milli);
    jsonout_close(j, '}');
    jsonout_open(j, "usage", '{');
    jsonout_u64_if(j, "memory", u->has_memory, u->memory);
    jsonout_u64_if(j, "pids", u->has_pids, u->pids);
    jsonout_u64_if(j, "cpu_us", u->has_cpu, u->cpu_us);
    jsonout_close(j, '}');
}

void box_view_json(const struct box *b, const struct box_usage *u, struct jsonout *j) {
    const struct box_state *s = &b->state;
    enum box_sight sight = box_sight(b);
    bool active = box_sight_active(sight);

    jsonout_text(j, "name", b->name);
    jsonout_text(j, "id", b->info.id);
    jsonout_text(j, "kind", box_kind_names[b->kind]);
    if (b->kind == BOX_KIND_RUN)
        jsonout_list(j, "command", &b->info.options);
    jsonout_text(j, "status", box_sight_names[sight]);
    jsonout_time(j, "since", s->since_ns);
    jsonout_time(j, "used", s->used_ns);
    jsonout_time(j, "created", b->info.created_ns);
    jsonout_text(j, "why", s->why[0] ? s->why : NULL);
    if (sight == BOX_SIGHT_STOPPED || sight == BOX_SIGHT_FAILED)
        jsonout_int(j, "exit", s->status);
    else
        jsonout_null(j, "exit");
    jsonout_text(j, "workspace", b->info.workspace);
    jsonout_text(j, "mode", s->mode);
    jsonout_text(j, "profile", s->profile[0] ? s->profile : NULL);
    jsonout_text(j, "engine", s->engine);
    jsonout_text(j, "rung", s->rung);
    jsonout_u64_if(j, "pid", active && s->pid > 0, (uint64_t)s->pid);
    jsonout_u64_if(j, "init", active && s->init > 0, (uint64_t)s->init);
    jsonout_bool(j, "project", b->info.project);
    jsonout_text(j, "from", b->info.from);
    add_usage(s, u, j);
}

/* -- what its keeper answers -------------------------------------------------------------------------------------------- */

void box_view_answer(const json_t *answer, const char *key, const char *member, struct jsonout *j) {
    const json_t *v = json_object_get(answer, member);
    CLEANUP(freep) char *text = v ? json_dumps(v, JSON_ENSURE_ASCII | JSON_ENCODE_ANY) : NULL;

    jsonout_key(j, key);
    buf_adds(j->to, text ? text : "null");
}

/* A string or a number, cut and escaped; "-": neither. */
static void add_cell(struct strv *cells, const json_t *object, const char *key) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CELL_MAX);
    const json_t *v = json_object_get(object, key);
    char cut[4 * COMMAND_SHOWN + 1];

    if (json_is_string(v)) {
        snprintf(cut, sizeof cut, "%s", json_string_value(v));
        buf_add_printable(&b, cut);
    } else if (json_is_integer(v)) {
        buf_addf(&b, "%lld", (long long)json_integer_value(v));
    } else {
        buf_adds(&b, json_is_true(v) ? "yes" : "-");
    }
    strv_add(cells, buf_str(&b)[0] ? buf_str(&b) : "-");
}

/* "running", "exit 3", "signal 9" */
static void add_job_status(struct strv *cells, const json_t *job) {
    const json_t *ended = json_object_get(job, "ended"), *signal = json_object_get(job, "signal");
    bool over = ended && !json_is_null(ended) && !(json_is_integer(ended) && json_integer_value(ended) == 0);

    if (!over)
        strv_add(cells, "running");
    else if (json_integer_value(signal) > 0)
        strv_addf(cells, "signal %lld", (long long)json_integer_value(signal));
    else
        strv_addf(cells, "exit %lld", (long long)json_integer_value(json_object_get(job, "status")));
}

/* A row for each of the list, a column for each key; the status of a job has none. */
static void add_table(const json_t *list, const char *const *titles, const char *const *keys, size_t n, const char *none,
                      struct buf *out) {
    CLEANUP(strv_done) struct strv cells = {0};

    for (size_t k = 0; k < n; k++)
        strv_add(&cells, titles[k]);
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < n; k++)
            if (keys[k])
                add_cell(&cells, json_array_get(list, i), keys[k]);
            else
                add_job_status(&cells, json_array_get(list, i));
    if (json_array_size(list))
        record_cells(&cells, n, out);
    else
        buf_adds(out, none);
}

void box_view_jobs(const json_t *answer, struct buf *out) {
    static const char *const titles[] = {"JOB", "STATUS", "PID", "BACKGROUND", "COMMAND"}, *const keys[] = {"job", NULL, "pid",
                                                                                                            "background",
                                                                                                            "command"};

    add_table(json_object_get(answer, "jobs"), titles, keys, ARRAY_LEN(keys), "no commands\n", out);
}

void box_view_processes(const json_t *answer, struct buf *out) {
    static const char *const titles[] = {"PID", "PID INSIDE", "COMMAND"}, *const keys[] = {"pid", "inside", "command"};

    add_table(json_object_get(answer, "processes"), titles, keys, ARRAY_LEN(keys), "no processes\n", out);
}
