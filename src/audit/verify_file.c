/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies the lines of one file, and all files against the index. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "audit/verify.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"

enum { TIME_LEN = 27 }; /* 2026-11-15T19:54:02.123456Z */

/* The time of a line, which is its second member. Whatever does not look like one is left out. */
static void take_time(const char *line, size_t len, char ret[static 32]) {
    static const char key[] = ",\"time\":\"";
    const char *at = memmem(line, len, key, sizeof key - 1);

    ret[0] = 0;
    if (!at || (size_t)(line + len - at) < sizeof key + TIME_LEN)
        return;
    at += sizeof key - 1;
    for (size_t i = 0; i < TIME_LEN; i++)
        if (!strchr("0123456789-:.TZ", at[i]))
            return;
    memcpy(ret, at, TIME_LEN);
    ret[TIME_LEN] = 0;
}

/* Why a line does not continue the one before. */
static int say_break(struct verify *v, const char *file, uint64_t n, const struct chain_line *l, uint64_t before) {
    if (l->seq > before + 1)
        return verify_say(v, false, file, n, "%" PRIu64 " %s removed (number %" PRIu64 " follows %" PRIu64 ")",
                          l->seq - before - 1, str_plural(l->seq - before - 1, "line before it was", "lines before it were"),
                          l->seq, before);
    if (l->seq <= before)
        return verify_say(v, false, file, n, "reordered or repeated: number %" PRIu64 " follows %" PRIu64, l->seq, before);
    return verify_say(v, false, file, n, "not chained to the line before it: that one was changed or replaced");
}

/* What the log itself says about losses: half a line of a killed writer is not one. */
static int check_repair(struct verify *v, const char *file, uint64_t n, const char *line, size_t len) {
    static const char torn[] = "\"what\":\"torn\"", type[] = ",\"type\":\"repair\",";

    if (!memmem(line, len, type, sizeof type - 1))
        return 0;
    if (memmem(line, len, torn, sizeof torn - 1))
        return verify_say(v, true, file, n, "half a line of a writer that was killed was cut off before it");
    return verify_say(v, false, file, n, "the log was repaired before it: lines were lost");
}

static int check_line(struct verify *v, const char *file, uint64_t n, const char *text, size_t len, struct chain_head *before,
                      bool any) {
    struct chain_line l;
    int r;

    if (chain_line_read(text, len, &l) < 0) {
        before->seq++; /* one line is one fault */
        before->hash[0] = 0;
        return verify_say(v, false, file, n, "changed: not a line of an audit log");
    }
    r = l.intact ? check_repair(v, file, n, text, len) : verify_say(v, false, file, n, "changed: its hash is another");
    if (r == 0 && !any && (l.seq != before->seq + 1 || (before->hash[0] && strcmp(l.prev, before->hash) != 0)))
        r = say_break(v, file, n, &l, before->seq);
    before->seq = l.seq;
    memcpy(before->hash, l.hash, sizeof before->hash);
    return r;
}

static void note_ends(struct verify_file *f, struct verify_part *part, const struct chain_head *at, const char *text,
                      size_t len) {
    struct chain_line l;

    take_time(text, len, f->last_time);
    f->last_seq = at->seq;
    if (f->lines++)
        return;
    memcpy(f->first_time, f->last_time, sizeof f->first_time);
    f->first_seq = at->seq;
    if (chain_line_read(text, len, &l) == 0)
        memcpy(part->first_prev, l.prev, sizeof part->first_prev);
}

int verify_lines(struct verify *v, int fd, const char *name, uint64_t size, const struct chain_head *expect,
                 struct verify_part *part) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    struct chain_head at = expect ? *expect : (struct chain_head){0};
    struct verify_file *f = VEC_NEW(v->files, v->n_files);
    const char *text;
    size_t len;
    int r;

    if (!f || !(f->name = strdup(name)))
        return -ENOMEM;
    r = chain_reader_init(&reader, fd, 0, size);
    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0) {
        r = check_line(v, name, f->lines + 1, text, len, &at, !expect && f->lines == 0);
        note_ends(f, part, &at, text, len);
        if (reader.at == part->mark) {
            part->mark_seq = at.seq;
            memcpy(part->mark_hash, at.hash, sizeof part->mark_hash);
        }
    }
    if (r < 0)
        return r;
    v->lines += f->lines;
    part->empty = f->lines == 0;
    part->first_seq = f->first_seq;
    part->last_seq = at.seq;
    memcpy(part->last_hash, at.hash, sizeof part->last_hash);
    return reader.at < size ? verify_say(v, false, name, f->lines + 1, "cut: it is not a whole line") : 0;
}

/* -- the index ------------------------------------------------------------------------------------------------------------ */

static size_t find_log(const struct verify_all *a, const char *name) {
    size_t i = 0;

    while (i < a->n_logs && !str_eq(a->logs[i].name, name))
        i++;
    return i;
}

static struct verify_entry *find_entry(const struct verify_all *a, size_t log, uint64_t number) {
    for (size_t i = 0; i < a->n_entries; i++)
        if (a->entries[i].log == log && a->entries[i].number == number)
            return &a->entries[i];
    return NULL;
}

static int put_entry(struct verify_all *a, const struct verify_entry *e) {
    struct verify_entry *known = find_entry(a, e->log, e->number);

    if (!known)
        return VEC_ADD(a->entries, a->n_entries, *e);
    known->dropped |= e->dropped;
    return 0;
}

