/* SPDX-License-Identifier: Apache-2.0 */
/* Ignore rules as bytes, from bawn to bawn-review. */
#include "review/risk/rules.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/hide/ignore.h"

enum { SET_NOW, SET_ACCEPTED, SET_PROTECT, SETS };

struct rules_record {
    uint32_t set;
    uint32_t dir_len, origin_len, data_len;
};

void review_rules_done(struct review_rules *r) {
    ignore_free(r->now);
    ignore_free(r->accepted);
    ignore_free(r->protect);
    *r = (struct review_rules){0};
}

static void write_set(const struct ignore *ig, uint32_t set, struct buf *b) {
    const struct rules_record none = {.set = set};
    const struct ignore_source *s;

    if (ig && set != SET_NOW)
        buf_add(b, &none, sizeof none); /* so that an empty set is still a set */
    for (size_t i = 0; ig && (s = ignore_source(ig, i)); i++) {
        struct rules_record rec = {set, (uint32_t)strlen(s->dir), (uint32_t)strlen(s->origin), (uint32_t)s->len};

        buf_add(b, &rec, sizeof rec);
        buf_add(b, s->dir, rec.dir_len);
        buf_add(b, s->origin, rec.origin_len);
        buf_add(b, s->data, rec.data_len);
    }
}

void review_rules_write(const struct review_rules *r, struct buf *b) {
    write_set(r->now, SET_NOW, b);
    write_set(r->accepted, SET_ACCEPTED, b);
    write_set(r->protect, SET_PROTECT, b);
}

static int add_record(struct ignore *sets[SETS], const struct rules_record *rec, const char *bytes, struct err *err) {
    CLEANUP(freep) char *dir = strndup(bytes, rec->dir_len);
    CLEANUP(freep) char *origin = strndup(bytes + rec->dir_len, rec->origin_len);

    if (!sets[rec->set])
        sets[rec->set] = ignore_new();
    if (!dir || !origin || !sets[rec->set])
        return err_oom(err);
    if (rec->origin_len == 0)
        return 0;
    return ignore_add_file(sets[rec->set], dir, origin, bytes + rec->dir_len + rec->origin_len, rec->data_len, err);
}

static int read_records(struct ignore *sets[SETS], const char *data, size_t len, struct err *err) {
    while (len > 0) {
        struct rules_record rec;
        uint64_t need;
        int r;

        if (len < sizeof rec)
            return err_set(err, -EBADMSG, "the ignore rules are cut off");
        memcpy(&rec, data, sizeof rec);
        need = sizeof rec + (uint64_t)rec.dir_len + rec.origin_len + rec.data_len;
        if (rec.set >= SETS || need > len)
            return err_set(err, -EBADMSG, "the ignore rules are not what bawn sends");
        r = add_record(sets, &rec, data + sizeof rec, err);
        if (r < 0)
            return r;
        data += need;
        len -= need;
    }
    return 0;
}

int review_rules_read(const char *data, size_t len, struct review_rules *ret, struct err *err) {
    struct ignore *sets[SETS] = {ignore_new()};
    int r = sets[SET_NOW] ? read_records(sets, data, len, err) : err_oom(err);

    if (r < 0) {
        for (size_t i = 0; i < SETS; i++)
            ignore_free(sets[i]);
        return r;
    }
    *ret = (struct review_rules){sets[SET_NOW], sets[SET_ACCEPTED], sets[SET_PROTECT]};
    return 0;
}
