/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what package managers write about a package. All of it is the agent's bytes. */
#include <ctype.h>

#include "base/str.h"
#include "review/fold/fold_packages.h"

static void cut_into(char *to, size_t size, const char *s, size_t len) {
    len = MIN_OF(len, size - 1);
    memcpy(to, s, len);
    to[len] = 0;
}

#define CUT(to, s, len) cut_into((to), sizeof(to), (s), (len))

/* -- package.json and its like ------------------------------------------------------------------------------------------- */

/* A key of a manifest, and what it is. */
struct package_key {
    const char *key;
    enum { KEY_NAME, KEY_VERSION, KEY_SCRIPT, KEY_CHECKSUM } what;
};

static void add_script(struct package_facts *f, const char *key) {
    size_t len = strlen(f->scripts);
    const char *step = strrchr(key, PAIR_STEP);

    snprintf(f->scripts + len, sizeof f->scripts - len, "%s%s", len ? ", " : "", step ? step + 1 : key);
}

static void read_keys(struct package_facts *f, pairs_read_fn *read, const struct package_key *keys, size_t n, const char *data,
                      size_t len) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    read(&p, data, len);
    for (size_t i = 0; i < p.n; i++) {
        const char *key = pairs_key(&p, i), *value = pairs_value(&p, i);

        for (size_t k = 0; k < n; k++) {
            if (!risk_glob(keys[k].key, key, strlen(key)))
                continue;
            switch (keys[k].what) {
            case KEY_NAME:
                CUT(f->name, value, strlen(value));
                break;
            case KEY_VERSION:
                CUT(f->version, value, strlen(value));
                break;
            case KEY_SCRIPT:
                add_script(f, key);
                break;
            case KEY_CHECKSUM:
                CUT(f->checksum, value, strlen(value));
                break;
            }
        }
    }
}

void package_read_json(struct package_facts *ret, const char *data, size_t len) {
    static const struct package_key keys[] = {
        {"name", KEY_NAME}, {"version", KEY_VERSION}, {"scripts.preinstall|scripts.install|scripts.postinstall", KEY_SCRIPT}};

    read_keys(ret, pairs_read_json, keys, ARRAY_LEN(keys), data, len);
}

static const char *without_dot(const char *path) {
    while (str_starts(path, "./"))
        path += 2 + strspn(path + 2, "/");
    return path;
}

/* "bin": "cli.js", "bin": {"name": "./cli.js"}, "directories": {"bin": "./bin"}. Without an extension it may mean ".js". */
bool package_declares(const char *data, size_t len, const char *file) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    pairs_read_json(&p, data, len);
    for (size_t i = 0; i < p.n; i++) {
        const char *key = pairs_key(&p, i), *value = without_dot(pairs_value(&p, i));
        size_t n = strlen(value);

        if (!risk_glob("bin|bin.*|directories.bin", key, strlen(key)) || !n || strncmp(file, value, n) != 0)
            continue;
        if (risk_glob("directories*", key, strlen(key)) ? file[n] == '/' || value[n - 1] == '/'
                                                        : file[n] == 0 || str_eq(file + n, ".js"))
            return true;
    }
    return false;
}

void package_read_cargo(struct package_facts *ret, const char *data, size_t len) {
    static const struct package_key keys[] = {{"package.name", KEY_NAME}, {"package.version", KEY_VERSION}};

    read_keys(ret, pairs_read_toml, keys, ARRAY_LEN(keys), data, len);
}

void package_read_checksum(struct package_facts *ret, const char *data, size_t len) {
    static const struct package_key keys[] = {{"package", KEY_CHECKSUM}};

    read_keys(ret, pairs_read_json, keys, ARRAY_LEN(keys), data, len);
}

/* -- python -------------------------------------------------------------------------------------------------------------- */

/* Headers as of a mail, up to the first empty line; the first of each counts. */
void package_read_metadata(struct package_facts *ret, const char *data, size_t len) {
    struct text_line l = {0};
    size_t pos = 0;

    while (text_line_next(data, len, &pos, &l) && l.len) {
        size_t name = l.len > 6 && strncasecmp(l.s, "Name: ", 6) == 0 ? 6 : 0;
        size_t version = l.len > 9 && strncasecmp(l.s, "Version: ", 9) == 0 ? 9 : 0;

        if (name && !*ret->name)
            CUT(ret->name, l.s + name, l.len - name);
        if (version && !*ret->version)
            CUT(ret->version, l.s + version, l.len - version);
    }
}

void package_python_name(char *name) {
    size_t n = 0;

    for (const char *s = name; *s; s++) {
        bool mark = strchr("-_.", *s) != NULL;

        if (!mark)
            name[n++] = (char)tolower((unsigned char)*s);
        else if (n == 0 || name[n - 1] != '-')
            name[n++] = '-';
    }
    name[n] = 0;
}

/* CSV: a path with a comma or a quote is in quotes, and quotes in it are doubled. */
void package_read_record(const char *data, size_t len, void (*each)(const char *path, void *arg), void *arg) {
    struct text_line l = {0};
    size_t pos = 0;

    while (text_line_next(data, len, &pos, &l)) {
        bool quoted = l.len && *l.s == '"';
        CLEANUP(freep) char *path = malloc(l.len + 1);
        size_t n = 0;

        for (size_t i = quoted; path && i < l.len && (quoted || l.s[i] != ','); i++) {
            if (quoted && l.s[i] == '"' && (i + 1 == l.len || l.s[++i] != '"'))
                break;
            path[n++] = l.s[i];
        }
        if (!path)
            continue;
        path[n] = 0;
        if (*path) /* a NUL ends it, too */
            each(path, arg);
    }
}

/* -- lists ---------------------------------------------------------------------------------------------------------------- */

/* "# module version", "# module version => replacement". "## explicit" and names of packages are something else. */
void package_read_modules(const char *data, size_t len, package_each_fn *each, void *arg) {
    struct text_line l = {0};
    size_t pos = 0;

    while (text_line_next(data, len, &pos, &l)) {
        char name[PACKAGE_NAME_MAX + 1], version[PACKAGE_VERSION_MAX + 1];
        size_t at = 2, end;

        if (l.len < 3 || l.s[0] != '#' || l.s[1] != ' ')
            continue;
        for (end = at; end < l.len && l.s[end] != ' '; end++)
            ;
        CUT(name, l.s + at, end - at);
        at = MIN_OF(end + 1, l.len);
        CUT(version, l.s + at, l.len - at); /* with the replacement: another one is another version */
        each(name, version, arg);
    }
}

void package_read_installed(const char *data, size_t len, package_each_fn *each, void *arg) {
    CLEANUP(deps_done) struct deps d = DEPS_INIT;

    deps_read_composer(&d, data, len);
    for (size_t i = 0; i < d.n; i++)
        if (*deps_field(&d, i, DEP_NAME))
            each(deps_field(&d, i, DEP_NAME), deps_field(&d, i, DEP_VERSION), arg);
}
