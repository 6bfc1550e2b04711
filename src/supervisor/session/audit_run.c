/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a sandbox's life for the audit log. */
#include "supervisor/session/audit_run.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "jail/plan/plan.h"
#include "supervisor/watch/landing.h"

enum { MEMBERS_MAX = AUDIT_LINE_MAX };

int audit_run_open(char *const *environ_, const char *home, const struct audit_ids *ids, struct audit **ret, struct err *err) {
    CLEANUP(freep) char *state = NULL, *folder = NULL;
    struct err why = {0};
    int r = paths_state_if_home(environ_, home, "", &state, err);

    *ret = NULL;
    if (r == 0 && !state)
        log_line("nothing of this is in the audit log: there is no home folder; set HOME or XDG_STATE_HOME");
    if (r < 0 || !state)
        return r;
    folder = str_dupf("%saudit", state);
    if (!folder)
        return err_oom(err);
    if (access(folder, F_OK) < 0 && paths_make_dirs(folder, &why) < 0) {
        log_line("nothing of this is in the audit log: %s", why.msg);
        return 0;
    }
    return audit_new(state, ids, ret, err);
}

/* -- the plan as a number ------------------------------------------------------------------------------------------------- */

static void hash_text(struct sha256 *h, const char *s) {
    sha256_add(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* Tells whether two sandboxes had the same walls: everything that plan.h has but values of variables, content of files, and the
 * command. */
static void hash_plan(const struct plan *p, char ret[static SHA256_HEX_SIZE]) {
    const uint64_t numbers[] = {
        p->rung,        p->ids.inside_uid,         p->ids.by_root,  p->limits.cpus_milli, p->limits.memory,   p->limits.pids,
        p->limits.disk, p->limits.timeout_ms,      p->private_size, p->tmp_size,          p->home_persistent, p->mode,
        p->network,     (uint64_t)p->landlock_abi, p->n_steps};
    struct sha256 h;
    char number[24];

    sha256_init(&h);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)numbers[i]);
        hash_text(&h, number);
    }
    hash_text(&h, p->workspace);
    hash_text(&h, p->home);
    for (size_t i = 0; i < p->env.len; i++) { /* names only: a value may be a secret, or a placeholder, which differs each time */
        sha256_add(&h, p->env.v[i], strcspn(p->env.v[i], "="));
        sha256_add(&h, "", 1);
    }
    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        const char how[] = {(char)('a' + s->kind), s->optional ? 'o' : '-', s->writable ? 'w' : '-', 0};

        hash_text(&h, how);
        hash_text(&h, s->to);
        /* Folders of ours have a new name each time; most of the host's have the same inside. */
        hash_text(&h, s->kind == STEP_FILE || s->ours || s->on_disk || (s->from && str_eq(s->from, s->to)) ? NULL : s->from);
    }
    sha256_end_hex(&h, ret);
}

/* -- events --------------------------------------------------------------------------------------------------------------- */

static void add_start(struct buf *b, const struct plan *p, const struct settings *s, const char *engine) {
    CLEANUP(buf_done) struct buf network = BUF_INIT(MEMBERS_MAX);
    char hash[SHA256_HEX_SIZE];

    hash_plan(p, hash);
    if (p->network)
        settings_add_text(s, SETTING_NETWORK, &network);
    audit_add(b, "engine", engine);
    audit_add(b, "rung", rung_names[p->rung]);
    audit_add(b, "profile", s->profile ? s->profile : "");
    audit_add(b, "mode", workspace_mode_names[p->mode]);
    audit_add(b, "workspace", p->workspace);
    audit_add(b, "network", p->network ? buf_str(&network) : "none");
    audit_add(b, "plan", hash);
}

int audit_run_exec(struct audit *a, int job, char *const *argv, size_t argc, const char *cwd, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    if (!a)
        return 0;
    audit_add_number(&b, "job", job);
    audit_add_argv(&b, argv, argc);
    audit_add(&b, "cwd", cwd ? cwd : "");
    return buf_ok(&b) ? audit_write(a, AUDIT_EXEC, buf_str(&b), err) : err_oom(err);
}

int audit_run_start(struct audit *a, const struct plan *plan, const struct settings *s, const char *engine, bool exec,
                    struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    if (!a)
        return 0;
    add_start(&b, plan, s, engine);
    if (!buf_ok(&b))
        return err_oom(err);
    if (!exec)
        return audit_write(a, AUDIT_START, buf_str(&b), err);
    audit_later(a, AUDIT_START, buf_str(&b));
    return audit_run_exec(a, 0, plan->argv, plan->argc, NULL, err);
}

void audit_run_exit(struct audit *a, int job, int status, int signal, int exec_errno, uint64_t ms) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    if (!a)
        return;
    audit_add_number(&b, "job", job);
    audit_add_number(&b, "status", status);
    audit_add(&b, "signal", signal ? sigabbrev_np(signal) : NULL);
    audit_add(&b, "error", exec_errno ? strerror(exec_errno) : NULL);
    audit_add_number(&b, "ms", (int64_t)ms);
    audit_later(a, AUDIT_EXIT, buf_str(&b));
}

void audit_run_limit(struct audit *a, enum run_limit which) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    if (!a)
        return;
    audit_add(&b, "limit", run_limit_names[which]);
    audit_later(a, AUDIT_LIMIT, buf_str(&b));
}

static void add_landed(struct audit *a, const char *path, const char *answer) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    audit_add(&b, "path", path);
    audit_add(&b, "answer", answer);
    audit_later(a, AUDIT_LANDED, buf_str(&b));
}

void audit_run_landed(struct audit *a, const struct landing *l) {
    if (!a)
        return;
    if (l->stopped)
        add_landed(a, l->stopped, "stopped");
    for (size_t i = 0; i < l->reported.len; i++)
        add_landed(a, l->reported.v[i], "told");
}

void audit_run_stop(struct audit *a, int status, uint64_t ms, size_t changes, const char *run) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MEMBERS_MAX);

    if (!a)
        return;
    audit_add_number(&b, "status", status);
    audit_add_number(&b, "ms", (int64_t)ms);
    audit_add_number(&b, "changes", (int64_t)changes);
    if (run[0])
        audit_set_run(a, run);
    audit_later(a, AUDIT_STOP, buf_str(&b));
    audit_flush(a);
}
