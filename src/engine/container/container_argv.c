/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of `docker run` and `podman run`. */
#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container_far.h"

/* What every container of ours has. The capabilities are bawn-enter's, and gone before bawn-init begins. */
static const char *const always[] = {
    "--pull=never",     "--network=none",    "--cap-drop=ALL",  "--cap-add=SETUID",
    "--cap-add=SETGID", "--cap-add=SETPCAP", "--cap-add=CHOWN", "--security-opt=no-new-privileges",
    "--user=0:0",       "--workdir=/",       "--ipc=private",   "--log-driver=none"};
static const char *const always_here[] = {"--rm", "--read-only"};
/* It is started twice, and what comes through its input is written to its own layer, which the command's user cannot change. */
static const char *const always_there[] = {"--cap-add=DAC_OVERRIDE", ("--entrypoint=" CONTAINER_INIT)};

/* For its listeners: routes, rules, and port 53. */
static const char *const with_network[] = {"--cap-add=NET_ADMIN", "--cap-add=NET_BIND_SERVICE"};

struct argv_out {
    struct strv *v;
    bool failed;
};

static void add_arg(struct argv_out *a, char *arg) {
    if (!arg || strv_add_take(a->v, arg) < 0)
        a->failed = true;
}

/* One field of --mount, which is a line of comma-separated values. */
static void add_field(struct buf *out, const char *key, const char *value) {
    buf_addf(out, ",\"%s=", key);
    for (; *value; value++) {
        if (*value == '"')
            buf_addc(out, '"');
        buf_addc(out, *value);
    }
    buf_addc(out, '"');
}

/* With SELinux a container reads and writes what has its label; --mount of docker cannot give one. A colon would end the name. */
static bool add_labelled(struct argv_out *a, const char *from, const char *to, bool writable) {
    if (strchr(from, ':') || strchr(to, ':'))
        return false;
    add_arg(a, str_dupf("--volume=%s:%s:%s,z", from, to, writable ? "rw" : "ro"));
    return true;
}

static void add_volume(struct argv_out *a, const char *to) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    buf_adds(&b, "--mount=type=volume");
    add_field(&b, "target", to);
    add_arg(a, buf_take(&b));
}

static void add_mount(struct argv_out *a, const char *from, const char *to, bool writable) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    buf_adds(&b, "--mount=type=bind");
    add_field(&b, "source", from);
    add_field(&b, "target", to);
    if (!writable)
        buf_adds(&b, ",readonly");
    add_arg(a, buf_take(&b));
}

/* Only what is Bawn's own gets a label: that of the host's system, or of a folder that the user mounts, is not ours to change. */
static void add_own(struct argv_out *a, const struct container_names *n, const char *from, const char *to, bool writable) {
    if (!n->selinux || !add_labelled(a, from, to, writable))
        add_mount(a, from, to, writable);
}

/* An empty volume for each folder that the command writes to; it goes with the container. */
static void add_volumes(struct argv_out *a, const struct container_plan *c) {
    for (size_t i = 0; i < c->n_mounts; i++)
        if (c->mounts[i].writable && container_far_is_tree(c, i))
            add_volume(a, c->mounts[i].to);
}

static bool has_programs(const struct container_plan *c) {
    return c->root_programs.len > 0;
}

static void add_mounts(struct argv_out *a, const struct container_plan *c, const struct container_names *n) {
    CLEANUP(freep) char *link = str_dupf("%s/link", n->folder), *run = str_dupf("%s/run", n->folder);

    a->failed |= !link || !run;
    if (a->failed)
        return;
    if (!has_programs(c)) {
        add_own(a, n, link, CONTAINER_LINK, false);
        add_mount(a, n->enter, CONTAINER_ENTER, false);
        add_mount(a, n->init, CONTAINER_INIT, false);
    }
    add_own(a, n, run, CONTAINER_RUN, false);
    for (size_t i = 0; i < c->n_mounts; i++) {
        const struct container_mount *m = &c->mounts[i];

        if (m->ours)
            add_own(a, n, m->from, m->to, m->writable);
        else
            add_mount(a, m->from, m->to, m->writable);
    }
}

static void add_limits(struct argv_out *a, const struct plan *p, bool own_kernel) {
    const struct limits *l = &p->limits;

    if (l->memory) {
        add_arg(a, str_dupf("--memory=%" PRIu64, l->memory));
        add_arg(a, str_dupf("--memory-swap=%" PRIu64, l->memory));
    }
    if (l->cpus_milli)
        add_arg(a, str_dupf("--cpus=%u.%03u", (unsigned)(l->cpus_milli / 1000), (unsigned)(l->cpus_milli % 1000)));
    if (l->pids &&
        !own_kernel) /* and bawn-init, which the user did not count. gVisor itself has many threads, and would be ended */
        add_arg(a, str_dupf("--pids-limit=%" PRIu64, (uint64_t)l->pids + 1));
}

