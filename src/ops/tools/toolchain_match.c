/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of the table of toolchains. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/strv.h"
#include "ops/tools/toolchain.h"
#include "os/dir.h"

static_assert(TOOLCHAIN_NAME_SIZE == NAME_MAX + 1, "a name fits");

/* The next name of a path, "" at its end; false: it is too long to be one. */
static bool take_name(const char **path, char name[static TOOLCHAIN_NAME_SIZE]) {
    size_t n = strcspn(*path, "/");

    if (n >= TOOLCHAIN_NAME_SIZE)
        return false;
    memcpy(name, *path, n);
    name[n] = 0;
    *path += n + ((*path)[n] == '/');
    return true;
}

bool toolchain_is_pattern(const char *pattern) {
    return strpbrk(pattern, "*?[") != NULL;
}

static bool name_matches(const char *pattern, const char *name) {
    return str_eq(pattern, "$") || str_eq(pattern, name) ||
           (toolchain_is_pattern(pattern) && fnmatch(pattern, name, FNM_PERIOD) == 0);
}

/* Goes on in *path behind what the pattern stands for: to its end with "**". */
static bool match_names(const char *pattern, const char **path, char name[static TOOLCHAIN_NAME_SIZE]) {
    char p[TOOLCHAIN_NAME_SIZE], n[TOOLCHAIN_NAME_SIZE];

    while (*pattern) {
        if (!take_name(&pattern, p) || !take_name(path, n) || !*n)
            return false;
        if (str_eq(p, "**")) {
            *path += strlen(*path);
            return true;
        }
        if (!name_matches(p, n))
            return false;
        if (!*name && (str_eq(p, "$") || toolchain_is_pattern(p)))
            memcpy(name, n, sizeof n);
    }
    return true;
}

bool toolchain_match(const char *root, const char *pattern, const char *path, bool prefix,
                     char name[static TOOLCHAIN_NAME_SIZE]) {
    name[0] = 0;
    return match_names(root, &path, name) && match_names(pattern, &path, name) && (prefix || *path == 0);
}

char *toolchain_fill(const char *pattern, const char *name, bool all) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PATH_MAX);
    char p[TOOLCHAIN_NAME_SIZE];

    while (*pattern && take_name(&pattern, p))
        buf_addf(&b, "%s%s", b.len ? "/" : "", str_eq(p, "$") || (all && toolchain_is_pattern(p)) ? name : p);
    return buf_ok(&b) ? strdup(buf_str(&b)) : NULL;
}

static int expand_name(const char *top, const char *name, const char *rest, struct strv *ret) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", top, name);
    struct stat st;

    if (!path)
        return -ENOMEM;
    if (lstat(path, &st) < 0)
        return 0;
    if (*rest)
        return S_ISDIR(st.st_mode) ? toolchain_expand(path, rest, ret) : 0;
    return strv_add(ret, path) < 0 ? -ENOMEM : 0;
}

int toolchain_expand(const char *top, const char *pattern, struct strv *ret) {
    CLEANUP(strv_done) struct strv names = {0};
    char p[TOOLCHAIN_NAME_SIZE];
    int r = 0;

    if (!*pattern)
        return strv_add(ret, top) < 0 ? -ENOMEM : 0;
    if (!take_name(&pattern, p))
        return 0;
    if (!toolchain_is_pattern(p))
        return expand_name(top, p, pattern, ret);
    if (dir_names(AT_FDCWD, top, &names) < 0)
        return 0;
    for (size_t i = 0; r == 0 && i < names.len; i++)
        if (name_matches(p, names.v[i]))
            r = expand_name(top, names.v[i], pattern, ret);
    return r;
}
