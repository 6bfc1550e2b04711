/* SPDX-License-Identifier: Apache-2.0 */
/* What a run prints and returns about its rung and its limits. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/parse.h"
#include "config/settings.h"
#include "supervisor/session/run.h"

const char *const run_limit_names[RUN_LIMIT_COUNT] = {"memory", "pids", "disk", "time"};

void run_announce_rung(const struct plan *p) {
    enum { ABI_SIGNALS = 6 };
    const char *lacks = rung_lacks(p->rung);
    size_t hidden = 0;

    if (!lacks)
        return;
    for (size_t i = 0; i < p->n_steps; i++)
        hidden += p->steps[i].kind == STEP_HIDE;
    log_line("weaker sandbox (%s rung), user namespaces are not available here; %s%s%s (see 'bawn doctor --fix')",
             rung_names[p->rung], lacks, p->landlock_abi < ABI_SIGNALS ? ", your other processes can be signalled" : "",
             hidden ? ", what .sandboxignore hides in the workspace is visible" : "");
}

void run_announce_limits(const struct plan *p, const struct cgroup *cg) {
    const struct limits *l = &p->limits;
    bool cpu = l->cpus_milli && !cg->enforces.cpu, memory = l->memory && !cg->enforces.memory,
         pids = l->pids && !cg->enforces.pids;

    if (!cpu && !memory && !pids)
        return;
    log_line("limits without a cgroup (%s):%s%s%s", cg->why[0] ? cg->why : "none is available",
             memory ? " memory by watchdog;" : "", cpu ? " CPUs by affinity, whole ones only;" : "",
             pids ? " processes by rlimit" : "");
}

void run_result_done(struct run_result *r) {
    free(r->network);
    r->network = NULL;
}

static void describe_limit(const struct run_result *r, enum run_limit which, char out[static 80]) {
    char n[24];

    switch (which) {
    case RUN_LIMIT_MEMORY:
        format_size(r->limits.memory, n);
        snprintf(out, 80, "memory limit %s", n);
        return;
    case RUN_LIMIT_PIDS:
        snprintf(out, 80, "process limit %" PRIu64, r->limits.pids);
        return;
    case RUN_LIMIT_DISK:
        format_size(r->limits.disk, n);
        snprintf(out, 80, "disk limit %s", n);
        return;
    case RUN_LIMIT_TIME:
        format_duration(r->limits.timeout_ms, n);
        snprintf(out, 80, "time limit %s", n);
        return;
    case RUN_LIMIT_COUNT:
        break;
    }
    BUG("run_limit");
}

static const enum setting limit_setting[RUN_LIMIT_COUNT] = {SETTING_MEMORY, SETTING_PIDS, SETTING_DISK, SETTING_TIMEOUT};

/* "profile tight (/home/u/.config/bawn/profiles/tight.json)" is "profile tight" in one line. */
static int short_len(const char *origin) {
    const char *path = strstr(origin, " (");

    return path ? (int)(path - origin) : (int)strlen(origin);
}

void run_report_limits(const struct run_result *r, const struct settings *s) {
    for (int i = 0; i < RUN_LIMIT_COUNT; i++) {
        const char *origin = s->origin[limit_setting[i]];
        char text[80];

        if (!r->hit[i])
            continue;
        describe_limit(r, (enum run_limit)i, text);
        origin = origin ? origin : "built-in";
        log_line("%s reached (%.*s)", text, short_len(origin), origin); /* without the path of the file */
    }
}

void run_report_json(const struct run_result *r, const struct settings *s, struct buf *out) {
    const char *sep = "";

    buf_addf(out, "{\"status\":%d,\"signal\":%d,\"started\":%s,\"engine\":", r->status, r->signal, r->started ? "true" : "false");
    buf_add_json(out, r->engine);
    buf_adds(out, ",\"rung\":");
    buf_add_json(out, rung_names[r->rung]);
    buf_adds(out, ",\"profile\":");
    if (s->profile)
        buf_add_json(out, s->profile);
    else
        buf_adds(out, "null");
    buf_addf(out, ",\"workspace\":\"%s\",\"changes\":%zu,\"run\":", workspace_mode_names[settings_workspace_mode(s)], r->changes);
    if (r->run[0])
        buf_add_json(out, r->run);
    else
        buf_adds(out, "null");
    buf_adds(out, ",\"limits_hit\":[");
    for (int i = 0; i < RUN_LIMIT_COUNT; i++)
        if (r->hit[i]) {
            buf_addf(out, "%s\"%s\"", sep, run_limit_names[i]);
            sep = ",";
        }
    buf_addf(out,
             "],%s%s\"duration_ms\":%" PRIu64 ".%03" PRIu64 ",\"memory_peak\":%" PRIu64 ",\"cpu_us\":%" PRIu64
             ",\"enforced\":{\"cpu\":%s,\"memory\":%s,\"pids\":%s}}\n",
             r->network ? r->network : "", r->network ? "," : "", r->duration_us / 1000, r->duration_us % 1000,
             r->usage.memory_peak, r->usage.cpu_us, r->enforced.cpu ? "true" : "false", r->enforced.memory ? "true" : "false",
             r->enforced.pids ? "true" : "false");
}