/* A log of which nothing is there may have been made just now. */
static int check_gone(struct verify_all *a, const char *log) {
    char name[CHAIN_FILE_MAX];
    struct stat st;

    snprintf(name, sizeof name, "%.*s.head", CHAIN_NAME_MAX, log);
    if (!chain_name_ok(log, strlen(log)))
        return verify_say(a->v, false, CHAIN_INDEX ".jsonl", 0, "changed: a log with an impossible name");
    if (fstatat(a->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    chain_file(log, 0, name);
    return verify_say(a->v, false, name, 0, "missing: the index knows it");
}

static int take_index_line(struct verify_all *a, const char *line, size_t len) {
    CLEANUP(json_decrefp) json_t *v = json_loadb(line, len, 0, NULL);
    const char *name = json_get_text(v, "log"), *event = json_get_text(v, "event");
    size_t log = find_log(a, name);
    struct verify_entry e = {.log = log,
                             .number = (uint64_t)MAX_OF(json_get_int(v, "number", 0), (int64_t)0),
                             .last_seq = (uint64_t)json_get_int(v, "last_seq", 0),
                             .dropped = str_eq(event, "dropped")};
    int r = 0;

    snprintf(e.last_hash, sizeof e.last_hash, "%s", json_get_text(v, "last_hash"));
    if (*name && log == a->n_logs)
        r = check_gone(a, name);
    else if (*name && e.number > 0)
        r = put_entry(a, &e);
    if (r == 0 && log < a->n_logs && a->logs[log].indexed && str_eq(event, "new"))
        r = verify_say(a->v, false, a->logs[log].name, 0, "begun anew: what it held before is gone");
    if (log < a->n_logs)
        a->logs[log].indexed = true;
    return r;
}

static int read_index(struct verify_all *a) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    CLEANUP(closep) int fd = openat(a->dir, CHAIN_INDEX ".jsonl", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const char *text;
    struct stat st;
    size_t len;
    int r;

    if (fd < 0)
        return 0; /* verify_log() has said why */
    if (fstat(fd, &st) < 0)
        return -errno;
    r = chain_reader_init(&reader, fd, 0, (uint64_t)st.st_size);
    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0)
        r = take_index_line(a, text, len);
    return r;
}

static const struct verify_part *find_part(const struct verify_all *a, size_t log, uint64_t number) {
    for (size_t i = 0; i < a->n_parts; i++)
        if (a->parts[i].log == log && a->parts[i].number == number)
            return &a->parts[i];
    return NULL;
}

/* The oldest file continues the one that was dropped last. */
static int check_seam(struct verify_all *a, const struct verify_entry *e, const char *file) {
    const struct verify_part *next = find_part(a, e->log, e->number + 1 == a->logs[e->log].number ? 0 : e->number + 1);

    if (!next || next->empty || (next->first_seq == e->last_seq + 1 && str_eq(next->first_prev, e->last_hash)))
        return 0;
    return verify_say(a->v, false, file, 0, "the next file does not continue where it ended");
}

static int check_entry(struct verify_all *a, const struct verify_entry *e) {
    const struct verify_part *p = find_part(a, e->log, e->number);
    char file[CHAIN_FILE_MAX];

    chain_file(a->logs[e->log].name, e->number, file);
    if (!p && e->dropped)
        return check_seam(a, e, file);
    if (!p && e->number >= a->logs[e->log].number)
        return 0; /* it is about to get its number */
    if (!p)
        return verify_say(a->v, false, file, 0, "missing: the index knows it (%" PRIu64 " was its last line)", e->last_seq);
    if (p->last_seq != e->last_seq || strcmp(p->last_hash, e->last_hash) != 0)
        return verify_say(a->v, false, file, 0,
                          "its last line (number %" PRIu64 ") is not the one that the index knows (%" PRIu64 ")", p->last_seq,
                          e->last_seq);
    return 0;
}

/* The current file gets the number after the last one. */
static int check_numbers(struct verify_all *a) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < a->n_logs; i++) {
        uint64_t last = 0, next = a->logs[i].number;
        char head[CHAIN_FILE_MAX];

        for (size_t k = 0; k < a->n_entries; k++)
            last = a->entries[k].log == i ? MAX_OF(last, a->entries[k].number) : last;
        snprintf(head, sizeof head, "%s.head", a->logs[i].name);
        if (a->logs[i].indexed && next > last + 1)
            r = verify_say(a->v, false, head, 0, "its file would be number %" PRIu64 ", and the index knows %" PRIu64, next,
                           last);
    }
    return r;
}

static int check_unknown(struct verify_all *a) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < a->n_logs; i++)
        if (a->logs[i].begun && !a->logs[i].indexed && !str_eq(a->logs[i].name, CHAIN_INDEX))
            r = verify_say(a->v, false, a->logs[i].name, 0, "a log that the index does not know");
    for (size_t i = 0; r == 0 && i < a->n_parts; i++) {
        const struct verify_part *p = &a->parts[i];
        char file[CHAIN_FILE_MAX];

        chain_file(a->logs[p->log].name, p->number, file);
        if (p->number && a->logs[p->log].indexed && !find_entry(a, p->log, p->number))
            r = verify_say(a->v, false, file, 0, "a file that the index does not know");
    }
    return r;
}

int verify_index(struct verify_all *a, struct err *err) {
    int r = read_index(a);

    for (size_t i = 0; r == 0 && i < a->n_entries; i++)
        r = check_entry(a, &a->entries[i]);
    r = r < 0 ? r : check_numbers(a);
    r = r < 0 ? r : check_unknown(a);
    return r < 0 ? err_sys(err, r, "read the audit log") : 0;
}
