/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants in memory, their folders, and how a program becomes one of theirs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/spawn.h"
#include "service/core/core.h"

/* A tenant that is a user of this machine: "uid-1000". The API makes no tenant of such a name. */
#define LOCAL_PREFIX "uid-"

/* -- the last hour ------------------------------------------------------------------------------------------------------------ */

void hour_add(struct hour_use *h, uint64_t now_ns, const struct usage_part *add) {
    uint64_t minute = now_ns / MINUTE_NS;
    size_t i = minute % HOUR_PARTS;

    if (h->minute[i] != minute) {
        h->minute[i] = minute;
        h->parts[i] = (struct usage_part){0};
    }
    h->parts[i].runs += add->runs;
    h->parts[i].cpu_us += add->cpu_us;
    h->parts[i].sent += add->sent;
}

struct usage_part hour_sum(const struct hour_use *h, uint64_t now_ns) {
    uint64_t minute = now_ns / MINUTE_NS;
    struct usage_part all = {0};

    for (size_t i = 0; i < HOUR_PARTS; i++)
        if (h->minute[i] + HOUR_PARTS > minute && h->minute[i] <= minute) {
            all.runs += h->parts[i].runs;
            all.cpu_us += h->parts[i].cpu_us;
            all.sent += h->parts[i].sent;
        }
    return all;
}

/* -- all of them -------------------------------------------------------------------------------------------------------------- */

void tenant_free(struct tenant *t) {
    tenant_row_done(&t->row);
    strv_done(&t->env);
    closep(&t->runs);
    closep(&t->dir);
    closep(&t->events);
    closep(&t->meter);
    buf_done(&t->events_out);
    free(t);
}

struct tenant *core_tenant(struct core *c, const char *name) {
    for (size_t i = 0; i < c->n_tenants; i++)
        if (str_eq(c->tenants[i]->row.name, name))
            return c->tenants[i];
    return NULL;
}

/* An ordinary user cannot become another: all is done as that user. */
static uid_t uid_of(const struct core *c, const struct tenant_row *row) {
    uint64_t local;

    if (!c->root)
        return c->uid;
    if (str_starts(row->name, LOCAL_PREFIX) && parse_u64(row->name + strlen(LOCAL_PREFIX), 0, UINT32_MAX - 1, &local, NULL) >= 0)
        return (uid_t)local;
    return (uid_t)(c->conf.uid_base + row->number);
}

static int remember_tenant(struct core *c, struct tenant_row *row, struct tenant **ret, struct err *err) {
    struct tenant *t = calloc(1, sizeof *t);

    if (!t || VEC_ADD(c->tenants, c->n_tenants, t) < 0) {
        free(t);
        return err_oom(err);
    }
    t->row = TAKE(*row, (struct tenant_row){0});
    t->uid = uid_of(c, &t->row);
    t->dir = t->runs = t->events = t->meter = -1;
    t->events_out.ceiling = EVENTS_TURN_MAX;
    if (ret)
        *ret = t;
    return 0;
}

struct loader {
    struct core *core;
    struct err *err;
};

static int load_tenant(struct tenant_row *row, void *arg) {
    struct loader *l = arg;

    return remember_tenant(l->core, row, NULL, l->err);
}

int core_count_boxes(struct core *c, struct tenant *t, struct err *err) {
    int r = ledger_ask(&c->db, LEDGER_BOX_LIVE, err, "t", t->row.name);

    if (r >= 0 && (r = ledger_next(&c->db, LEDGER_BOX_LIVE, err)) > 0) {
        t->boxes = (size_t)ledger_int(&c->db, LEDGER_BOX_LIVE, 0);
        t->box_memory = (uint64_t)ledger_int(&c->db, LEDGER_BOX_LIVE, 1);
    }
    ledger_end(&c->db, LEDGER_BOX_LIVE);
    return r;
}

static int load_use(struct core *c, struct tenant *t, uint64_t now_ns, struct err *err) {
    int r = traffic_load(c, t, now_ns, err);

    return r < 0 ? r : core_count_boxes(c, t, err);
}

int core_tenants_load(struct core *c, struct err *err) {
    struct loader l = {.core = c, .err = err};
    uint64_t now = clock_mark();
    int r = ledger_tenants(&c->db, load_tenant, &l, err);

    for (size_t i = 0; r >= 0 && i < c->n_tenants; i++)
        r = load_use(c, c->tenants[i], now, err);
    return r < 0 ? r : 0;
}

int core_tenant_add(struct core *c, struct tenant_row *row, struct tenant **ret, struct err *err) {
    int r = ledger_begin(&c->db, err);

    r = r < 0 ? r : ledger_tenant_add(&c->db, row, err);
    return r < 0 ? r : remember_tenant(c, row, ret, err);
}

void core_tenant_remove(struct core *c, struct tenant *t) {
    for (size_t i = 0; i < c->n_tenants; i++)
        if (c->tenants[i] == t) {
            VEC_REMOVE(c->tenants, c->n_tenants, i);
            c->turn = 0;
            tenant_free(t);
            return;
        }
}

struct tenant *core_tenant_of_uid(struct core *c, uid_t uid, struct err *err) {
    CLEANUP(tenant_row_done) struct tenant_row row = {0};
    struct tenant *t;

