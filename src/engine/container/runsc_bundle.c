/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle that runsc starts: in the folder of the run a root with nothing but names, and config.json with the mounts of the container plan.
 *
 *     box-.../config.json
 *            /root/...       the names that things are mounted on; read-only inside
 *            /state/...      runsc's own
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "engine/container/container_box.h"
#include "engine/container/runsc.h"
#include "os/dir.h"
#include "os/fd.h"

enum { CONFIG_MAX = 4 * 1024 * 1024 };

/* bawn-enter's, gone before bawn-init begins. gVisor's rules are set through a raw socket. */
static const char *const caps[] = {"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN"};
static const char *const caps_network[] = {"CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW"};
/* To make the user namespace in which root has its name back, and its maps. */
static const char *const namespaces[] = {"pid", "network", "ipc", "uts", "mount"};

struct runsc_config {
    struct jsonout out;
    bool bad; /* a path that JSON cannot say */
};

static void add_path(struct runsc_config *c, const char *key, const char *path) {
    c->bad |= !str_is_utf8(path);
    jsonout_text(&c->out, key, path);
}

static void add_mount(struct runsc_config *c, const char *type, const char *from, const char *to, const char *const *options) {
    jsonout_open(&c->out, NULL, '{');
    add_path(c, "destination", to);
    jsonout_text(&c->out, "type", type);
    add_path(c, "source", from);
    jsonout_open(&c->out, "options", '[');
    for (; *options; options++)
        jsonout_text(&c->out, NULL, *options);
    jsonout_close(&c->out, ']');
    jsonout_close(&c->out, '}');
}

static void add_bind(struct runsc_config *c, const char *from, const char *to, bool writable) {
    add_mount(c, "bind", from, to, (const char *const[]){"rbind", writable ? "rw" : "ro", NULL});
}

static void add_tmpfs(struct runsc_config *c, const struct container_private *p, uint64_t size) {
    char text[40];

    snprintf(text, sizeof text, "size=%" PRIu64, size);
    add_mount(c, "tmpfs", "tmpfs", p->path, (const char *const[]){"rw", "nosuid", "nodev", text, NULL});
}

static void add_mounts(struct runsc_config *c, const struct container_box *b, const struct plan *p) {
    CLEANUP(freep) char *link = str_dupf("%s/link", b->folder.path), *run = str_dupf("%s/run", b->folder.path);
    static const char *const plain[] = {"nosuid", "noexec", "nodev", NULL};

    c->bad |= !link || !run;
    if (c->bad)
        return;
    jsonout_open(&c->out, "mounts", '[');
    add_mount(c, "proc", "proc", "/proc", plain);
    for (size_t i = 0; i < b->plan.n_privates; i++)
        if (b->plan.privates[i].tmpfs)
            add_tmpfs(c, &b->plan.privates[i], p->private_size);
    add_bind(c, link, CONTAINER_LINK, false);
    add_bind(c, b->enter, CONTAINER_LINK "/bawn-enter", false);
    add_bind(c, b->init, CONTAINER_LINK "/bawn-init", false);
    add_bind(c, run, CONTAINER_RUN, false);
    for (size_t i = 0; i < b->plan.n_mounts; i++)
        add_bind(c, b->plan.mounts[i].from, b->plan.mounts[i].to, b->plan.mounts[i].writable);
    jsonout_close(&c->out, ']');
}

static void add_caps(struct runsc_config *c, bool network) {
    static const char *const sets[] = {"bounding", "effective", "permitted"};

    jsonout_open(&c->out, "capabilities", '{');
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        jsonout_open(&c->out, sets[i], '[');
        for (size_t k = 0; k < ARRAY_LEN(caps); k++)
            jsonout_text(&c->out, NULL, caps[k]);
        for (size_t k = 0; network && k < ARRAY_LEN(caps_network); k++)
            jsonout_text(&c->out, NULL, caps_network[k]);
        jsonout_close(&c->out, ']');
    }
    jsonout_close(&c->out, '}');
}

