/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of all files of a workspace, by folder. */
#include "workspace/hide/ignore.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "workspace/hide/ignore_list.h"

struct ignore {
    struct ignore_list **lists; /* in the order in which they came */
    size_t n, cap;
    struct ignore_source *sources; /* the same files, as they were */
    size_t rules, bytes;           /* in all of them */
    int *buckets;                  /* by folder; cap of them */
};

struct ignore *ignore_new(void) {
    return calloc(1, sizeof(struct ignore));
}

static void source_done(struct ignore_source *s) {
    free(s->dir);
    free(s->origin);
    free(s->data);
}

static int source_copy(const char *dir, const char *origin, const char *data, size_t len, struct ignore_source *ret) {
    struct ignore_source s = {strdup(dir), strdup(origin), malloc(len + 1), len};

    if (!s.dir || !s.origin || !s.data) {
        source_done(&s);
        return -ENOMEM;
    }
    memcpy(s.data, data, len);
    *ret = s;
    return 0;
}

void ignore_free(struct ignore *ig) {
    if (!ig)
        return;
    for (size_t i = 0; i < ig->n; i++) {
        ignore_list_free(ig->lists[i]);
        source_done(&ig->sources[i]);
    }
    free(ig->sources);
    free(ig->lists);
    free(ig->buckets);
    free(ig);
}

void ignore_freep(struct ignore **ig) {
    ignore_free(*ig);
}

static int *bucket_of(const struct ignore *ig, const char *dir, size_t len) {
    return &ig->buckets[ignore_hash(0, dir, len) & (ig->cap - 1)];
}

/* The newest file of exactly this folder. */
static const struct ignore_list *find_list(const struct ignore *ig, const char *dir, size_t len) {
    if (ig->n == 0)
        return NULL;
    for (int i = *bucket_of(ig, dir, len); i >= 0; i = ig->lists[i]->next)
        if (ig->lists[i]->dir_len == len && memcmp(ig->lists[i]->dir, dir, len) == 0)
            return ig->lists[i];
    return NULL;
}

static void enter_list(struct ignore *ig, size_t i) {
    int *bucket = bucket_of(ig, ig->lists[i]->dir, ig->lists[i]->dir_len);

    ig->lists[i]->next = *bucket;
    *bucket = (int)i;
}

static int grow_table(struct ignore *ig) {
    size_t cap = ig->cap ? 2 * ig->cap : 16;
    int *buckets = reallocarray(ig->buckets, cap, sizeof *buckets);

    if (!buckets)
        return -ENOMEM;
    ig->buckets = buckets;
    ig->cap = cap;
    memset(buckets, 0xff, cap * sizeof *buckets);
    for (size_t i = 0; i < ig->n; i++)
        enter_list(ig, i);
    return 0;
}

const struct ignore_list *ignore_rules_in(const struct ignore *ig, const char *dir, size_t len) {
    for (;;) {
        const struct ignore_list *l = find_list(ig, dir, len);
        const char *slash;

        if (l || len == 0)
            return l;
        slash = memrchr(dir, '/', len);
        len = slash ? (size_t)(slash - dir) : 0;
    }
}

static bool is_below(const struct ignore_list *l, const char *dir, size_t len) {
    return l->dir_len > len && (len == 0 || (memcmp(l->dir, dir, len) == 0 && l->dir[len] == '/'));
}

/* Puts a new list between those of the folders below it and those of the folders above. */
static void link_up(struct ignore *ig, struct ignore_list *l) {
    l->up = ignore_rules_in(ig, l->dir, l->dir_len);
    for (size_t i = 0; i < ig->n; i++) {
        struct ignore_list *below = ig->lists[i];

        if (is_below(below, l->dir, l->dir_len) && (!below->up || below->up->dir_len <= l->dir_len))
            below->up = l;
    }
}

static int check_limits(const struct ignore *ig, const char *dir, const char *origin, size_t len, struct err *err) {
    unsigned depth = dir[0] ? 1 : 0;

    for (const char *s = dir; *s; s++)
        depth += *s == '/';
    if (len > IGNORE_FILE_MAX)
        return err_set(err, -E2BIG, "%s: larger than %d bytes", origin, IGNORE_FILE_MAX);
    if (depth > IGNORE_DEPTH_MAX)
        return err_set(err, -E2BIG, "%s: deeper than %d folders", origin, IGNORE_DEPTH_MAX);
    if (ig->n >= IGNORE_FILES_MAX)
        return err_set(err, -E2BIG, "%s: more than %d " IGNORE_FILE " files", origin, IGNORE_FILES_MAX);
    if (ig->bytes + len > IGNORE_BYTES_MAX)
        return err_set(err, -E2BIG, "%s: the " IGNORE_FILE " files together are larger than %d bytes", origin, IGNORE_BYTES_MAX);
    return 0;
}

