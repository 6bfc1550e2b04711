/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over the control socket of a kept sandbox (spec/control-socket.md): its own, and those of its gate. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "os/process.h"
#include "registry/usage.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/network/gate_priv.h"

static void say_error(struct buf *answer, const char *why) {
    buf_adds(answer, "{\"ok\":false,\"error\":");
    buf_add_json(answer, why);
    buf_addc(answer, '}');
}

static void say_result(struct buf *answer, int r, const struct err *err) {
    if (r < 0)
        say_error(answer, err->msg);
    else
        buf_adds(answer, "{\"ok\":true}");
}

static void add_text(struct buf *out, const char *key, const char *value) {
    buf_addf(out, ",\"%s\":", key);
    buf_add_json(out, value);
}

static void add_known(struct buf *out, const char *key, bool known, uint64_t value) {
    if (known)
        buf_addf(out, "\"%s\":%" PRIu64, key, value);
    else
        buf_addf(out, "\"%s\":null", key);
}

static void add_numbers(const struct keeper *k, struct buf *out) {
    const struct box_state *s = &k->box->state;
    struct box_usage u = {0};

    box_usage(s, &u);
    buf_addf(out, ",\"limits\":{\"memory\":%" PRIu64 ",\"pids\":%" PRIu64 ",\"cpus_milli\":%" PRIu64 "},\"usage\":{", s->memory,
             s->pids, s->cpus_milli);
    add_known(out, "memory", u.has_memory, u.memory);
    buf_addc(out, ',');
    add_known(out, "cpu_us", u.has_cpu, u.cpu_us);
    buf_addc(out, ',');
    add_known(out, "pids", u.has_pids, u.pids);
    buf_addc(out, '}');
}

static void do_status(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    const struct box_state *s = &k->box->state;

    buf_addf(answer, "{\"ok\":true,\"pid\":%d", (int)getpid());
    add_text(answer, "sandbox", k->box->name);
    add_text(answer, "name", k->box->name);
    add_text(answer, "id", k->box->info.id);
    add_text(answer, "phase", box_phase_names[k->phase]);
    buf_addf(answer, ",\"since\":%" PRIu64 ".%09" PRIu64 ",\"frozen\":%s,\"jobs\":%zu,\"init\":%d", s->since_ns / 1000000000,
             s->since_ns % 1000000000, k->freeze.thaw_ms ? "true" : "false", k->n_running, (int)s->init);
    add_text(answer, "engine", s->engine);
    add_text(answer, "rung", s->rung);
    add_text(answer, "workspace_mode", s->mode);
    add_text(answer, "profile", s->profile);
    add_text(answer, "workspace", k->box->info.workspace);
    buf_adds(answer, ",\"command\":[]");
    add_numbers(k, answer);
    gate_status_json(k->session.network.gate, answer);
    buf_addc(answer, '}');
}

static size_t count_attached(const struct keeper *k, const struct keep_job *j) {
    size_t n = 0;

    for (size_t i = 0; i < k->n_clients; i++)
        n += k->clients[i]->fd >= 0 && k->clients[i]->job == j;
    return n;
}

static void add_time(struct buf *out, const char *key, uint64_t ns) {
    if (ns)
        buf_addf(out, ",\"%s\":%" PRIu64 ".%09" PRIu64, key, ns / 1000000000, ns % 1000000000);
    else
        buf_addf(out, ",\"%s\":null", key);
}

static void add_end(struct buf *out, const struct keep_job *j) {
    bool noexec = j->end & EXEC_END_NOEXEC;
    int sig = j->exited && !noexec && WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0;

    if (!j->exited)
        buf_adds(out, ",\"status\":null,\"signal\":null");
    else
        buf_addf(out, ",\"status\":%d,\"signal\":%d", noexec ? err_exec_status(j->status) : process_exit_status(j->status), sig);
    buf_addf(out, ",\"timeout\":%s", j->end & EXEC_END_TIMEOUT ? "true" : "false");
}