/* Started by an ordinary user, runsc shows that user as root. */
static void add_args(struct runsc_config *c, const struct container_box *b, const struct plan *p) {
    char id[2][16];

    snprintf(id[0], sizeof id[0], "%u", p->ids.inside_uid);
    snprintf(id[1], sizeof id[1], "%u", p->ids.inside_gid);
    jsonout_open(&c->out, "args", '[');
    jsonout_text(&c->out, NULL, CONTAINER_ENTER);
    if (!p->ids.by_root)
        jsonout_text(&c->out, NULL, "--map");
    jsonout_text(&c->out, NULL, id[0]);
    jsonout_text(&c->out, NULL, id[1]);
    jsonout_text(&c->out, NULL, p->network ? "network" : "loopback");
    jsonout_text(&c->out, NULL, "-");
    jsonout_text(&c->out, NULL, CONTAINER_LINK "/bawn-init");
    for (size_t i = 0; i < b->plan.n_privates; i++) {
        CLEANUP(freep) char *folder = str_dupf("%o:%s", (unsigned)b->plan.privates[i].mode, b->plan.privates[i].path);

        c->bad |= !folder;
        add_path(c, NULL, folder ? folder : "");
    }
    jsonout_close(&c->out, ']');
}

static void add_process(struct runsc_config *c, const struct container_box *b, const struct plan *p) {
    jsonout_open(&c->out, "process", '{');
    jsonout_open(&c->out, "user", '{');
    jsonout_u64(&c->out, "uid", 0);
    jsonout_u64(&c->out, "gid", 0);
    jsonout_close(&c->out, '}');
    add_args(c, b, p);
    jsonout_text(&c->out, "cwd", "/");
    jsonout_bool(&c->out, "noNewPrivileges", true);
    add_caps(c, p->network);
    jsonout_close(&c->out, '}');
}

static int make_config(const struct container_box *b, const struct plan *p, struct buf *to, struct err *err) {
    struct runsc_config c = {.out = {.to = to}};
    CLEANUP(freep) char *image = str_dupf("%s/root", b->image_root.path ? b->image_root.path : "");

    jsonout_open(&c.out, NULL, '{');
    jsonout_text(&c.out, "ociVersion", "1.0.0");
    add_process(&c, b, p);
    jsonout_open(&c.out, "root", '{');
    if (b->image_root.path)
        add_path(&c, "path", image);
    else
        jsonout_text(&c.out, "path", "root");
    jsonout_bool(&c.out, "readonly", true);
    jsonout_close(&c.out, '}');
    jsonout_text(&c.out, "hostname", p->hostname);
    add_mounts(&c, b, p);
    jsonout_open(&c.out, "linux", '{');
    jsonout_open(&c.out, "namespaces", '[');
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        jsonout_open(&c.out, NULL, '{');
        jsonout_text(&c.out, "type", namespaces[i]);
        jsonout_close(&c.out, '}');
    }
    jsonout_close(&c.out, ']');
    jsonout_close(&c.out, '}');
    jsonout_close(&c.out, '}');
    if (!image)
        return err_oom(err);
    if (c.bad)
        return err_set(err, -EILSEQ, "engine %s: a path that is mounted is no UTF-8, which its configuration cannot name",
                       b->kind->name);
    return buf_ok(to) ? 0 : err_oom(err);
}

static int make_root(int folder, const struct container_plan *c) {
    int r = 0;

    for (size_t i = 0; r == 0 && container_root_folders[i]; i++) {
        char path[64];

        snprintf(path, sizeof path, "root/%s", container_root_folders[i]);
        r = dir_make(folder, path, 0755, 0755);
    }
    for (size_t i = 0; r == 0 && i + 1 < c->root_links.len; i += 2) {
        CLEANUP(freep) char *path = str_dupf("root%s", c->root_links.v[i]);

        r = !path ? -ENOMEM : symlinkat(c->root_links.v[i + 1], folder, path) < 0 ? -errno : 0;
    }
    return r;
}

int runsc_bundle_make(const struct container_box *b, const struct plan *p, struct err *err) {
    CLEANUP(buf_done) struct buf config = BUF_INIT(CONFIG_MAX);
    CLEANUP(closep)
    int folder = openat(b->folder.parent, b->folder.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), fd = -1;
    int r = make_config(b, p, &config, err);

    if (r < 0)
        return r;
    r = folder < 0 ? -errno : make_root(folder, &b->plan);
    if (r == 0 && (fd = openat(folder, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
        r = -errno;
    r = r < 0 ? r : fd_write_all(fd, config.data, config.len);
    return r < 0 ? err_sys(err, r, "write the bundle for runsc to '%s'", b->folder.path) : 0;
}
