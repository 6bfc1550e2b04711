/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock of certificate authorities. No lock: the process that renames a folder has it. The name of a taken folder carries its owner's
 * pid and start time, so that folders of killed supervisors are found and removed: at the end of runs, not at their start.
 */
#include "supervisor/credential/castock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "broker/ca/trust_source.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "supervisor/helper.h"

enum {
    STOCK_MAX = 32, /* free ones; more runs than that at once leave no more behind */
    AGE_MAX_S = 7 * 24 * 3600,
    STOCK_LOW = 2, /* a second start that comes while the first one's is being made finds one, too */
    MAKER_NICE = 5,
    WORD_SIZE = 17,
    MESSAGE_MAX = 900
};

static const char free_prefix[] = "free-", taken_prefix[] = "taken-", making_prefix[] = "making-", folder[] = "ca";

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
        r = dir_make(AT_FDCWD, path, 0700, 0700);
        fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0)
        return err_sys(err, r < 0 ? r : -errno, "open '%s'", path);
    *ret = fd;
    return 0;
}

static void random_word(char out[static WORD_SIZE]) {
    uint8_t bytes[(WORD_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        BUG("no random numbers");
    hex_encode(bytes, sizeof bytes, out);
}

/* Made from what the host trusts now, and not too long ago: it must outlive the run. */
static bool is_fresh(int stock, const char *name, const char *stamp) {
    char path[NAME_MAX + 16], line[TRUST_STAMP_SIZE];
    struct stat st;

    snprintf(path, sizeof path, "%s/stamp", name);
    return fd_read_file_at(stock, path, line, sizeof line) >= 0 && str_eq(line, stamp) && fstatat(stock, path, &st, 0) == 0 &&
           time(NULL) - st.st_mtime < AGE_MAX_S;
}

/* One from the stock under this name; false: there is none. */
static bool take_free(int stock, const char *name, const char *stamp) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    bool found = false;

    dir_open_at(stock, ".", &d);
    while (!found && (e = dir_next(&d))) {
        if (!str_starts(e->d_name, free_prefix) || renameat(stock, e->d_name, stock, name) < 0)
            continue;
        found = is_fresh(stock, name, stamp);
        if (!found)
            remove_tree(stock, name);
    }
    return found;
}

/* Removes what the dead have left; returns how many are free. */
static size_t sweep_stock(int stock) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    size_t n = 0;

    dir_open_at(stock, ".", &d);
    while ((e = dir_next(&d))) {
        n += str_starts(e->d_name, free_prefix);
        if (helper_owner_is_dead(e->d_name, taken_prefix) || helper_owner_is_dead(e->d_name, making_prefix))
            remove_tree(stock, e->d_name);
    }
    return n;
}

/* bawn-broker --make ------------------------------------------------------------------------------------------------ */

/* like: a folder of the same kind, or NULL; messages: where stderr goes, -1 for nowhere. */
static int start_maker(const char *path, const char *like, int messages, pid_t *ret_pid, struct err *err) {
    const char *value = getenv("SSL_CERT_FILE"); /* the only variable that it looks at */
    CLEANUP(freep) char *variable = str_dupf("SSL_CERT_FILE=%s", value ? value : "");
    struct helper h = {.name = "bawn-broker",
                       .argv = (char *[]){"bawn-broker", "--make", (char *)(uintptr_t)path, (char *)(uintptr_t)like, NULL},
                       .envp = (char *[]){variable, NULL},
                       .fds = {-1, -1, messages},
                       .n_fds = STDERR_FILENO + 1};

    return variable ? helper_start(&h, ret_pid, err) : err_oom(err);
}

static int wait_for_maker(pid_t pid, int messages, struct err *err) {
    char text[MESSAGE_MAX];
    const char *line = helper_message(messages, text, sizeof text);
    int status = 0, r = helper_wait("bawn-broker", pid, &status, err);

    if (r < 0 || status == 0)
        return r;
    if (status > PROCESS_SIGNALLED)
        return err_set(err, -EIO, "bawn-broker was ended by signal %d", status - PROCESS_SIGNALLED);
    return err_set(err, -EIO, "%s", line[0] ? line : "bawn-broker failed and did not say why");
}

