/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of remotes that branches refer to. git takes a name that no remote has for a path: a folder of that name, or a link in its place, would be what the next
 * push goes to, and a push runs the hooks of where it goes. So each name that is used must be that of a remote.
 *
 * `git remote rename` renames the remote first, and then the names in the branches, one file after the other. There the branches are renamed at once.
 */
#include <errno.h>

#include "base/str.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitconfig_lists.h"

static bool names_remote(const char *key) {
    return gitconfig_is(key, "branch", "remote") || gitconfig_is(key, "branch", "pushremote") ||
           str_eq(key, "remote.pushdefault");
}

/* remote.NAME.url */
static bool is_url_of(const struct judged_entry *e, const char *name) {
    size_t len = strlen(name);

    return str_starts(e->key, "remote.") && strncmp(e->key + strlen("remote."), name, len) == 0 &&
           str_eq(e->key + strlen("remote.") + len, ".url");
}

static bool has_remote(const struct judged_file *f, const char *name) {
    for (size_t i = 0; i < f->n; i++)
        if (is_url_of(&f->v[i], name) && f->v[i].value)
            return true;
    return false;
}

static const char *first_url(const struct judged_file *f, const char *name) {
    for (size_t i = 0; i < f->n; i++)
        if (is_url_of(&f->v[i], name))
            return f->v[i].value;
    return NULL;
}

/* The name of a remote that is new, and has the address that `name` had; NULL: none has. Into room. */
static const char *new_name_of(const struct judged_file *old, const struct judged_file *new, const char *name,
                               char room[static NAME_MAX]) {
    const char *url = first_url(old, name);

    for (size_t i = 0; url && i < new->n; i++) {
        const struct judged_entry *e = &new->v[i];
        size_t len = strlen(e->key);

        if (!gitconfig_is(e->key, "remote", "url") || !e->value || !str_eq(e->value, url) ||
            len - strlen("remote..url") >= NAME_MAX)
            continue;
        snprintf(room, NAME_MAX, "%.*s", (int)(len - strlen("remote..url")), e->key + strlen("remote."));
        if (!has_remote(old, room))
            return room;
    }
    return NULL;
}

static bool has_same(const struct judged_file *f, const struct judged_entry *e) {
    for (size_t i = 0; i < f->n; i++)
        if (str_eq(f->v[i].key, e->key) && f->v[i].value && str_eq(f->v[i].value, e->value))
            return true;
    return false;
}

/* Not a path and not what it was: the value is an address that was judged. */
static bool is_address(const char *value) {
    return str_eq(value, ".") || strchr(value, ':') || value[0] == '/';
}

const struct judged_entry *judged_remotes(const struct judged_file *old, const struct judged_file *new,
                                          struct judged_rename *ret) {
    char room[NAME_MAX];

    for (size_t i = 0; i < new->n; i++) {
        const struct judged_entry *e = &new->v[i];
        const char *to;

        if (!names_remote(e->key) || !e->value || is_address(e->value) || has_remote(new, e->value) ||
            (ret->from && str_eq(ret->from, e->value)) || (has_same(old, e) && !has_remote(old, e->value)))
            continue;
        to = ret->from ? NULL : new_name_of(old, new, e->value, room);
        if (!to)
            return e;
        snprintf(ret->to, sizeof ret->to, "%s", to);
        ret->from = e->value;
    }
    return NULL;
}

struct renaming {
    const struct judged_rename *rename;
    bool found;
};

static int see_entry(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err UNUSED) {
    struct renaming *r = arg;

    r->found = names_remote(key) && value && str_eq(value, r->rename->from);
    return 0;
}

/* A line of a plain file, in the section whose line is given. */
static bool names_old(const char *section, size_t section_len, const char *line, size_t len, const struct judged_rename *rename) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_SIZE_MAX);
    struct renaming r = {.rename = rename};

    buf_add(&text, section, section_len);
    buf_addc(&text, '\n');
    buf_add(&text, line, len);
    return buf_ok(&text) && gitconfig_parse(buf_str(&text), text.len, see_entry, &r, NULL) == 0 && r.found;
}

int judged_write(const char *data, size_t len, const struct judged_rename *rename, struct buf *ret) {
    const char *section = data;
    size_t section_len = 0;

    for (size_t at = 0; rename->from && at < len;) {
        const char *line = data + at, *end = memchr(line, '\n', len - at);
        size_t n = end ? (size_t)(end - line) : len - at, blank = strspn(line, " \t");

        if (blank < n && line[blank] == '[') {
            section = line;
            section_len = n;
        }
        if (section_len && section != line && names_old(section, section_len, line, n, rename))
            buf_addf(ret, "%.*s= %s\n", (int)strcspn(line, "="), line, rename->to);
        else
            buf_add(ret, line, end ? n + 1 : n);
        at += n + 1;
    }
    if (!rename->from)
        buf_add(ret, data, len);
    return buf_ok(ret) ? 0 : -ENOMEM;
}
