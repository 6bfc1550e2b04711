/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two configurations of git. */
#include "workspace/git/gitconfig_judge.h"

#include <errno.h>

#include "base/str.h"
#include "base/vec.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitconfig_keys.h"
#include "workspace/git/gitconfig_lists.h"
#include "workspace/git/gitconfig_plain.h"

static void judged_file_done(struct judged_file *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].key);
        free(f->v[i].value);
    }
    free(f->v);
}

static int add_entry(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err UNUSED) {
    struct judged_file *f = arg;
    struct judged_entry e = {.key = strdup(key), .value = value ? strdup(value) : NULL, .at = f->n};

    if (e.key && (e.value || !value) && VEC_ADD(f->v, f->n, e) == 0)
        return 0;
    free(e.key);
    free(e.value);
    return -ENOMEM;
}

static void explain(char why[static GITCONFIG_WHY_MAX], const char *key, const char *reason) {
    snprintf(why, GITCONFIG_WHY_MAX, "%.*s: %s", (int)(GITCONFIG_WHY_MAX - 100), key, reason);
}

/* A key outside of any section has no dot; git takes it for one of its own. */
static int read_file(const char *data, size_t len, struct judged_file *ret, char why[static GITCONFIG_WHY_MAX]) {
    unsigned line = len > GITCONFIG_JUDGED_MAX ? 1 : gitconfig_not_plain(data, len);
    int r = line ? -EBADMSG : gitconfig_parse(data, len, add_entry, ret, NULL);

    for (size_t i = 0; r == 0 && i < ret->n; i++)
        if (!strchr(ret->v[i].key, '.'))
            r = -EBADMSG;
    if (r < 0 && r != -ENOMEM)
        snprintf(why, GITCONFIG_WHY_MAX, "line %u is not as git writes it, and could be read in more than one way",
                 line ? line : 1);
    return r;
}

static const char *reason_of(const struct gitconfig_key *row) {
    if (!row)
        return "not one of the settings that are known to run nothing";
    if (!row->value)
        return row->reason;
    if (row->value == value_url || row->value == value_remote || row->value == value_module_url)
        return "only https, http, ssh, git, user@host:path, the workspace itself or a path in /tmp";
    return "this value is not allowed";
}

static bool is_settable(const struct judged_entry *e) {
    const struct gitconfig_key *row = gitconfig_key_find(e->key);

    return row && row->value;
}

static bool is_same(const struct judged_entry *a, const struct judged_entry *b) {
    return str_eq(a->key, b->key) && !a->value == !b->value && (!a->value || str_eq(a->value, b->value));
}

static size_t next_fixed(const struct judged_file *f, size_t i) {
    while (i < f->n && is_settable(&f->v[i]))
        i++;
    return i;
}

/* What may not be set inside is the same in both, in the same order. */
static int compare_fixed(const struct judged_file *old, const struct judged_file *new, char why[static GITCONFIG_WHY_MAX]) {
    size_t i = next_fixed(old, 0), k = next_fixed(new, 0);

    for (; i < old->n && k < new->n &&is_same(&old->v[i], &new->v[k]); i = next_fixed(old, i + 1), k = next_fixed(new, k + 1))
        ;
    if (i == old->n && k == new->n)
        return 0;
    explain(why, k < new->n ? new->v[k].key : old->v[i].key,
            reason_of(gitconfig_key_find(k < new->n ? new->v[k].key : old->v[i].key)));
    return -EACCES;
}

static int by_key(const void *a, const void *b) {
    const struct judged_entry *x = a, *y = b;
    int r = strcmp(x->key, y->key);

    return r ? r : x->at < y->at ? -1 : x->at > y->at;
}

/* How many entries from i on have the key of the first. */
static size_t count_key(const struct judged_file *f, size_t i) {
    size_t n = i;

    while (n < f->n && str_eq(f->v[n].key, f->v[i].key))
        n++;
    return n - i;
}

