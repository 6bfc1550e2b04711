#include "review/rules.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/ignore.h"

struct record {
    uint32_t set; /* 0: now, 1: accepted */
    uint32_t dir_len, origin_len, data_len;
};

static void write_set(const struct ignore *ig, uint32_t set, struct buf *b) {
    const struct ignore_source *s;

    for (size_t i = 0; ig && (s = ignore_source(ig, i)); i++) {
        struct record rec = {set, (uint32_t)strlen(s->dir), (uint32_t)strlen(s->origin), (uint32_t)s->len};

        buf_add(b, &rec, sizeof rec);
        buf_add(b, s->dir, rec.dir_len);
        buf_add(b, s->origin, rec.origin_len);
        buf_add(b, s->data, rec.data_len);
    }
}

void review_rules_write(const struct ignore *now, const struct ignore *accepted, struct buf *b) {
    const struct record none = {.set = 1};

    write_set(now, 0, b);
    if (accepted)
        buf_add(b, &none, sizeof none); /* so that an empty set is still a set */
    write_set(accepted, 1, b);
}

static int add_record(struct ignore *sets[2], const struct record *rec, const char *bytes, struct err *err) {
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

static int read_all(struct ignore *sets[2], const char *data, size_t len, struct err *err) {
    while (len > 0) {
        struct record rec;
        uint64_t need;
        int r;

        if (len < sizeof rec)
            return err_set(err, -EBADMSG, "the ignore rules are cut off");
        memcpy(&rec, data, sizeof rec);
        need = sizeof rec + (uint64_t)rec.dir_len + rec.origin_len + rec.data_len;
        if (rec.set > 1 || need > len)
            return err_set(err, -EBADMSG, "the ignore rules are not what bawn sends");
        r = add_record(sets, &rec, data + sizeof rec, err);
        if (r < 0)
            return r;
        data += need;
        len -= need;
    }
    return 0;
}

int review_rules_read(const char *data, size_t len, struct ignore **ret_now, struct ignore **ret_accepted, struct err *err) {
    struct ignore *sets[2] = {ignore_new(), NULL};
    int r = sets[0] ? read_all(sets, data, len, err) : err_oom(err);

    if (r < 0) {
        ignore_free(sets[0]);
        ignore_free(sets[1]);
        return r;
    }
    *ret_now = sets[0];
    *ret_accepted = sets[1];
    return 0;
}
