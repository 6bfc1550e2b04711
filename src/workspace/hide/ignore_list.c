/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the rules of one file and finds the one that decides. */
#include "workspace/hide/ignore_list.h"

#include <errno.h>

#include "base/err.h"

/* Ends the line where its trailing spaces begin; a space after a backslash does not count. */
static void trim_spaces(char *s) {
    char *spaces = NULL;

    for (; *s; s++) {
        if (*s == ' ') {
            spaces = spaces ? spaces : s;
            continue;
        }
        spaces = NULL;
        if (*s == '\\' && s[1])
            s++;
    }
    if (spaces)
        *spaces = 0;
}

static bool is_plain_glob(const struct ignore_glob *g, size_t from, size_t to) {
    for (; from < to; from++)
        if (g->tokens[from].kind != GLOB_BYTE)
            return false;
    return true;
}

/* "**" + "/name" says no more than "name" does, and that can be looked up. */
static void drop_leading_folders(struct ignore_glob *g, bool *path) {
    if (!*path || g->n == 0 || g->tokens[0].kind != GLOB_FOLDERS)
        return;
    for (size_t i = 1; i < g->n; i++)
        if (g->tokens[i].kind >= GLOB_DEEP || (g->tokens[i].kind == GLOB_BYTE && g->tokens[i].byte == '/'))
            return;
    memmove(g->tokens, g->tokens + 1, --g->n * sizeof *g->tokens);
    *path = false;
}

static enum rule_kind classify(const struct ignore_glob *g, bool path) {
    size_t n = g->n;

    if (is_plain_glob(g, 0, n))
        return path ? RULE_PATH : RULE_NAME;
    if (!path && n <= AFFIX_MAX && g->tokens[0].kind == GLOB_STAR && is_plain_glob(g, 1, n))
        return RULE_SUFFIX;
    if (!path && n <= AFFIX_MAX && g->tokens[n - 1].kind == GLOB_STAR && is_plain_glob(g, 0, n - 1))
        return RULE_PREFIX;
    return path ? RULE_PATH_GLOB : RULE_NAME_GLOB;
}

/* Takes the plain bytes out of the tokens: all there are, or those that a glob starts with. */
static int take_plain_bytes(struct ignore_rule *r) {
    const struct ignore_glob *g = &r->glob;
    size_t first = r->kind == RULE_SUFFIX ? 1 : 0, n = first;

    while (n < g->n && g->tokens[n].kind == GLOB_BYTE)
        n++;
    r->owned = malloc(n - first + 1);
    if (!r->owned)
        return -ENOMEM;
    for (size_t i = first; i < n; i++)
        r->owned[i - first] = (char)g->tokens[i].byte;
    r->bytes = r->owned;
    r->len = n - first;
    for (size_t i = g->n; i > n && g->tokens[i - 1].kind == GLOB_BYTE; i--)
        r->tail++;
    if (r->kind < RULE_NAME_GLOB)
        glob_done(&r->glob);
    return 1;
}

/* Returns 1 for a rule, 0 for a line that can never match. */
static int compile(struct ignore_rule *r) {
    const char *p = r->text;
    size_t len;
    bool path;
    int made;

    r->negative = *p == '!';
    p += r->negative;
    len = strlen(p);
    r->dir_only = len > 0 && p[len - 1] == '/';
    len -= r->dir_only;
    path = memchr(p, '/', len);
    if (path && *p == '/') {
        p++;
        len--;
    }
    if (len == 0)
        return 0;
    if (!glob_is(p, len)) { /* most are plain: as they stand in the file */
        r->kind = path ? RULE_PATH : RULE_NAME;
        r->bytes = p;
        r->len = len;
        return 1;
    }
    made = glob_compile(p, len, path, &r->glob);
    if (made <= 0)
        return made;
    drop_leading_folders(&r->glob, &path);
    r->kind = (uint8_t)classify(&r->glob, path);
    return take_plain_bytes(r);
}

static void rule_done(struct ignore_rule *r) {
    free(r->owned);
    glob_done(&r->glob);
}