/* Of a remote, branch or submodule: git makes names of refs and folders from it, and looks it up where a user names an address. */
static bool is_subsection(const char *key) {
    const char *first = strchr(key, '.'), *last = strrchr(key, '.');

    if (first == last)
        return true;
    if (first[1] == '-' || first + 1 == last || (first + 2 == last && first[1] == '.'))
        return false;
    for (const char *s = first + 1; s < last; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f || (s[0] == '.' && s[1] == '.' && s + 1 < last) ||
            (*s == ':' && str_starts(key, "remote.")))
            return false;
    return true;
}

static int check_values(const struct gitconfig_scene *s, const struct judged_entry *v, size_t n,
                        char why[static GITCONFIG_WHY_MAX]) {
    for (size_t i = 0; i < n; i++) {
        const struct gitconfig_key *row = gitconfig_key_find(v[i].key);

        if (row->value(s, v[i].value, row->words) && is_subsection(v[i].key))
            continue;
        explain(why, v[i].key, reason_of(row));
        return -EACCES;
    }
    return 0;
}

/* Where the values of a key are not what they were, each of the new ones must be allowed. Both are sorted. */
static int compare_settable(const struct gitconfig_scene *s, const struct judged_file *old, const struct judged_file *new,
                            char why[static GITCONFIG_WHY_MAX]) {
    size_t i = 0;
    int r = 0;

    for (size_t k = 0, n; r == 0 && k < new->n; k += n) {
        size_t same = 0, n_old;

        n = count_key(new, k);
        while (i < old->n && strcmp(old->v[i].key, new->v[k].key) < 0)
            i++;
        n_old = i < old->n && str_eq(old->v[i].key, new->v[k].key) ? count_key(old, i) : 0;
        while (same < n && same < n_old && is_same(&old->v[i + same], &new->v[k + same]))
            same++;
        if ((same != n || same != n_old) && is_settable(&new->v[k]))
            r = check_values(s, &new->v[k], n, why);
    }
    return r;
}

static void sort_entries(struct judged_file *f) {
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_key);
}

int gitconfig_judge(const struct gitconfig_scene *s, const char *old, size_t old_len, const char *new, size_t new_len,
                    struct buf *ret, char why[static GITCONFIG_WHY_MAX]) {
    CLEANUP(judged_file_done) struct judged_file before = {0};
    CLEANUP(judged_file_done) struct judged_file after = {0};
    struct judged_rename rename = {.from = NULL};
    const struct judged_entry *lost;
    int r = read_file(new, new_len, &after, why);

    r = r < 0 ? r : read_file(old, old_len, &before, why);
    r = r < 0 ? r : compare_fixed(&before, &after, why);
    if (r < 0)
        return r;
    sort_entries(&before);
    sort_entries(&after);
    r = compare_settable(s, &before, &after, why);
    if (r < 0)
        return r;
    lost = judged_remotes(&before, &after, &rename);
    if (!lost)
        return judged_write(new, new_len, &rename, ret);
    explain(why, lost->key, "there is no remote of this name, and git would take it for a path");
    return -EACCES;
}

/* Projects from Windows have a .gitmodules with CR before each line end, which everything reads alike. */
static void drop_line_ends(struct buf *ret, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (data[i] != '\r' || i + 1 == len || data[i + 1] != '\n')
            buf_addc(ret, data[i]);
}

int gitconfig_judge_modules(const struct gitconfig_scene *s, const char *data, size_t len, char why[static GITCONFIG_WHY_MAX]) {
    CLEANUP(judged_file_done) struct judged_file f = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_SIZE_MAX);
    int r;

    drop_line_ends(&text, data, len);
    r = buf_ok(&text) ? read_file(buf_str(&text), text.len, &f, why) : -ENOMEM;

    for (size_t i = 0; r == 0 && i < f.n; i++) {
        const struct gitconfig_key *row = gitconfig_key_find_module(f.v[i].key);

        if (row && row->value(s, f.v[i].value, row->words) && is_subsection(f.v[i].key))
            continue;
        explain(why, f.v[i].key, row ? reason_of(row) : "git reads no such key here");
        r = -EACCES;
    }
    return r;
}