/* podman lowers its own limit of processes to this before it starts a container, and cannot give more. */
enum { PODMAN_NPROC = 32768 };

static void add_rlimits(struct argv_out *a) {
    static const struct {
        int resource;
        const char *name;
        rlim_t most;
    } table[] = {{RLIMIT_NOFILE, "nofile", RLIM_INFINITY}, {RLIMIT_NPROC, "nproc", PODMAN_NPROC}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct rlimit now;

        if (getrlimit(table[i].resource, &now) < 0)
            continue;
        now.rlim_max = MIN_OF(now.rlim_max, table[i].most);
        now.rlim_cur = MIN_OF(now.rlim_cur, now.rlim_max);
        if (now.rlim_max != RLIM_INFINITY)
            add_arg(a,
                    str_dupf("--ulimit=%s=%" PRIu64 ":%" PRIu64, table[i].name, (uint64_t)now.rlim_cur, (uint64_t)now.rlim_max));
    }
}

/* Their owner and mode are bawn-enter's: not every engine has options for these. */
static void add_privates(struct argv_out *a, const struct plan *p, const struct container_plan *c) {
    for (size_t i = 0; i < c->n_privates; i++)
        if (c->privates[i].tmpfs)
            add_arg(a, str_dupf("--tmpfs=%s:rw,exec,nosuid,nodev,size=%" PRIu64, c->privates[i].path, p->private_size));
}

static void add_command(struct argv_out *a, const struct plan *p, const struct container_plan *c,
                        const struct container_names *n) {
    add_arg(a, strdup(n->image));
    if (n->remote)
        add_arg(a, strdup("--far"));
    add_arg(a, str_dupf("%u", p->ids.inside_uid));
    add_arg(a, str_dupf("%u", p->ids.inside_gid));
    add_arg(a, strdup(p->network ? "network" : "loopback"));
    add_arg(a, strdup(n->by_bytes ? "-" : CONTAINER_RUN "/sock"));
    add_arg(a, strdup(has_programs(c) ? CONTAINER_BIN "/bawn-init" : CONTAINER_INIT));
    for (size_t i = 0; i < c->n_privates; i++)
        add_arg(a, str_dupf("%o:%s", (unsigned)c->privates[i].mode, c->privates[i].path));
}

int container_argv_make(const struct container_kind *k, const struct plan *p, const struct container_plan *c,
                        const struct container_names *n, struct strv *ret, struct err *err) {
    struct argv_out a = {.v = ret};

    add_arg(&a, strdup(k->program));
    add_arg(&a, strdup(n->remote ? "create" : "run"));
    if (n->by_bytes)
        add_arg(&a, strdup("--interactive"));
    for (size_t i = 0; k->options[i]; i++)
        add_arg(&a, strdup(k->options[i]));
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        add_arg(&a, strdup(always[i]));
    for (size_t i = 0; !n->remote && i < ARRAY_LEN(always_here); i++)
        add_arg(&a, strdup(always_here[i]));
    if (!n->remote)
        add_arg(&a, strdup(has_programs(c) ? "--entrypoint=" CONTAINER_BIN "/bawn-enter" : "--entrypoint=" CONTAINER_ENTER));
    for (size_t i = 0; n->remote && i < ARRAY_LEN(always_there); i++)
        add_arg(&a, strdup(always_there[i]));
    if (p->network)
        for (size_t i = 0; i < ARRAY_LEN(with_network); i++)
            add_arg(&a, strdup(with_network[i]));
    if (p->network && n->own_kernel)
        add_arg(&a, strdup("--cap-add=NET_RAW")); /* for gVisor's packet rules */
    for (size_t i = 0; n->own_kernel && k->of_runsc && k->of_runsc[i]; i++)
        add_arg(&a, strdup(k->of_runsc[i]));
    if (k->own_rlimits && !n->remote)
        add_rlimits(&a);
    for (size_t i = 0; geteuid() != 0 && !n->remote && k->of_users[i]; i++)
        add_arg(&a, strdup(k->of_users[i]));
    if (!n->remote)
        add_arg(&a, str_dupf("--cidfile=%s/" CONTAINER_CID, n->folder));
    add_arg(&a, str_dupf("--hostname=%s", p->hostname));
    add_arg(&a, str_dupf("--label=" CONTAINER_LABEL "=%s", n->label));
    add_limits(&a, p, n->own_kernel);
    add_privates(&a, p, c);
    if (n->remote)
        add_volumes(&a, c);
    else
        add_mounts(&a, c, n);
    for (size_t i = 0; n->flags && i < n->flags->len; i++)
        add_arg(&a, strdup(n->flags->v[i]));
    add_command(&a, p, c, n);
    return a.failed ? err_oom(err) : 0;
}
