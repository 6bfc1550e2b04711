/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No lock: whoever renames a folder has it. The name of a taken folder carries proof of who has it, pid and start time, so that those
 * of supervisors that were killed can be told and removed; that is done at the end of runs, not at their start.
 */
#include "supervisor/credential/castock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "broker/ca/trust_source.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "supervisor/credential/castock_priv.h"

enum {
    STOCK_MAX = 32, /* free ones; more runs than that at once leave no more behind */
    AGE_MAX_S = 7 * 24 * 3600
};

static const char free_prefix[] = "free-", taken_prefix[] = "taken-", making_prefix[] = "making-", folder[] = "ca";

static int make_parents(char *path) {
    int r = 0;

    for (char *p = path + 1; r == 0 && (p = strchr(p, '/')); p++) {
        *p = 0;
        r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        *p = '/';
    }
    return r < 0 ? r : mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* *ret is -1 if there is no stock and make is false. */
static int open_stock(const char *state, bool make, int *ret, struct err *err) {
    char path[PATH_MAX];
    int fd, r = 0;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", state, folder) >= sizeof path)
        return err_set(err, -ENAMETOOLONG, "the path of the state folder is too long");
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (!make)
            return 0;
        r = make_parents(path);
        fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0)
        return err_sys(err, r < 0 ? r : -errno, "open '%s'", path);
    *ret = fd;
    return 0;
}

static void random_word(char out[static CASTOCK_WORD_SIZE]) {
    uint8_t bytes[(CASTOCK_WORD_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        BUG("no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void taken_name(char out[static NAME_MAX + 1]) {
    char word[CASTOCK_WORD_SIZE];

    random_word(word);
    snprintf(out, NAME_MAX + 1, "%s%d-%llu-%s", taken_prefix, (int)getpid(), (unsigned long long)process_start_time(getpid()),
             word);
}

/* Made from what the host trusts now, and not too long ago: it must outlive the run. */
static bool is_fresh(int stock, const char *name, const char *stamp) {
    char path[NAME_MAX + 16], line[TRUST_STAMP_SIZE];
    struct stat st;

    snprintf(path, sizeof path, "%s/stamp", name);
    return fd_read_file_at(stock, path, line, sizeof line) >= 0 && str_eq(line, stamp) && fstatat(stock, path, &st, 0) == 0 &&
           time(NULL) - st.st_mtime < AGE_MAX_S;
}

static DIR *list(int stock) {
    int copy = openat(stock, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);

    if (!d)
        closep(&copy);
    return d;
}

/* One from the stock under this name; false: there is none. */
static bool take_free(int stock, const char *name, const char *stamp) {
    DIR *d = list(stock);
    struct dirent *e;
    bool found = false;

    if (!d)
        return false;
    while (!found && (e = readdir(d))) {
        if (!str_starts(e->d_name, free_prefix) || renameat(stock, e->d_name, stock, name) < 0)
            continue;
        found = is_fresh(stock, name, stamp);
        if (!found)
            remove_tree(stock, name);
    }
    closedir(d);
    return found;
}

/* "taken-<pid>-<start time>-..." and "making-<pid>-<start time>-..." */
static bool owner_is_dead(const char *name) {
    const char *prefix = str_starts(name, taken_prefix) ? taken_prefix : str_starts(name, making_prefix) ? making_prefix : NULL;
    unsigned long long start;
    int pid;

    if (!prefix || sscanf(name + strlen(prefix), "%d-%llu-", &pid, &start) != 2 || pid <= 0)
        return false;
    return process_is_dead(pid, start);
}

/* Removes what the dead have left; returns how many are free. */
static size_t sweep(int stock) {
    DIR *d = list(stock);
    struct dirent *e;
    size_t n = 0;

    if (!d)
        return 0;
    while ((e = readdir(d))) {
        n += str_starts(e->d_name, free_prefix);
        if (owner_is_dead(e->d_name))
            remove_tree(stock, e->d_name);
    }
    closedir(d);
    return n;
}

int castock_take(const char *state, bool needed, struct castock *ret, struct err *err) {
    CLEANUP(closep) int stock = -1;
    CLEANUP(freep) char *path = NULL;
    char name[NAME_MAX + 1], stamp[TRUST_STAMP_SIZE];
    struct trust_source source;
    int r = open_stock(state, needed, &stock, err);

    if (r < 0)
        return r;
    if (stock < 0) {
        *ret = (struct castock){0};
        return 0;
    }
    trust_find(getenv("SSL_CERT_FILE"), &source);
    trust_stamp(&source, stamp);
    taken_name(name);
    path = str_dupf("%s/%s/%s", state, folder, name);
    if (!path)
        return err_oom(err);
    if (!take_free(stock, name, stamp)) {
        if (!needed) {
            *ret = (struct castock){0};
            return 0;
        }
        sweep(stock); /* whoever is always killed never comes to the end, where it is done otherwise */
        r = castock_make(path, err);
    }
    if (r < 0)
        return r;
    *ret = (struct castock){.path = TAKE_PTR(path)};
    return 0;
}

void castock_done(struct castock *c) {
    char *slash = c->path ? strrchr(c->path, '/') : NULL, name[NAME_MAX + 1], word[CASTOCK_WORD_SIZE];
    CLEANUP(closep) int stock = -1;

    castock_wait_maker(c);
    if (slash) {
        *slash = 0;
        stock = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        random_word(word);
        snprintf(name, sizeof name, "%s%s", free_prefix, word);
    }
    if (stock >= 0 && (sweep(stock) >= STOCK_MAX || c->used || renameat(stock, slash + 1, stock, name) < 0))
        remove_tree(stock, slash + 1);
    free(c->path);
    *c = (struct castock){0};
}