int ignore_add_file(struct ignore *ig, const char *dir, const char *origin, const char *data, size_t len, struct err *err) {
    struct ignore_list *l = NULL;
    int r = check_limits(ig, dir, origin, len, err);

    if (r == 0 &&
        (VEC_ROOM(ig->lists, ig->n) < 0 || VEC_ROOM(ig->sources, ig->n) < 0 || (ig->n == ig->cap && grow_table(ig) < 0)))
        r = err_oom(err);
    if (r == 0)
        r = ignore_list_new(dir, origin, data, len, &l, err);
    if (r < 0)
        return r;
    if (ig->rules + l->n > IGNORE_PATTERNS_MAX) {
        ignore_list_free(l);
        return err_set(err, -E2BIG, "%s: the " IGNORE_FILE " files together have more than %d patterns", origin,
                       IGNORE_PATTERNS_MAX);
    }
    if (source_copy(dir, origin, data, len, &ig->sources[ig->n]) < 0) {
        ignore_list_free(l);
        return err_oom(err);
    }
    link_up(ig, l);
    ig->rules += l->n;
    ig->bytes += len;
    ig->lists[ig->n++] = l;
    enter_list(ig, ig->n - 1);
    return 0;
}

const struct ignore_source *ignore_source(const struct ignore *ig, size_t i) {
    return i < ig->n ? &ig->sources[i] : NULL;
}

const char *ignore_folder(const struct ignore *ig, size_t i) {
    return i < ig->n ? ig->lists[i]->dir : NULL;
}

/* `name` is where the last name of the path starts. */
static enum ignore_verdict judge_by_lists(const struct ignore_list *l, const char *path, size_t len, size_t name, bool is_dir,
                                          struct ignore_why *ret_why) {
    for (; l; l = l->up) {
        size_t skip = l->dir_len ? l->dir_len + 1 : 0;
        int i = l->n ? ignore_list_find(l, path + skip, len - skip, name - skip, is_dir) : -1;

        if (i < 0)
            continue;
        if (ret_why)
            *ret_why = (struct ignore_why){l->origin, l->rules[i].line, l->rules[i].text};
        return l->rules[i].negative ? IGNORE_REINCLUDED : IGNORE_EXCLUDED;
    }
    return IGNORE_NONE;
}

enum ignore_verdict ignore_judge(const struct ignore_list *rules, const char *path, size_t len, bool is_dir,
                                 struct ignore_why *ret_why) {
    const char *slash = memrchr(path, '/', len);

    if (ret_why)
        *ret_why = (struct ignore_why){0};
    return judge_by_lists(rules, path, len, slash ? (size_t)(slash - path) + 1 : 0, is_dir, ret_why);
}

enum ignore_verdict ignore_explain(const struct ignore *ig, const char *path, bool is_dir, struct ignore_why *ret_why) {
    const struct ignore_list *l = find_list(ig, "", 0);
    size_t name = 0, len = strlen(path);

    for (;;) {
        const char *slash = memchr(path + name, '/', len - name);
        size_t end = slash ? (size_t)(slash - path) : len;
        enum ignore_verdict v = judge_by_lists(l, path, end, name, slash || is_dir, ret_why);

        if (!slash || v == IGNORE_EXCLUDED) {
            if (v == IGNORE_NONE && ret_why)
                *ret_why = (struct ignore_why){0};
            return v;
        }
        if (ig->n > 1 || !l) {
            const struct ignore_list *deeper = find_list(ig, path, end);

            l = deeper ? deeper : l;
        }
        name = end + 1;
    }
}

enum ignore_verdict ignore_match(const struct ignore *ig, const char *path, bool is_dir) {
    return ignore_explain(ig, path, is_dir, NULL);
}

static void note_folder(const struct ignore *ig, struct ignore_memo *m, const char *path, size_t len) {
    if (m->files == ig->n && m->len == len && memcmp(m->folder, path, len) == 0)
        return;
    memcpy(m->folder, path, len);
    m->folder[len] = 0;
    m->len = len;
    m->files = ig->n;
    m->excluded = len > 0 && ignore_match(ig, m->folder, true) == IGNORE_EXCLUDED;
    m->rules = ignore_rules_in(ig, path, len);
}

enum ignore_verdict ignore_match_near(const struct ignore *ig, struct ignore_memo *m, const char *path, bool is_dir) {
    size_t len = strlen(path);
    const char *slash = memrchr(path, '/', len);
    size_t folder = slash ? (size_t)(slash - path) : 0;

    if (ig->n == 0 || folder >= sizeof m->folder)
        return ignore_match(ig, path, is_dir);
    note_folder(ig, m, path, folder);
    return m->excluded ? IGNORE_EXCLUDED : judge_by_lists(m->rules, path, len, slash ? folder + 1 : 0, is_dir, NULL);
}

void ignore_quote(struct buf *out, const char *name) {
    for (const char *p = name; *p; p++) {
        if (strchr("*?[\\ ", *p))
            buf_addc(out, '\\');
        buf_addc(out, *p == '\n' ? '?' : *p);
    }
}
