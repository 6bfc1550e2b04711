/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and filters the lines of all logs. */
#include "audit/view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"

/* How far a log was read. */
struct view_seen {
    char *log;
    ino_t inode; /* 0: not yet */
    uint64_t at;
};

struct view_file {
    char log[CHAIN_NAME_MAX + 1];
    uint64_t number; /* UINT64_MAX: the current one */
};

struct map {
    char *data;
    size_t len;
};

struct view {
    int dir;
    struct view_seen *seen;
    struct view_file *files;
    struct map *maps;
    struct view_line *lines;
    size_t n_seen, n_files, n_maps, n_lines;
    struct strv names;
    bool saw;
};

static void forget_maps(struct view *v) {
    for (size_t i = 0; i < v->n_maps; i++)
        munmap(v->maps[i].data, v->maps[i].len);
    v->n_maps = v->n_lines = v->n_files = 0;
}

int view_new(int dir, struct view **ret, struct err *err) {
    struct view *v = calloc(1, sizeof *v);

    if (!v)
        return err_oom(err);
    v->dir = dir;
    *ret = v;
    return 0;
}

void view_freep(struct view **view) {
    struct view *v = TAKE_PTR(*view);

    if (!v)
        return;
    forget_maps(v);
    for (size_t i = 0; i < v->n_seen; i++)
        free(v->seen[i].log);
    free(v->seen);
    free(v->files);
    free(v->maps);
    free(v->lines);
    strv_done(&v->names);
    free(v);
}

bool view_saw(const struct view *v) {
    return v->saw;
}

const struct strv *view_names(const struct view *v) {
    return &v->names;
}

/* -- which lines ---------------------------------------------------------------------------------------------------------- */

struct view_part {
    const char *s;
    size_t n;
};

/* "key":"value" at *at, and a comma after it. The members come first in a line, always in this order. */
static bool take_member(const char **at, const char *end, const char *key, struct view_part *ret) {
    size_t n = strlen(key);
    const char *s = *at, *stop;

    if ((size_t)(end - s) < n || memcmp(s, key, n) != 0)
        return false;
    for (stop = s += n; stop < end && *stop != '"'; stop++)
        if (*stop == '\\')
            stop++;
    if (stop >= end)
        return false;
    *ret = (struct view_part){s, (size_t)(stop - s)};
    *at = stop + 1;
    return true;
}

static bool part_is(const struct view_part *p, const char *s) {
    return strlen(s) == p->n && memcmp(p->s, s, p->n) == 0;
}

static bool is_stamp(const char *s, size_t n) {
    static const char shape[] = "-00000000T000000Z";

    if (n != sizeof shape - 1)
        return false;
    for (size_t i = 0; i < n; i++)
        if (shape[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != shape[i])
            return false;
    return true;
}

/* NAME of the id "bawn-NAME-20261115T195402Z", or "...Z-2"; anything else as it is. "a-1" is another sandbox than "a". */
static struct view_part name_of(const struct view_part *sandbox) {
    static const char prefix[] = "bawn-";
    enum { PREFIX = sizeof prefix - 1, STAMP = 17 };
    size_t n = sandbox->n, digits = 0;

    while (digits < n && sandbox->s[n - digits - 1] >= '0' && sandbox->s[n - digits - 1] <= '9')
        digits++;
    if (digits && digits < n && sandbox->s[n - digits - 1] == '-')
        n -= digits + 1;
    if (n <= PREFIX + STAMP || memcmp(sandbox->s, prefix, PREFIX) != 0 || !is_stamp(sandbox->s + n - STAMP, STAMP))
        return *sandbox;
    return (struct view_part){sandbox->s + PREFIX, n - PREFIX - STAMP};
}

static bool has_name(const struct view_filter *f, const struct view_part *sandbox, const struct view_part *run) {
    struct view_part name = name_of(sandbox);

    return !f->name || part_is(sandbox, f->name) || part_is(run, f->name) || part_is(&name, f->name) ||
           (f->id && part_is(sandbox, f->id));
}

static bool has_type(const struct view_filter *f, const struct view_part *type) {
    if (!f->types)
        return true;
    for (int i = 0; i < AUDIT_TYPES; i++)
        if ((f->types & 1u << i) && part_is(type, audit_type_names[i]))
            return true;
    return false;
}

static bool in_time(const struct view_filter *f, const struct view_part *time) {
    size_t since = MIN_OF(strlen(f->since), time->n), until = MIN_OF(strlen(f->until), time->n);

    return strncmp(time->s, f->since, since) >= 0 && (!until || strncmp(time->s, f->until, until) <= 0);
}

static int remember(struct view *v, const struct view_part *sandbox) {
    struct view_part of = name_of(sandbox);
    CLEANUP(freep) char *name = of.n && v->names.len < VIEW_NAMES_MAX ? strndup(of.s, of.n) : NULL;

    if (!name || (v->names.len && str_eq(v->names.v[v->names.len - 1], name)) || strv_has(&v->names, name))
        return 0;
    return strv_add(&v->names, name);
}

/* What is no line of ours is `bawn log verify`'s business. */
static int take_line(struct view *v, const struct view_filter *f, const char *text, size_t len) {
    const char *at = memchr(text, ',', len), *end = text + len;
    struct view_part time, type, sandbox, run;
    int r;

    if (!at || !take_member(&at, end, ",\"time\":\"", &time) || !take_member(&at, end, ",\"type\":\"", &type) ||
        !take_member(&at, end, ",\"sandbox\":\"", &sandbox) || !take_member(&at, end, ",\"run\":\"", &run) ||
        time.n + 1 >= VIEW_TIME_SIZE)
        return 0;
    r = f->name ? remember(v, &sandbox) : 0;
    if (r < 0 || !has_name(f, &sandbox, &run))
        return r;
    v->saw = true;
    if (!has_type(f, &type) || !in_time(f, &time))
        return 0;
    return VEC_ADD(v->lines, v->n_lines, (struct view_line){.text = text, .len = len, .time = time.s, .order = v->n_lines});
}

/* -- the files ------------------------------------------------------------------------------------------------------------ */

static int compare_files(const void *a, const void *b) {
    const struct view_file *x = a, *y = b;
    int c = strcmp(x->log, y->log);

    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int list_files(struct view *v) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(v->dir, ".", &d);

    while (r == 0 && (e = dir_next(&d))) {
        struct view_file f = {.number = 0};
        size_t len = chain_file_parse(e->d_name, &f.number);

        if (!len || str_starts(e->d_name, CHAIN_INDEX ".jsonl"))
            continue;
        memcpy(f.log, e->d_name, len);
        f.number = f.number ? f.number : UINT64_MAX;
        r = VEC_ADD(v->files, v->n_files, f);
    }
    if (v->n_files)
        qsort(v->files, v->n_files, sizeof *v->files, compare_files);
    return r < 0 ? r : d.error;
}

static int find_seen(struct view *v, const char *log, struct view_seen **ret) {
    CLEANUP(freep) char *copy = NULL;

    for (size_t i = 0; i < v->n_seen; i++)
        if (str_eq(v->seen[i].log, log)) {
            *ret = &v->seen[i];
            return 0;
        }
    copy = strdup(log);
    *ret = copy ? VEC_NEW(v->seen, v->n_seen) : NULL;
    if (!*ret)
        return -ENOMEM;
    (*ret)->log = TAKE_PTR(copy);
    return 0;
}

/* Whole lines from `from` on; *ret_at: where they end. */
static int read_map(struct view *v, const struct view_filter *f, int fd, uint64_t from, uint64_t size, uint64_t *ret_at) {
    char *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0), *at, *end;
    int r = data == MAP_FAILED ? -errno : VEC_ADD(v->maps, v->n_maps, (struct map){data, size});

    if (r < 0 && data != MAP_FAILED)
        munmap(data, size);
    for (at = data + from; r == 0 && at < data + size; at = end + 1) {
        end = memchr(at, '\n', (size_t)(data + size - at));
        if (!end)
            break;
        r = end - at > AUDIT_LINE_MAX ? 0 : take_line(v, f, at, (size_t)(end - at));
    }
    if (r == 0)
        *ret_at = (uint64_t)(at - data);
    return r;
}

