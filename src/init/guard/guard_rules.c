/* SPDX-License-Identifier: Apache-2.0 */
/* Answers whether a path is protected. */
#include "init/guard/guard_rules.h"

#include <errno.h>
#include <limits.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/guardmsg.h"
#include "proto/initmsg.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

enum { NEAR_HIDE, NEAR_PROTECT, NEAR_HIDDEN, NEAR };

static int add_texts(struct ignore *ig, const struct init_text *texts, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        int r = ignore_add_file(ig, texts[i].dir, texts[i].origin, texts[i].data, texts[i].len, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* The pattern "a/b/c" leads through "/a" and "a/b", "**" "/.git/hooks/" through "**" "/.git". What a "!" takes out is no way
 * in. */
static void add_leads(struct buf *out, const char *line, size_t len) {
    while (len > 0 && strchr(" \r/", line[len - 1]))
        len--;
    if (len == 0 || line[0] == '#' || line[0] == '!')
        return;
    for (size_t i = 1; i < len; i++) {
        if (line[i] != '/' || (i == 2 && memcmp(line, "**", 2) == 0))
            continue;
        if (!memchr(line, '/', i))
            buf_addc(out, '/');
        buf_add(out, line, i);
        buf_addc(out, '\n');
    }
}

static int add_leads_of(struct ignore *ig, const struct init_text *t, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(IGNORE_FILE_MAX);

    for (size_t at = 0; at < t->len;) {
        const char *line = t->data + at, *end = memchr(line, '\n', t->len - at);
        size_t len = end ? (size_t)(end - line) : t->len - at;

        add_leads(&out, line, len);
        at += len + 1;
    }
    if (!buf_ok(&out))
        return err_set(err, -E2BIG, "%s: more patterns than the guard can hold", t->origin);
    return ignore_add_file(ig, t->dir, t->origin, buf_str(&out), out.len, err);
}

int guard_rules_add_protect(struct guard_rules *r, const struct init_text *t, struct err *err) {
    int e = add_texts(r->protect, t, 1, err);

    if (e >= 0 && !str_eq(t->origin, PROTECT_ORIGIN))
        e = add_texts(r->own, t, 1, err);
    return e < 0 ? e : add_leads_of(r->leads, t, err);
}

int guard_rules_init(struct guard_rules *r, const struct init_text *hide, size_t n_hide, const struct init_text *protect,
                     size_t n_protect, struct err *err) {
    int e = 0;

    *r = (struct guard_rules){
        .hide = ignore_new(), .protect = ignore_new(), .hidden = ignore_new(), .leads = ignore_new(), .own = ignore_new()};
    r->near = calloc(NEAR, sizeof *r->near);
    if (!r->hide || !r->protect || !r->hidden || !r->leads || !r->own || !r->near)
        e = err_oom(err);
    e = e < 0 ? e : add_texts(r->hide, hide, n_hide, err);
    for (size_t i = 0; e >= 0 && i < n_hide; i++)
        e = str_eq(hide[i].origin, GUARD_DEPENDENCIES) ? 0 : add_texts(r->hidden, &hide[i], 1, err);
    for (size_t i = 0; e >= 0 && i < n_protect; i++)
        e = guard_rules_add_protect(r, &protect[i], err);
    if (e < 0)
        guard_rules_done(r);
    return e;
}

int guard_rules_add_link(struct guard_rules *r, const char *place, const char *link) {
    struct guard_rules_link *v = reallocarray(r->links, r->n_links + 1, sizeof *v), one = {strdup(place), strdup(link)};

    if (v)
        r->links = v;
    if (!v || !one.place || !one.link) {
        free(one.place);
        free(one.link);
        return -ENOMEM;
    }
    r->links[r->n_links++] = one;
    return 0;
}

void guard_rules_done(struct guard_rules *r) {
    for (size_t i = 0; i < r->n_links; i++) {
        free(r->links[i].place);
        free(r->links[i].link);
    }
    free(TAKE_PTR(r->links));
    r->n_links = 0;
    free(TAKE_PTR(r->near));
    ignore_free(TAKE_PTR(r->hide));
    ignore_free(TAKE_PTR(r->protect));
    ignore_free(TAKE_PTR(r->hidden));
    ignore_free(TAKE_PTR(r->leads));
    ignore_free(TAKE_PTR(r->own));
}

static bool name_is(const char *name, size_t len, const char *want) {
    return strlen(want) == len && strncasecmp(name, want, len) == 0;
}

/* Characters that HFS+ leaves out of names. */
static size_t ignorable(const char *s, size_t len) {
    const unsigned char *u = (const unsigned char *)s;

    if (len < 3)
        return 0;
    if (u[0] == 0xe2 && u[1] == 0x80 && ((u[2] >= 0x8b && u[2] <= 0x8f) || (u[2] >= 0xaa && u[2] <= 0xae)))
        return 3;
    if (u[0] == 0xe2 && u[1] == 0x81 && u[2] >= 0xa0 && u[2] <= 0xaf)
        return 3;
    return u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf ? 3 : 0;
}

/* ".git", in any case, and what the workspace's file system may take for it: with characters that HFS+ ignores, with dots and spaces at the
 * end (vfat, NTFS), after a ':' (streams of NTFS), or as the short name git~1. */
static bool means_git(const char *name, size_t len) {
    char plain[8];
    size_t n = 0;

    if (len == 0 || !strchr(".gG\xe2\xef", name[0]))
        return false;
    for (size_t i = 0; i < len && name[i] != ':';) {
        size_t skip = ignorable(name + i, len - i);

        if (!skip && n == sizeof plain && name[i] != '.' && name[i] != ' ')
            return false;
        if (!skip && n < sizeof plain)
            plain[n++] = name[i];
        i += skip ? skip : 1;
    }
    while (n > 0 && (plain[n - 1] == '.' || plain[n - 1] == ' '))
        n--;
    return name_is(plain, n, ".git") || (n == 5 && strncasecmp(plain, "git~", 4) == 0 && plain[4] >= '0' && plain[4] <= '9');
}

/* The length of the first name of a path, and where the next one starts; NULL: it was the last. */
static size_t first_name(const char *path, const char **ret_next) {
    size_t len = strcspn(path, "/");

    *ret_next = path[len] ? path + len + 1 : NULL;
    return len;
}

bool guard_rules_is_git(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return means_git(name, strlen(name));
}

/* What follows the first .git of a path; NULL: nothing. */
const char *guard_rules_behind_git(const char *path) {
    const char *next;

    for (; path; path = next)
        if (means_git(path, first_name(path, &next)))
            return next;
    return NULL;
}

bool guard_rules_below_git(const char *path) {
    return guard_rules_behind_git(path) != NULL;
}

bool guard_rules_is_top_of_git(const char *path) {
    const char *part = guard_rules_behind_git(path);

    return part && *part && !strchr(part, '/');
}

bool guard_rules_in_git_core(const char *path) {
    static const char *const free_parts[] = {"objects", "refs",         "logs",         "rr-cache",
                                             "lfs",     "rebase-merge", "rebase-apply", "sequencer"};
    const char *next, *part = guard_rules_behind_git(path);
    size_t len;

    if (!part)
        return false;
    if (str_starts(part, "modules/") && strstr(part, "/objects/"))
        return false;
    len = first_name(part, &next);
    for (size_t i = 0; next && i < ARRAY_LEN(free_parts); i++)
        if (strlen(free_parts[i]) == len && memcmp(part, free_parts[i], len) == 0)
            return false;
    return true;
}

/* git rewrites its configuration through this file even when nothing changes; guard_move.c looks at what becomes of it. */
static bool is_config_lock(const char *path) {
    const char *part = guard_rules_behind_git(path);

    return part && str_eq(part, "config.lock");
}

/* The path with every name that means .git as .git, which is the shortest of them. */
static void fold(const char *path, char out[static PATH_MAX]) {
    size_t n = 0;
    const char *next;

    for (; path; path = next) {
        size_t len = first_name(path, &next);
        bool git = means_git(path, len);

        if (n + MAX_OF(len, sizeof ".git") + 1 >= PATH_MAX) /* one that long is refused elsewhere */
            break;
        memcpy(out + n, git ? ".git" : path, git ? 4 : len);
        n += git ? 4 : len;
        if (next)
            out[n++] = '/';
    }
    out[n] = 0;
}

static bool matches(const struct ignore *ig, struct ignore_memo *near, const char *path, enum rules_kind kind) {
    if (kind != RULES_FOLDER && ignore_match_near(ig, near, path, false) == IGNORE_EXCLUDED)
        return true;
    return kind != RULES_FILE && ignore_match_near(ig, near, path, true) == IGNORE_EXCLUDED;
}

static bool matches_protect(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return matches(r->protect, &r->near[NEAR_PROTECT], path, kind);
}

static bool matches_hide(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return matches(r->hide, &r->near[NEAR_HIDE], path, kind);
}

static bool matches_own(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    struct ignore_memo none = {0};

    return matches(r->own, &none, path, kind);
}

/* path from `folder` on, "" or with a '/' in front; NULL: neither the folder nor below it. */
static const char *tail(const char *path, const char *folder) {
    size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == 0 || path[len] == '/') ? path + len : NULL;
}

static bool is_behind_link(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    char at[PATH_MAX], folded[PATH_MAX];

    for (size_t i = 0; i < r->n_links; i++) {
        const char *rest = tail(path, r->links[i].place);
        int n = rest ? snprintf(at, sizeof at, "%s%s", r->links[i].link, rest) : 0;

        if (!rest)
            continue;
        if (n >= (int)sizeof at)
            return true;
        fold(at, folded);
        if (matches_protect(r, folded, kind))
            return true;
    }
    return false;
}

/* The folder in which the first .git of a path lies is protected for another reason: .idea/.git. */
static bool is_in_other(const struct guard_rules *r, const char *path) {
    char folder[PATH_MAX];
    const char *next, *at = path;

    while (at && !means_git(at, first_name(at, &next)))
        at = next;
    if (!at || at == path)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(at - path) - 1, path);
    return matches_protect(r, folder, RULES_FOLDER);
}