static void do_jobs(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    const char *sep = "";

    buf_adds(answer, "{\"ok\":true,\"jobs\":[");
    for (size_t i = 0; i < k->n_jobs; i++) {
        const struct keep_job *j = k->jobs[i];

        if (j->gone)
            continue;
        buf_addf(answer, "%s{\"job\":%d,\"command\":", sep, j->id);
        buf_add_json(answer, j->command ? j->command : "");
        buf_addf(answer, ",\"background\":%s,\"tty\":%s,\"pid\":%d", j->flags & EXEC_BACKGROUND ? "true" : "false",
                 j->flags & EXEC_TTY ? "true" : "false", (int)j->pid);
        add_time(answer, "started", j->started_ns);
        add_time(answer, "ended", j->ended_ns);
        add_end(answer, j);
        buf_addf(answer, ",\"attached\":%zu}", count_attached(k, j));
        sep = ",";
    }
    buf_adds(answer, "]}");
}

static void do_processes(struct keeper *k, const json_t *request UNUSED, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"processes\":");
    inside_json(k, answer);
    buf_addc(answer, '}');
}

static void do_stop(struct keeper *k, const json_t *request, struct buf *answer) {
    const json_t *v = json_object_get(request, "seconds");
    json_int_t seconds = v ? json_integer_value(v) : KEEP_STOP_SECONDS;

    if ((v && !json_is_integer(v)) || seconds < 0 || seconds > KEEP_STOP_SECONDS_MAX) {
        say_error(answer, "\"seconds\" must be a number from 0 to 3600");
        return;
    }
    keep_stop(k, seconds ? (int)seconds : -1, "somebody asked for it");
    buf_adds(answer, "{\"ok\":true}");
}

static void do_kill(struct keeper *k, const json_t *request, struct buf *answer) {
    json_int_t id = json_integer_value(json_object_get(request, "job"));
    json_int_t sig = json_integer_value(json_object_get(request, "signal"));
    const struct keep_job *j = id > 0 && id <= INT32_MAX ? job_find(k, (int)id) : NULL;

    if (sig < 1 || sig > SIGRTMAX) {
        say_error(answer, "\"signal\" must be the number of a signal");
        return;
    }
    if (!j || j->exited) {
        say_error(answer, "no such command runs");
        return;
    }
    job_signal(k, j, (int)sig, true);
    buf_adds(answer, "{\"ok\":true}");
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
    buf_adds(answer, "{\"ok\":true}");
}

static void do_pending(struct keeper *k UNUSED, const json_t *request UNUSED, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"pending\":[]}");
}

static void do_no_network(struct keeper *k UNUSED, const json_t *request UNUSED, struct buf *answer) {
    say_error(answer, "this sandbox has no network, so it has no rules");
}

struct keep_command {
    const char *cmd;
    void (*run)(struct keeper *k, const json_t *request, struct buf *answer);
};

static const struct keep_command own[] = {
    {"status", do_status}, {"jobs", do_jobs},     {"processes", do_processes}, {"stop", do_stop},
    {"kill", do_kill},     {"rename", do_rename}, {"freeze", do_freeze},       {"thaw", do_thaw},
};

static const struct keep_command without_gate[] = {
    {"pending", do_pending},  {"answer", do_no_network}, {"rules", do_no_network},
    {"allow", do_no_network}, {"deny", do_no_network},
};

static const struct keep_command *find(const struct keep_command *v, size_t n, const char *cmd) {
    for (size_t i = 0; cmd && i < n; i++)
        if (str_eq(v[i].cmd, cmd))
            return &v[i];
    return NULL;
}

void keep_command(void *arg, const json_t *request, struct buf *answer) {
    struct keeper *k = arg;
    const char *cmd = json_string_value(json_object_get(request, "cmd"));
    const struct keep_command *c = find(own, ARRAY_LEN(own), cmd);
    bool gate = k->session.network.gate, known;

    known = c || find(without_gate, ARRAY_LEN(without_gate), cmd);
    if (!c && !gate)
        c = find(without_gate, ARRAY_LEN(without_gate), cmd);
    if (c)
        c->run(k, request, answer);
    else if (known)
        gate_command(k->session.network.gate, request, answer);
    else
        say_error(
            answer,
            "\"cmd\" must be status, jobs, processes, stop, kill, rename, freeze, thaw, pending, answer, rules, allow or deny");
}