static int add_rule(struct ignore_list *l, char *text, unsigned line, struct err *err) {
    struct ignore_rule r = {.text = text, .line = line, .next = -1};
    int made;

    if (strlen(text) > IGNORE_LINE_MAX)
        return err_set(err, -E2BIG, "%s:%u: the pattern is longer than %d bytes", l->origin, line, IGNORE_LINE_MAX);
    trim_spaces(text);
    made = compile(&r);
    if (made == 0)
        return 0;
    if (made > 0 && l->n < IGNORE_PATTERNS_MAX) {
        l->rules[l->n++] = r;
        return 0;
    }
    rule_done(&r);
    if (made > 0)
        return err_set(err, -E2BIG, "%s:%u: more than %d patterns", l->origin, line, IGNORE_PATTERNS_MAX);
    return err_oom(err);
}

/* Room for all rules at once: for each line that can be one. */
static int make_rule_room(struct ignore_list *l, const char *s, const char *end) {
    size_t lines = 1;

    while (s < end) {
        lines += *s != '\n' && *s != '#';
        s = memchr(s, '\n', (size_t)(end - s));
        s = s ? s + 1 : end;
    }
    l->rules = reallocarray(NULL, MIN_OF(lines, (size_t)IGNORE_PATTERNS_MAX), sizeof *l->rules);
    return l->rules ? 0 : -ENOMEM;
}

static int add_rules(struct ignore_list *l, char *s, char *end, struct err *err) {
    if (make_rule_room(l, s, end) < 0)
        return err_oom(err);
    if (end - s >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) /* the byte order mark that some editors write */
        s += 3;
    for (unsigned line = 1; s < end; line++) {
        char *stop = memchr(s, '\n', (size_t)(end - s));
        int r = 0;

        stop = stop ? stop : end;
        *stop = 0;
        if (stop > s && *s != '#') {
            if (stop[-1] == '\r')
                stop[-1] = 0;
            r = add_rule(l, s, line, err);
        }
        if (r < 0)
            return r;
        s = stop + 1;
    }
    return 0;
}

static void set_bit(uint64_t bits[static 4], size_t i) {
    bits[i % 256 / 64] |= UINT64_C(1) << i % 64;
}

static bool has_bit(const uint64_t bits[static 4], size_t i) {
    return bits[i % 256 / 64] >> i % 64 & 1;
}

/* Where the newest rule of those that are found together with r is stored. */
static int *row_of(struct ignore_list *l, const struct ignore_rule *r) {
    if (r->kind < RULE_NAME_GLOB)
        return &l->buckets[ignore_hash(r->kind, r->bytes, r->len) & l->mask];
    return &l->globs[r->kind - RULE_NAME_GLOB][r->len ? (unsigned char)r->bytes[0] : ANY_BYTE];
}

static int build_index(struct ignore_list *l, struct err *err) {
    l->mask = 15;
    while (l->mask < 2 * l->n)
        l->mask = 2 * l->mask + 1;
    l->buckets = malloc((l->mask + 1) * sizeof *l->buckets);
    if (!l->buckets)
        return err_oom(err);
    memset(l->buckets, 0xff, (l->mask + 1) * sizeof *l->buckets);
    memset(l->globs, 0xff, sizeof l->globs);
    for (size_t i = 0; i < l->n; i++) {
        struct ignore_rule *r = &l->rules[i];
        int *row = row_of(l, r);

        r->next = *row;
        *row = (int)i;
        if (r->kind <= RULE_PATH)
            set_bit(l->lengths[r->kind], r->len);
        if (r->kind == RULE_SUFFIX || r->kind == RULE_PREFIX) {
            if (r->len == 0) /* "*" */
                memset(l->edges[r->kind - RULE_SUFFIX], 0xff, sizeof l->edges[0]);
            else
                set_bit(l->edges[r->kind - RULE_SUFFIX], (unsigned char)r->bytes[r->kind == RULE_SUFFIX ? r->len - 1 : 0]);
        }
    }
    return 0;
}