bool guard_rules_is_ours(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    char folded[PATH_MAX];

    fold(path, folded);
    return str_eq(folded, path) && !matches_own(r, path, kind) && !is_behind_link(r, path, kind) && !is_in_other(r, path);
}

bool guard_rules_protect(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    char folded[PATH_MAX];

    if (!path || !*path || is_config_lock(path))
        return false;
    if (kind == RULES_FILE && protect_is_sample(path) && guard_rules_is_ours(r, path, kind))
        return false;
    fold(path, folded);
    return matches_protect(r, folded, kind) || is_behind_link(r, path, kind);
}

bool guard_rules_hide(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return path && *path && matches_hide(r, path, kind);
}

bool guard_rules_own(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return path && *path && matches(r->hidden, &r->near[NEAR_HIDDEN], path, kind) && !matches_hide(r, path, kind);
}

bool guard_rules_lead(const struct guard_rules *r, const char *path) {
    char folded[PATH_MAX];
    const struct ignore_list *list;
    const char *slash;
    size_t len;

    if (!path || !*path)
        return false;
    for (size_t i = 0; i < r->n_links; i++)
        if (tail(r->links[i].place, path))
            return true;
    fold(path, folded);
    len = strlen(folded);
    slash = memrchr(folded, '/', len);
    list = ignore_rules_in(r->leads, folded, slash ? (size_t)(slash - folded) : 0);
    return list && ignore_judge(list, folded, len, true, NULL) == IGNORE_EXCLUDED;
}
