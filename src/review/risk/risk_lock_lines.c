/* SPDX-License-Identifier: Apache-2.0 */
/* Lockfiles that are lists of lines. */
#include <errno.h>

#include "base/str.h"
#include "review/risk/risk_deps.h"
#include "review/risk/risk_rule.h"

static size_t indent(const struct text_line *l) {
    size_t n = 0;

    while (n < l->len && l->s[n] == ' ')
        n++;
    return n;
}

/* The n-th word of a line, without quotes; NULL: there are fewer. */
static const char *word(const struct text_line *l, size_t n, size_t *ret_len) {
    size_t i = 0;

    for (;; n--) {
        size_t start;

        while (i < l->len && (l->s[i] == ' ' || l->s[i] == '\t'))
            i++;
        start = i;
        while (i < l->len && l->s[i] != ' ' && l->s[i] != '\t')
            i++;
        if (i == start)
            return NULL;
        if (n)
            continue;
        if (l->s[start] == '"')
            start++;
        *ret_len = i - start;
        if (*ret_len && l->s[i - 1] == '"')
            --*ret_len;
        return l->s + start;
    }
}

/* "a@^1.0.0", a@^1.1: -> a; the part after the '@' is a range, the version follows. */
static void yarn_header(struct deps *d, const struct text_line *l) {
    size_t start = *l->s == '"', len = strcspn(l->s + start, "\",:\n");
    const char *name = l->s + start, *at;

    len = MIN_OF(len, l->len - start);
    at = len > 1 ? memchr(name + 1, '@', len - 1) : NULL;
    deps_begin(d, l->number);
    deps_set(d, DEP_NAME, name, at ? (size_t)(at - name) : len);
}

void deps_read_yarn1(struct deps *d, const char *data, size_t len) {
    static const struct {
        const char *name;
        enum dep_field field;
    } fields[] = {{"version", DEP_VERSION}, {"resolved", DEP_SOURCE}, {"integrity", DEP_HASH}};
    struct text_line l = {0};
    size_t pos = 0, n, m;

    while (text_line_next(data, len, &pos, &l)) {
        const char *key = word(&l, 0, &n), *value = word(&l, 1, &m);

        if (!key || *l.s == '#')
            continue;
        if (indent(&l) == 0 && l.s[l.len - 1] == ':')
            yarn_header(d, &l);
        else if (indent(&l) == 0)
            deps_odd(d, l.number);
        for (size_t i = 0; indent(&l) == 2 && value && i < ARRAY_LEN(fields); i++)
            if (n == strlen(fields[i].name) && memcmp(key, fields[i].name, n) == 0)
                deps_set(d, fields[i].field, value, m);
    }
}

/* module version hash; the hash of the go.mod alone is another entry. */
void deps_read_go_sum(struct deps *d, const char *data, size_t len) {
    struct text_line l = {0};
    size_t pos = 0, n, m, k;

    while (text_line_next(data, len, &pos, &l)) {
        const char *name = word(&l, 0, &n), *version = word(&l, 1, &m), *hash = word(&l, 2, &k);

        if (!name)
            continue;
        if (!hash) {
            deps_odd(d, l.number);
            continue;
        }
        deps_begin(d, l.number);
        deps_set(d, DEP_NAME, name, n);
        deps_set(d, DEP_VERSION, version, m);
        deps_set(d, DEP_HASH, hash, k);
    }
}

