/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "registry/usage_priv.h"

enum { USAGE_TEXT_MAX = 4096 };

static bool read_number(int dir, const char *file, const char *key, uint64_t *ret) {
    char text[USAGE_TEXT_MAX];
    const char *at = text;

    if (fd_read_file_at(dir, file, text, sizeof text) <= 0)
        return false;
    if (key) {
        at = strstr(text, key);
        if (!at)
            return false;
        at += strlen(key);
    }
    *ret = strtoull(at, NULL, 10);
    return true;
}

/* The names of cgroup2, then those of version 1. */
static void read_group(int dir, struct box_usage *u) {
    uint64_t v;

    if (read_number(dir, "memory.current", NULL, &v) || read_number(dir, "memory.usage_in_bytes", NULL, &v)) {
        u->has_memory = true;
        u->memory = v;
    }
    if (read_number(dir, "cpu.stat", "usage_usec ", &v)) {
        u->has_cpu = true;
        u->cpu_us = v;
    } else if (read_number(dir, "cpuacct.usage", NULL, &v)) {
        u->has_cpu = true;
        u->cpu_us = v / 1000;
    }
    if (read_number(dir, "pids.current", NULL, &v)) {
        u->has_pids = true;
        u->pids = v;
    }
}

static void read_groups(const struct box_state *s, struct box_usage *ret) {
    *ret = (struct box_usage){0};
    for (size_t i = 0; i < s->cgroups.len; i++) {
        CLEANUP(closep) int dir = open(s->cgroups.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (dir >= 0)
            read_group(dir, ret);
    }
}

static bool is_whole(const struct box_usage *u) {
    return u->has_memory && u->has_cpu && u->has_pids;
}

void box_usage(const struct box_state *s, struct box_usage *ret) {
    read_groups(s, ret);
    if (!is_whole(ret) && s->init > 0)
        usage_walk(&(struct usage_of){.init = s->init, .usage = ret}, 1);
}

void box_usage_all(const struct box *v, size_t n, struct box_usage *ret) {
    CLEANUP(freep) struct usage_of *rest = calloc(n + 1, sizeof *rest);
    size_t n_rest = 0;

    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct box_usage){0};
        if (box_look(&v[i], NULL) > BOX_STOPPING)
            continue;
        read_groups(&v[i].state, &ret[i]);
        if (rest && !is_whole(&ret[i]) && v[i].state.init > 0)
            rest[n_rest++] = (struct usage_of){.init = v[i].state.init, .usage = &ret[i]};
    }
    usage_walk(rest, n_rest);
}
