/* SPDX-License-Identifier: Apache-2.0 */
/* The templates of a pool, and the eye on what they show. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "supervisor/pool/pool_priv.h"

enum { WATCHED = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF };

int pool_templates_init(struct pool_templates *t, struct err *err) {
    *t = (struct pool_templates){.changes = -1, .mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)};
    for (size_t i = 0; i < POOL_TEMPLATES_MAX; i++)
        t->v[i] = (struct template)TEMPLATE_INIT;
    return t->mounts < 0 ? err_sys(err, -errno, "open '/proc/self/mountinfo'") : 0;
}

static void drop_all(struct pool_templates *t) {
    for (size_t i = 0; i < POOL_TEMPLATES_MAX; i++)
        template_done(&t->v[i]);
    closep(&t->changes);
}

void pool_templates_done(struct pool_templates *t) {
    drop_all(t);
    free(TAKE_PTR(t->wanted));
    closep(&t->mounts);
}

size_t pool_templates_count(const struct pool_templates *t) {
    size_t n = 0;

    for (size_t i = 0; i < POOL_TEMPLATES_MAX; i++)
        n += t->v[i].bytes != NULL;
    return n;
}

void pool_templates_look(struct pool_templates *t) {
    struct pollfd at[] = {{.fd = t->changes, .events = POLLIN}, {.fd = t->mounts, .events = POLLPRI}};

    if (poll(at, ARRAY_LEN(at), 0) != 0) /* also if the look fails */
        drop_all(t);
}

static const struct template *find_template(const struct pool_templates *t, const char *bytes, size_t len) {
    for (size_t i = 0; i < POOL_TEMPLATES_MAX; i++)
        if (t->v[i].len == len && t->v[i].bytes && memcmp(t->v[i].bytes, bytes, len) == 0)
            return &t->v[i];
    return NULL;
}

void pool_templates_want(struct pool_templates *t, const char *bytes, size_t len) {
    if (find_template(t, bytes, len) || t->wanted || !(t->wanted = malloc(len)))
        return;
    memcpy(t->wanted, bytes, len);
    t->wanted_len = len;
}

int pool_templates_tree(struct pool_templates *t, const char *bytes, size_t len) {
    const struct template *found = find_template(t, bytes, len);
    int tree = found ? template_clone(found) : -1;

    if (!found)
        pool_templates_want(t, bytes, len);
    t->trees += tree >= 0;
    return tree < 0 ? -1 : tree;
}

/* The folder that holds it, or that would hold the first part of the way to it: its replacement, or what comes where nothing
 * was, is noticed. Changes in a file or folder itself are seen through the mount. */
static int watch_holder(void *arg, const char *path) {
    struct pool_templates *t = arg;
    char dir[PATH_MAX];
    char *slash;

    if (path[0] != '/' || (size_t)snprintf(dir, sizeof dir, "%s", path) >= sizeof dir)
        return -EINVAL;
    while ((slash = strrchr(dir, '/'))) {
        slash[slash == dir] = 0;
        if (inotify_add_watch(t->changes, dir, WATCHED | IN_ONLYDIR) >= 0)
            return 0;
        if ((errno != ENOENT && errno != ENOTDIR) || slash == dir)
            return -errno;
    }
    return -EINVAL;
}

/* Watches first: what changes while it is being made counts. One that cannot be made, or watched, is not offered. */
void pool_templates_work(struct pool_templates *t) {
    CLEANUP(freep) char *bytes = TAKE_PTR(t->wanted);
    struct template *place = &t->v[t->next];
    struct err ignored;

    if (t->changes < 0)
        t->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (t->changes < 0 || template_each_source(bytes, t->wanted_len, watch_holder, t) < 0)
        return;
    template_done(place);
    if (template_make(bytes, t->wanted_len, place, &ignored) == 0)
        t->next = (t->next + 1) % POOL_TEMPLATES_MAX;
}
