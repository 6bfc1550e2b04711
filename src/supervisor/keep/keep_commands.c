/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over the control socket of a persistent sandbox (spec/control-socket.md): its own, and those of its gate. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "os/process.h"
#include "registry/usage.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/network/gate_priv.h"

static void say_result(struct buf *answer, int r, const struct err *err) {
    if (r < 0)
        control_error(answer, err->msg);
    else
        control_ok(answer);
}

static void add_numbers(const struct keeper *k, struct jsonout *j) {
    const struct box_state *s = &k->box->state;
    struct box_usage u = {0};

    box_usage(s, &u);
    jsonout_open(j, "limits", '{');
    jsonout_u64(j, "memory", s->memory);
    jsonout_u64(j, "pids", s->pids);
    jsonout_u64(j, "cpus_milli", s->cpus_milli);
    jsonout_close(j, '}');
    jsonout_open(j, "usage", '{');
    jsonout_u64_if(j, "memory", u.has_memory, u.memory);
    jsonout_u64_if(j, "cpu_us", u.has_cpu, u.cpu_us);
    jsonout_u64_if(j, "pids", u.has_pids, u.pids);
    jsonout_close(j, '}');
}

/* Seconds since 1970, with all nanoseconds; 0: null. */
static void add_seconds(struct jsonout *j, const char *key, uint64_t ns) {
    if (!ns) {
        jsonout_null(j, key);
        return;
    }
    jsonout_key(j, key);
    buf_addf(j->to, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void do_status(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    const struct box_state *s = &k->box->state;
    struct jsonout j = {.to = answer, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", true);
    jsonout_int(&j, "pid", getpid());
    jsonout_text(&j, "sandbox", k->box->name);
    jsonout_text(&j, "name", k->box->name);
    jsonout_text(&j, "id", k->box->info.id);
    jsonout_text(&j, "phase", box_phase_names[k->phase]);
    add_seconds(&j, "since", s->since_ns);
    jsonout_bool(&j, "frozen", k->freeze.thaw_ms);
    jsonout_u64(&j, "jobs", k->n_running);
    jsonout_int(&j, "init", s->init);
    jsonout_text(&j, "engine", s->engine);
    jsonout_text(&j, "rung", s->rung);
    jsonout_text(&j, "workspace_mode", s->mode);
    jsonout_text(&j, "profile", s->profile);
    jsonout_text(&j, "workspace", k->box->info.workspace);
    jsonout_strings(&j, "command", NULL, 0);
    add_numbers(k, &j);
    gate_status_json(k->session.network.gate, answer);
    jsonout_close(&j, '}');
}

static size_t count_attached(const struct keeper *k, const struct keep_job *j) {
    size_t n = 0;

    for (size_t i = 0; i < k->n_clients; i++)
        n += k->clients[i]->fd >= 0 && k->clients[i]->job == j;
    return n;
}

static void add_end(struct jsonout *out, const struct keep_job *j) {
    bool noexec = j->end & EXEC_END_NOEXEC;

    if (j->exited) {
        jsonout_int(out, "status", noexec ? err_exec_status(j->status) : process_exit_status(j->status));
        jsonout_int(out, "signal", !noexec && WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0);
    } else {
        jsonout_null(out, "status");
        jsonout_null(out, "signal");
    }
    jsonout_bool(out, "timeout", j->end & EXEC_END_TIMEOUT);
}

static void add_job(const struct keeper *k, const struct keep_job *j, struct jsonout *out) {
    jsonout_open(out, NULL, '{');
    jsonout_int(out, "job", j->id);
    jsonout_text(out, "command", j->command ? j->command : "");
    jsonout_bool(out, "background", j->flags & EXEC_BACKGROUND);
    jsonout_bool(out, "tty", j->flags & EXEC_TTY);
    jsonout_int(out, "pid", j->pid);
    add_seconds(out, "started", j->started_ns);
    add_seconds(out, "ended", j->ended_ns);
    add_end(out, j);
    jsonout_u64(out, "attached", count_attached(k, j));
    jsonout_close(out, '}');
}

static void do_jobs(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    struct jsonout j = {.to = answer, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", true);
    jsonout_open(&j, "jobs", '[');
    for (size_t i = 0; i < k->n_jobs; i++)
        if (!k->jobs[i]->gone)
            add_job(k, k->jobs[i], &j);
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
}

static void do_processes(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"processes\":");
    inside_json(k, answer);
    buf_addc(answer, '}');
}

static void do_stop(struct keeper *k, const json_t *request, struct buf *answer) {
    const json_t *v = json_object_get(request, "seconds");
    json_int_t seconds = !v ? KEEP_STOP_SECONDS : json_is_integer(v) ? json_integer_value(v) : -1;

    if (seconds < 0 || seconds > KEEP_STOP_SECONDS_MAX) {
        control_error(answer, "\"seconds\" must be a number from 0 to 3600");
        return;
    }
    keep_stop(k, seconds ? (int)seconds : -1, "by request");
    control_ok(answer);
}

static void do_kill(struct keeper *k, const json_t *request, struct buf *answer) {
    json_int_t id = json_integer_value(json_object_get(request, "job"));
    json_int_t sig = json_integer_value(json_object_get(request, "signal"));
    const struct keep_job *j = id > 0 && id <= INT32_MAX ? job_find(k, (int)id) : NULL;
    struct err err = {0};
    int r = 0;

    if (sig < 1 || sig > SIGRTMAX)
        r = err_set(&err, -EINVAL, "\"signal\" must be the number of a signal");
    else if (!j || j->exited)
        r = err_set(&err, -ESRCH, "no such command runs");
    else
        job_signal(k, j, (int)sig, true);
    say_result(answer, r, &err);
}

static void do_rename(struct keeper *k, const json_t *request, struct buf *answer) {
    const char *name = json_string_value(json_object_get(request, "name"));
    struct err err = {0};
    int r = name ? keep_rename(k, name, &err) : err_set(&err, -EINVAL, "\"name\" must be a string");

    say_result(answer, r, &err);
}

static void do_freeze(struct keeper *k, const json_t *request, struct buf *answer) {
    pid_t pid = (pid_t)json_integer_value(json_object_get(request, "pid"));
    struct err err = {0};
    int r = k->phase == BOX_RUNNING ? inside_freeze(k, pid, &err) : err_set(&err, -ESHUTDOWN, "the sandbox is being stopped");

    say_result(answer, r, &err);
}

static void do_thaw(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    inside_thaw(k);
    control_ok(answer);
}

static void do_pending(struct keeper *k UNUSED, const json_t *request UNUSED, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"pending\":[]}");
}

static void do_no_network(struct keeper *k UNUSED, const json_t *request UNUSED, struct buf *answer) {
    control_error(answer, "this sandbox has no network, so it has no rules");
}

static const struct keep_command {
    const char *cmd;
    void (*run)(struct keeper *k, const json_t *request, struct buf *answer);
    bool gates; /* the gate's, if there is one */
} commands[] = {
    {"status", do_status, false},    {"jobs", do_jobs, false},         {"processes", do_processes, false},
    {"stop", do_stop, false},        {"kill", do_kill, false},         {"rename", do_rename, false},
    {"freeze", do_freeze, false},    {"thaw", do_thaw, false},         {"pending", do_pending, true},
    {"answer", do_no_network, true}, {"rules", do_no_network, true},   {"allow", do_no_network, true},
    {"deny", do_no_network, true},   {"request", do_no_network, true}, {"requested", do_no_network, true},
};

void keep_command(void *arg, const json_t *request, struct buf *answer) {
    const char *cmd = json_get_text(request, "cmd");
    struct keeper *k = arg;

    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (!str_eq(commands[i].cmd, cmd))
            continue;
        if (commands[i].gates && k->session.network.gate)
            gate_command(k->session.network.gate, request, answer);
        else
            commands[i].run(k, request, answer);
        return;
    }
    control_error(
        answer,
        "\"cmd\" must be status, jobs, processes, stop, kill, rename, freeze, thaw, pending, answer, rules, allow, deny, request or requested");
}