    /* Root and the service's own user are one where the service is a user's. */
    snprintf(row.name, sizeof row.name, LOCAL_PREFIX "%u", c->root ? (unsigned)uid : (unsigned)c->uid);
    t = core_tenant(c, row.name);
    if (t)
        return t;
    if (c->root && uid != 0 && !c->conf.any_user)
        return NULL;
    for (int i = 0; i < QUOTAS; i++)
        row.quotas[i] = c->conf.quotas[i];
    return core_tenant_add(c, &row, &t, err) < 0 ? NULL : t;
}

/* -- folders ------------------------------------------------------------------------------------------------------------------ */

/* Others may pass through what is bawnd's, and see nothing there; what is the tenant's own is closed to them. */
static int make_dir(const struct core *c, int at, const char *name, const struct tenant *owner) {
    mode_t mode = owner || !c->root ? 0700 : 0711;
    int fd;

    if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if ((owner && c->root && fchown(fd, owner->uid, owner->uid) < 0) || fchmod(fd, mode) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    return fd;
}

static int fill_env(struct core *c, struct tenant *t) {
    const struct {
        const char *name, *below;
    } homes[] = {{"HOME", ""},
                 {"XDG_CONFIG_HOME", "/.config"},
                 {"XDG_STATE_HOME", "/.local/state"},
                 {"XDG_DATA_HOME", "/.local/share"},
                 {"XDG_CACHE_HOME", "/.cache"}};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(homes); i++)
        r = strv_addf(&t->env, "%s=%s/tenants/%s/home%s", homes[i].name, c->conf.state, t->row.name, homes[i].below);
    r = r < 0 ? r : strv_addf(&t->env, "XDG_RUNTIME_DIR=%s/t/%llu", c->conf.runtime, (unsigned long long)t->row.number);
    r = r < 0 ? r : strv_addf(&t->env, "BAWN_METER=%s/tenants/%s/meter", c->conf.state, t->row.name);
    r = r < 0 ? r : strv_addf(&t->env, "USER=%s", t->row.name);
    r = r < 0 ? r : strv_addf(&t->env, "LOGNAME=%s", t->row.name);
    r = r < 0 ? r : strv_add(&t->env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    return r < 0 ? r : strv_add(&t->env, "LANG=C.UTF-8");
}

static int make_runtime(const struct core *c, const struct tenant *t) {
    CLEANUP(closep) int all = make_dir(c, c->runtime, "t", NULL);
    CLEANUP(closep) int own = -1;
    char name[24];

    if (all < 0)
        return all;
    snprintf(name, sizeof name, "%llu", (unsigned long long)t->row.number);
    own = make_dir(c, all, name, t);
    return own < 0 ? own : 0;
}

int core_tenant_place(struct core *c, struct tenant *t, struct err *err) {
    CLEANUP(closep) int home = -1;
    int r;

    if (t->runs >= 0)
        return 0;
    if (t->dir < 0)
        t->dir = make_dir(c, c->tenants_dir, t->row.name, NULL);
    home = t->dir < 0 ? t->dir : make_dir(c, t->dir, "home", t);
    r = home < 0 ? home : make_runtime(c, t);
    r = r < 0 ? r : traffic_open(c, t);
    r = r < 0 ? r : t->env.len ? 0 : fill_env(c, t);
    t->runs = r < 0 ? r : make_dir(c, t->dir, "runs", NULL);
    dir_spread(t->runs);
    return t->runs < 0 ? err_sys(err, t->runs, "make the folders of tenant '%s'", t->row.name) : 0;
}

/* The next tenant of this name finds nothing. */
void core_tenant_trash(struct core *c, const struct tenant *t) {
    char gone[TENANT_NAME_MAX + 32];

    snprintf(gone, sizeof gone, "%s.%llu", t->row.name, (unsigned long long)t->row.number);
    if (renameat(c->tenants_dir, t->row.name, c->trash, gone) < 0 && errno != ENOENT)
        core_log(c, "error", "remove", t->row.name, "the tenant's folder cannot be moved: %s", strerror(errno));
    c->clean_at_ms = 1;
}

/* -- programs ------------------------------------------------------------------------------------------------------------------ */

static int keep_user(void *arg UNUSED) {
    umask(022); /* ours is for the folders of the service */
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* In the child: raw calls, as os/spawn.h wants it. Nothing that it starts gets privileges by a setuid bit. */
static int become_tenant(void *arg) {
    uid_t uid = *(const uid_t *)arg;

    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    return keep_user(NULL);
}

int core_spawn(const struct core *c, const struct tenant *t, const struct core_spawn *s, pid_t *ret) {
    uid_t uid = t ? t->uid : (uid_t)c->conf.uid_base; /* no tenant has number 0: bawn-front */
    const struct spawn how = {.path = s->path,
                              .argv = s->argv,
                              .envp = t ? t->env.v : NULL,
                              .fds = s->fds,
                              .n_fds = s->n_fds,
                              .cwd = s->cwd,
                              .group = SPAWN_SESSION,
                              .outlives = s->outlives,
                              .own_memory = c->root && uid != 0,
                              .before = c->root && uid != 0 ? become_tenant : keep_user,
                              .arg = &uid};

    return spawn_start(&how, ret, NULL);
}