int ignore_list_new(const char *dir, const char *origin, const char *data, size_t len, struct ignore_list **ret,
                    struct err *err) {
    struct ignore_list *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return err_oom(err);
    l->dir = strdup(dir);
    l->dir_len = strlen(dir);
    l->origin = strdup(origin);
    l->data = malloc(len + 1);
    if (len > 0 && l->data)
        memcpy(l->data, data, len);
    r = l->dir && l->origin && l->data ? add_rules(l, l->data, l->data + len, err) : err_oom(err);
    if (r == 0)
        r = build_index(l, err);
    if (r < 0)
        ignore_list_free(l);
    else
        *ret = l;
    return r;
}

void ignore_list_free(struct ignore_list *l) {
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        rule_done(&l->rules[i]);
    free(l->rules);
    free(l->buckets);
    free(l->dir);
    free(l->origin);
    free(l->data);
    free(l);
}

/* The newest rule of a kind with exactly these bytes that is newer than `best`, else `best`. */
static int look_up(const struct ignore_list *l, enum rule_kind kind, const char *s, size_t len, bool is_dir, int best) {
    for (int i = l->buckets[ignore_hash(kind, s, len) & l->mask]; i > best; i = l->rules[i].next) {
        const struct ignore_rule *r = &l->rules[i];

        if (r->kind == kind && r->len == len && (is_dir || !r->dir_only) && memcmp(r->bytes, s, len) == 0)
            return i;
    }
    return best;
}

static int look_up_affixes(const struct ignore_list *l, enum rule_kind kind, const char *name, size_t len, bool is_dir,
                           int best) {
    for (size_t word = 0; word < ARRAY_LEN(l->lengths[kind]) && word * 64 <= len; word++)
        for (uint64_t bits = l->lengths[kind][word]; bits; bits &= bits - 1) {
            size_t n = word * 64 + (size_t)__builtin_ctzll(bits);

            if (n > len)
                return best;
            best = look_up(l, kind, kind == RULE_SUFFIX ? name + len - n : name, n, is_dir, best);
        }
    return best;
}

static bool glob_rule_matches(const struct ignore_rule *r, const char *s, size_t len) {
    size_t skip = r->len;

    return len >= skip + r->tail && memcmp(r->bytes, s, skip) == 0 &&
           (r->tail == 0 || (unsigned char)s[len - 1] == r->glob.tokens[r->glob.n - 1].byte) &&
           glob_match(&r->glob, skip, s + skip, len - skip);
}

static int match_globs(const struct ignore_list *l, int newest, const char *s, size_t len, bool is_dir, int best) {
    for (int i = newest; i > best; i = l->rules[i].next) {
        const struct ignore_rule *r = &l->rules[i];

        if ((is_dir || !r->dir_only) && glob_rule_matches(r, s, len))
            return i;
    }
    return best;
}

int ignore_list_find(const struct ignore_list *l, const char *path, size_t len, size_t name, bool is_dir) {
    const char *base = path + name;
    size_t base_len = len - name;
    int best = -1;

    if (base_len == 0)
        return best;
    if (has_bit(l->lengths[RULE_NAME], base_len))
        best = look_up(l, RULE_NAME, base, base_len, is_dir, best);
    if (has_bit(l->lengths[RULE_PATH], len))
        best = look_up(l, RULE_PATH, path, len, is_dir, best);
    if (has_bit(l->edges[0], (unsigned char)base[base_len - 1]))
        best = look_up_affixes(l, RULE_SUFFIX, base, base_len, is_dir, best);
    if (has_bit(l->edges[1], (unsigned char)base[0]))
        best = look_up_affixes(l, RULE_PREFIX, base, base_len, is_dir, best);
    best = match_globs(l, l->globs[0][(unsigned char)base[0]], base, base_len, is_dir, best);
    best = match_globs(l, l->globs[0][ANY_BYTE], base, base_len, is_dir, best);
    best = match_globs(l, l->globs[1][(unsigned char)path[0]], path, len, is_dir, best);
    return match_globs(l, l->globs[1][ANY_BYTE], path, len, is_dir, best);
}
