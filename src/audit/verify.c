/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies the logs of a folder: files against their head. */
#include "audit/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"

void verify_done(struct verify *v) {
    for (size_t i = 0; i < v->n_files; i++)
        free(v->files[i].name);
    for (size_t i = 0; i < v->n_found; i++) {
        free(v->found[i].file);
        free(v->found[i].what);
    }
    free(v->files);
    free(v->found);
}

int verify_say(struct verify *v, bool note, const char *file, uint64_t line, const char *fmt, ...) {
    struct verify_fault f = {.line = line, .note = note};
    va_list ap;
    int n;

    v->faults += !note;
    if (v->n_found >= VERIFY_FAULTS_MAX)
        return 0;
    va_start(ap, fmt);
    n = vasprintf(&f.what, fmt, ap);
    va_end(ap);
    f.file = strdup(file);
    if (n >= 0 && f.file && VEC_ADD(v->found, v->n_found, f) == 0)
        return 0;
    free(n < 0 ? NULL : f.what);
    free(f.file);
    return -ENOMEM;
}

static void all_done(struct verify_all *a) {
    for (size_t i = 0; i < a->n_logs; i++)
        free(a->logs[i].name);
    free(a->logs);
    free(a->parts);
    free(a->entries);
}

/* -- which logs there are ------------------------------------------------------------------------------------------------- */

static int add_log(struct verify_all *a, const char *name, size_t len) {
    CLEANUP(freep) char *copy = NULL;

    for (size_t i = 0; i < a->n_logs; i++)
        if (strlen(a->logs[i].name) == len && memcmp(a->logs[i].name, name, len) == 0)
            return 0;
    copy = strndup(name, len);
    return copy ? VEC_ADD(a->logs, a->n_logs, (struct verify_log){.name = TAKE_PTR(copy)}) : -ENOMEM;
}

static int list_logs(struct verify_all *a) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(a->dir, ".", &d);

    while (r == 0 && (e = dir_next(&d))) {
        const char *name = e->d_name;
        uint64_t n;
        size_t len = str_ends(name, ".head") ? strlen(name) - strlen(".head") : chain_file_parse(name, &n);

        r = chain_name_ok(name, len) ? add_log(a, name, len) : verify_say(a->v, false, name, 0, "not a file of the audit log");
    }
    return r < 0 ? r : d.error;
}

/* -- one log -------------------------------------------------------------------------------------------------------------- */

enum { OPEN_MAX_FILES = AUDIT_FILES_MAX + 8 };

/* All of a log, as it was at one moment. */
struct snapshot {
    struct chain_head head;
    int head_error;
    struct {
        int fd;
        uint64_t number, size;
    } files[OPEN_MAX_FILES]; /* the current one last */
    size_t n;
};

static void snapshot_done(struct snapshot *s) {
    for (size_t i = 0; i < s->n; i++)
        closep(&s->files[i].fd);
}

static int open_part(struct snapshot *s, int dir, const char *log, uint64_t number) {
    char name[CHAIN_FILE_MAX];
    struct stat st;
    int fd;

    chain_file(log, number, name);
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    s->files[s->n].fd = fd;
    s->files[s->n++].number = number;
    if (fstat(fd, &st) < 0)
        return -errno;
    s->files[s->n - 1].size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return 0;
}

static int take_snapshot(int dir, const char *log, struct snapshot *s) {
    struct chain c = {.dir = dir, .log = log};
    char name[CHAIN_FILE_MAX];
    CLEANUP(closep) int head = -1;
    uint64_t last = 0;
    int r;

    snprintf(name, sizeof name, "%.*s.head", CHAIN_NAME_MAX, log);
    head = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    s->head_error = head < 0 ? -errno : 0;
    if (head >= 0 && flock(head, LOCK_SH) < 0)
        return -errno;
    if (head >= 0)
        s->head_error = chain_head_read(head, &s->head);
    r = chain_last_number(&c, &last);
    for (uint64_t i = last > OPEN_MAX_FILES - 1 ? last - (OPEN_MAX_FILES - 2) : 1; r == 0 && i <= last; i++)
        r = open_part(s, dir, log, i);
    return r < 0 ? r : open_part(s, dir, log, 0);
}

/* The line that the head knows is in its place; in a new file, the first line continues from it. */
static bool knows_head(const struct chain_head *h, const struct verify_part *p) {
    if (h->size == 0)
        return p->empty || (p->first_seq == h->seq + 1 && str_eq(p->first_prev, h->hash));
    return p->mark_seq == h->seq && str_eq(p->mark_hash, h->hash);
}