static int open_log_file(const struct view *v, const struct view_file *file, struct stat *st) {
    char name[CHAIN_FILE_MAX];
    int fd;

    chain_file(file->log, file->number == UINT64_MAX ? 0 : file->number, name);
    fd = openat(v->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
        return fd;
    close(fd);
    return -ENOENT;
}

static int read_log_file(struct view *v, const struct view_filter *f, const struct view_file *file, struct view_seen *seen) {
    struct stat st;
    CLEANUP(closep) int fd = open_log_file(v, file, &st);
    uint64_t from = 0;
    int r = 0;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd; /* renamed or dropped just now: it comes with the next turn, or not at all */
    if (seen->inode == st.st_ino)
        from = seen->at;
    seen->inode = st.st_ino;
    seen->at = from;
    if ((uint64_t)st.st_size > from)
        r = read_map(v, f, fd, from, (uint64_t)st.st_size, &seen->at);
    return r;
}

/* The first of a log's files that has not been read to its end. */
static size_t first_new(const struct view *v, size_t from, size_t to, const struct view_seen *seen) {
    for (size_t i = from; seen->inode && i < to; i++) {
        struct stat st;
        int fd = open_log_file(v, &v->files[i], &st);

        if (fd < 0)
            continue;
        close(fd);
        if (st.st_ino == seen->inode)
            return i;
    }
    return from;
}

static int compare_lines(const void *a, const void *b) {
    const struct view_line *x = a, *y = b;
    int c = strncmp(x->time, y->time, VIEW_TIME_SIZE - 5);

    return c ? c : (x->order > y->order) - (x->order < y->order);
}

int view_collect(struct view *v, const struct view_filter *f, struct view_line **ret, size_t *ret_n, struct err *err) {
    int r;

    forget_maps(v);
    r = list_files(v);
    for (size_t i = 0, to; r == 0 && i < v->n_files; i = to) {
        struct view_seen *seen;

        for (to = i + 1; to < v->n_files && str_eq(v->files[to].log, v->files[i].log);)
            to++;
        r = find_seen(v, v->files[i].log, &seen);
        for (size_t k = r < 0 ? to : first_new(v, i, to, seen); r == 0 && k < to; k++)
            r = read_log_file(v, f, &v->files[k], seen);
    }
    if (r < 0)
        return err_sys(err, r, "read the audit log");
    if (v->n_lines)
        qsort(v->lines, v->n_lines, sizeof *v->lines, compare_lines);
    *ret = v->lines;
    *ret_n = v->n_lines;
    return 0;
}