/* "    name (1.0)" below "  remote: https://rubygems.org/"; in CHECKSUMS "  name (1.0) sha256=...". */
void deps_read_gemfile(struct deps *d, const char *data, size_t len) {
    struct text_line l = {0};
    const char *remote = "";
    size_t remote_len = 0, pos = 0, n, m, k;
    bool sums = false;

    while (text_line_next(data, len, &pos, &l)) {
        const char *name = word(&l, 0, &n), *version = word(&l, 1, &m), *hash = word(&l, 2, &k);
        size_t column = indent(&l);

        if (column == 0) {
            if (strspn(l.s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ ") < l.len) /* not the head of a section */
                deps_odd(d, l.number);
            sums = name && n == 9 && memcmp(name, "CHECKSUMS", 9) == 0;
            remote_len = 0;
        } else if (version && n == 7 && memcmp(name, "remote:", 7) == 0) {
            remote = version;
            remote_len = m;
        } else if (version && *version == '(' && m > 2 && (column == 4 || (sums && column == 2))) {
            deps_begin(d, l.number);
            deps_set(d, DEP_NAME, name, n);
            deps_set(d, DEP_VERSION, version + 1, m - 2);
            deps_set(d, DEP_SOURCE, remote, remote_len);
            if (sums)
                deps_set(d, DEP_HASH, hash ? hash : "", hash ? k : 0);
        }
    }
}

/* group:name:version=configurations */
void deps_read_gradle(struct deps *d, const char *data, size_t len) {
    struct text_line l = {0};
    size_t pos = 0;

    while (text_line_next(data, len, &pos, &l)) {
        size_t end = 0;
        const char *colon;

        while (end < l.len && l.s[end] != '=')
            end++;
        colon = memrchr(l.s, ':', end);
        if (l.len == 0 || *l.s == '#' || risk_glob("empty", l.s, end))
            continue;
        if (!colon) {
            deps_odd(d, l.number);
            continue;
        }
        deps_begin(d, l.number);
        deps_set(d, DEP_NAME, l.s, (size_t)(colon - l.s));
        deps_set(d, DEP_VERSION, colon + 1, (size_t)(l.s + end - colon - 1));
    }
}

static void add_requirement_hashes(struct deps *d, const struct text_line *l) {
    size_t n;
    const char *w;

    for (size_t i = 0; (w = word(l, i, &n)); i++)
        if (n > 7 && memcmp(w, "--hash=", 7) == 0)
            deps_set(d, DEP_HASH, w + 7, n - 7);
}

/* name==1.0 ; marker --hash=...; a line that ends with '\' goes on. Addresses and options are names by themselves. */
void deps_read_requirements(struct deps *d, const char *data, size_t len) {
    struct text_line l = {0};
    size_t pos = 0, n;
    bool goes_on = false;

    while (text_line_next(data, len, &pos, &l)) {
        const char *name = word(&l, 0, &n), *url = memmem(l.s, l.len, "://", 3);
        bool again = goes_on;

        goes_on = l.len && l.s[l.len - 1] == '\\';
        if (!name || *name == '#')
            continue;
        if (!again && *name != '-') {
            size_t stop = strcspn(name, "=<>!~ \t;[@\r\n"), rest = (size_t)(l.s + l.len - name);

            stop = url ? n : MIN_OF(stop, rest);
            deps_begin(d, l.number);
            deps_set(d, DEP_NAME, name, stop);
            deps_set(d, DEP_VERSION, name + stop, MIN_OF(strcspn(name + stop, ";#\\\r\n"), n > stop ? n - stop : 0));
            while (url && url > l.s && url[-1] != ' ' && url[-1] != '@')
                url--;
            if (url)
                deps_set(d, DEP_SOURCE, url, (size_t)(l.s + l.len - url));
        } else if (!again && !str_starts(name, "--hash")) {
            deps_begin(d, l.number);
            deps_set(d, DEP_NAME, l.s, l.len - goes_on);
        }
        add_requirement_hashes(d, &l);
    }
}

/* -- which reader --------------------------------------------------------------------------------------------------------- */

/* Lockfiles: which reader, and what is said. */

static const struct {
    const char *names;
    deps_read_fn *read;
} readers[] = {
    {"package-lock.json|npm-shrinkwrap.json|.package-lock.json", deps_read_npm},
    {"yarn.lock", deps_read_yarn},
    {"pnpm-lock.yaml", deps_read_pnpm},
    {"bun.lock", deps_read_bun},
    {"Cargo.lock|poetry.lock|uv.lock|pdm.lock|pylock*.toml", deps_read_toml},
    {"Pipfile.lock", deps_read_pipfile},
    {"composer.lock", deps_read_composer},
    {"flake.lock", deps_read_flake},
    {"deno.lock", deps_read_deno},
    {"go.sum|go.work.sum", deps_read_go_sum},
    {"Gemfile.lock", deps_read_gemfile},
    {"gradle.lockfile", deps_read_gradle},
    {"requirements*", deps_read_requirements},
};

deps_read_fn *deps_reader(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        if (risk_glob(readers[i].names, name, strlen(name)))
            return readers[i].read;
    return NULL;
}

static void inspect(struct risk_case *c, deps_read_fn *read) {
    CLEANUP(deps_done) struct deps before = DEPS_INIT, now = DEPS_INIT;

    read(&before, c->old_.data, c->old_.len);
    read(&now, c->new_.data, c->new_.len);
    deps_compare(c, &before, &now);
    if (now.odd)
        risk_unread(c, now.odd, "it is written in a way that this reader does not know");
    if (c->old_.there && !c->old_.whole)
        risk_add(c, RISK_DEPENDENCY, RISK_LOW, 0, "%s, and its old version was not stored: every dependency counts as added",
                 c->rule->reason);
}

void risk_inspect_lock(struct risk_case *c) {
    const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;

    deps_read_fn *read = deps_reader(name);

    if (!read)
        BUG("a lockfile in the rules has no reader");
    inspect(c, read);
}

void risk_inspect_requirements(struct risk_case *c) {
    static const char options[] = "-i*|--index-url*|--extra-index-url*|--find-links*|-f *|--trusted-host*|--no-index*";
    CLEANUP(freep) struct text_line *lines = NULL;
    char shown[RISK_SHOWN_MAX + 4];
    int n = risk_new_lines(&c->old_, &c->new_, &lines);

    inspect(c, deps_read_requirements);
    if (n < 0)
        risk_unread(c, 0, "it has too many lines");
    for (int i = 0; i < n; i++) {
        CLEANUP(freep) char *text = strndup(lines[i].s, lines[i].len);

        if (!text)
            c->failed = true;
        else if (risk_glob(options, text, strlen(text)))
            risk_add(c, RISK_DEPENDENCY, RISK_HIGH, lines[i].number, "'%s' changes where pip takes packages from",
                     risk_shown(text, shown));
    }
}