/* Whole lines after the one that the head knows are a killed writer's; they were checked like all others. */
static int check_end(struct verify *v, const char *file, const struct snapshot *s, uint64_t size, const struct verify_part *p) {
    if (s->head_error)
        return 0;
    if (size < s->head.size)
        return verify_say(v, false, file, 0, "cut: it has %" PRIu64 " %s, and its head says %" PRIu64, size,
                          str_plural(size, "byte", "bytes"), s->head.size);
    if (!knows_head(&s->head, p))
        return verify_say(v, false, file, 0,
                          "its last line (number %" PRIu64 ") is not the one that its head knows (%" PRIu64 ")", p->last_seq,
                          s->head.seq);
    if (size > s->head.size)
        return verify_say(v, true, file, 0, "a writer was killed before it wrote the head; the next one repairs that");
    return 0;
}

/* Half a line at the end was never reported as written. */
static uint64_t whole_lines(int fd, uint64_t known, uint64_t size) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    const char *text;
    size_t len;

    if (size <= known || chain_reader_init(&reader, fd, known, size) < 0)
        return size;
    while (chain_reader_next(&reader, &text, &len) > 0)
        ;
    return reader.at;
}

/* Not if it has just got its number, by a writer that was killed before it wrote the head. */
static bool is_missing(const struct snapshot *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->files[i].number == 0 || (s->files[i].number == s->head.number && s->files[i].size == s->head.size))
            return false;
    return true;
}

static int check_head(struct verify *v, const char *log, const struct snapshot *s) {
    char name[CHAIN_FILE_MAX];

    snprintf(name, sizeof name, "%.*s.head", CHAIN_NAME_MAX, log);
    if (s->head_error == -ENODATA && s->n == 0)
        return 0; /* made, and nothing written yet */
    if (s->head_error)
        return verify_say(v, false, name, 0,
                          s->head_error == -ENOENT ? "missing: an end that was cut off cannot be seen"
                                                   : "damaged: an end that was cut off cannot be seen");
    for (size_t i = 0; i < s->n; i++)
        if (s->files[i].number > s->head.number)
            return verify_say(v, false, name, 0, "its file would be number %" PRIu64 ", and there is a %" PRIu64, s->head.number,
                              s->files[i].number);
    if (!s->head.size || !is_missing(s))
        return 0;
    return verify_say(v, false, name, 0, "the file that it belongs to is missing (number %" PRIu64 " was its last line)",
                      s->head.seq);
}

static int verify_log(struct verify_all *a, size_t log) {
    CLEANUP(snapshot_done) struct snapshot s = {0};
    const char *name = a->logs[log].name;
    struct chain_head expect;
    bool known = true; /* expect is what the next file has to go on from */
    int r = take_snapshot(a->dir, name, &s);

    if (r < 0 && r != -ENOMEM) /* a link, or another user's: its content is not known */
        return verify_say(a->v, false, name, 0, "cannot be read: %s", strerror(-r));
    r = r < 0 ? r : check_head(a->v, name, &s);
    chain_start(name, &expect);
    a->logs[log].begun = s.n || (!s.head_error && s.head.seq);
    a->logs[log].number = s.head.number;
    for (size_t i = 0; r == 0 && i < s.n; i++) {
        bool current = s.files[i].number == 0;
        uint64_t size = s.files[i].size,
                 look = current ? whole_lines(s.files[i].fd, s.head_error ? size : s.head.size, size) : size;
        struct verify_part *p = VEC_NEW(a->parts, a->n_parts);
        char file[CHAIN_FILE_MAX];

        if (i == 0 && s.files[i].number != 1 && !(current && s.head.number <= 1))
            known = false; /* older ones were dropped: the index says how they ended */
        if (!p)
            return -ENOMEM;
        *p = (struct verify_part){.log = log, .number = s.files[i].number, .mark = s.head.size};
        chain_file(name, s.files[i].number, file);
        r = verify_lines(a->v, s.files[i].fd, file, look, known ? &expect : NULL, p);
        r = r < 0 || !current ? r : check_end(a->v, file, &s, size, p);
        if (r < 0 || p->empty)
            continue;
        known = true;
        expect.seq = p->last_seq;
        memcpy(expect.hash, p->last_hash, sizeof expect.hash);
    }
    return r;
}

int verify_folder(int dir, struct verify *ret, struct err *err) {
    CLEANUP(all_done) struct verify_all a = {.v = ret, .dir = dir};
    int r;

    *ret = (struct verify){0};
    r = list_logs(&a);
    for (size_t i = 0; r == 0 && i < a.n_logs; i++)
        r = str_eq(a.logs[i].name, CHAIN_INDEX) ? 0 : verify_log(&a, i);
    for (size_t i = 0; r == 0 && i < a.n_logs;
         i++) /* last: what a writer does meanwhile is in the index before it is anywhere else */
        r = str_eq(a.logs[i].name, CHAIN_INDEX) ? verify_log(&a, i) : 0;
    if (r < 0)
        return err_sys(err, r, "read the audit log");
    return verify_index(&a, err);
}