/* One that another run has: what is the same in all is linked from there. It may go at any moment, and then that is made again. NULL: there is none. */
static char *find_like(int stock, const char *path) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(stock, ".", &d);
    while ((e = dir_next(&d)))
        if (str_starts(e->d_name, taken_prefix))
            return str_dupf("%.*s/%s", (int)(strrchr(path, '/') - path), path, e->d_name);
    return NULL;
}

static int make_ca(const char *path, int stock, struct err *err) {
    CLEANUP(closep) int in = -1, out = -1;
    CLEANUP(freep) char *like = find_like(stock, path);
    pid_t pid = -1;
    int r = fd_pipe(&in, &out);

    if (r < 0)
        return err_sys(err, r, "start bawn-broker");
    r = start_maker(path, like, out, &pid, err);
    closep(&out);
    return r < 0 ? r : wait_for_maker(pid, in, err);
}

/* If it fails, the next run waits. */
static void make_another(struct castock *c) {
    const char *slash = strrchr(c->path, '/'), *word = strrchr(c->path, '-');
    CLEANUP(freep) char *path = str_dupf("%.*s/free-%s", (int)(slash - c->path), c->path, word + 1);
    pid_t pid = -1;

    if (path && start_maker(path, c->path, -1, &pid, NULL) == 0)
        c->maker = pid;
}

void castock_use(struct castock *c) {
    if (c->used)
        return;
    c->used = true;
    if (c->maker <= 0)
        make_another(c);
}

static size_t count_free(const char *stock) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    size_t n = 0;

    dir_open_linked(stock, &d);
    while ((e = dir_next(&d)))
        n += str_starts(e->d_name, free_prefix);
    return n;
}

void castock_refill(struct castock *c) {
    CLEANUP(freep) char *stock = c->path ? str_dupf("%.*s", (int)(strrchr(c->path, '/') - c->path), c->path) : NULL;

    if (!stock || c->maker > 0 || count_free(stock) >= STOCK_LOW)
        return;
    make_another(c);
    if (c->maker > 0)
        setpriority(PRIO_PROCESS, (id_t)c->maker, MAKER_NICE); /* no start waits for it */
}

/* Taking and giving back ------------------------------------------------------------------------------------------------ */

int castock_take(const char *state, bool needed, struct castock *ret, struct err *err) {
    CLEANUP(closep) int stock = -1;
    CLEANUP(freep) char *path = NULL;
    char name[NAME_MAX + 1], word[WORD_SIZE], stamp[TRUST_STAMP_SIZE];
    struct trust_source source;
    int r = open_stock(state, needed, &stock, err);

    *ret = (struct castock){0};
    if (r < 0 || stock < 0)
        return r;
    trust_find(getenv("SSL_CERT_FILE"), &source);
    trust_stamp(&source, stamp);
    random_word(word);
    snprintf(name, sizeof name, "%s%d-%llu-%s", taken_prefix, (int)getpid(), (unsigned long long)process_start_time(getpid()),
             word);
    path = str_dupf("%s/%s/%s", state, folder, name);
    if (!path)
        return err_oom(err);
    if (!take_free(stock, name, stamp)) {
        if (!needed)
            return 0;
        sweep_stock(stock); /* runs that are always killed never reach castock_done() */
        dir_spread(stock);
        r = make_ca(path, stock, err);
    }
    if (r == 0)
        ret->path = TAKE_PTR(path);
    return r;
}

void castock_done(struct castock *c) {
    char *slash = c->path ? strrchr(c->path, '/') : NULL, name[NAME_MAX + 1], word[WORD_SIZE];
    CLEANUP(closep) int stock = -1;

    if (c->maker > 0)
        process_wait(c->maker);
    if (slash) {
        *slash = 0;
        stock = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        random_word(word);
        snprintf(name, sizeof name, "%s%s", free_prefix, word);
    }
    if (stock >= 0 && (sweep_stock(stock) >= STOCK_MAX || c->used || renameat(stock, slash + 1, stock, name) < 0))
        remove_tree(stock, slash + 1);
    free(c->path);
    *c = (struct castock){0};
}
