/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "audit/verify.h"
#include "base/str.h"

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

/* How a line stands to the one before, which it does not go on from. */
static int say_break(struct verify *v, const char *file, uint64_t n, const struct chain_line *l, uint64_t before) {
    if (l->seq > before + 1)
        return verify_say(v, false, file, n, "%" PRIu64 " lines before it were removed (number %" PRIu64 " follows %" PRIu64 ")",
                          l->seq - before - 1, l->seq, before);
    if (l->seq <= before)
        return verify_say(v, false, file, n, "reordered or repeated: number %" PRIu64 " follows %" PRIu64, l->seq, before);
    return verify_say(v, false, file, n, "not chained to the line before it: that one was changed or replaced");
}

/* What the log itself says about losses: half a line of a writer that was killed is none. */
static int check_repair(struct verify *v, const char *file, uint64_t n, const char *line, size_t len) {
    static const char torn[] = "\"what\":\"torn\"", type[] = ",\"type\":\"repair\",";

    if (!memmem(line, len, type, sizeof type - 1))
        return 0;
    if (memmem(line, len, torn, sizeof torn - 1))
        return verify_say(v, true, file, n, "half a line of a writer that was killed was cut off before it");
    return verify_say(v, false, file, n, "the log was repaired before it: what stood there is lost");
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

static int add_file(struct verify *v, const char *name, struct verify_file **ret) {
    struct verify_file *grown = reallocarray(v->files, v->n_files + 1, sizeof *grown);

    if (!grown)
        return -ENOMEM;
    v->files = grown;
    v->files[v->n_files] = (struct verify_file){.name = strdup(name)};
    *ret = &v->files[v->n_files];
    if (!(*ret)->name)
        return -ENOMEM;
    v->n_files++;
    return 0;
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
    struct verify_file *f = NULL;
    const char *text;
    size_t len;
    int r = add_file(v, name, &f);

    r = r < 0 ? r : chain_reader_init(&reader, fd, 0, size);
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
