/* SPDX-License-Identifier: Apache-2.0 */
/* What the value of a key may be. Each takes less than git does. */
#include <limits.h>
#include <strings.h>

#include "base/str.h"
#include "workspace/git/gitconfig_judge.h"
#include "workspace/git/gitconfig_keys.h"

enum { VALUE_MAX = 4096 };

/* -- words ---------------------------------------------------------------------------------------------------------------- */

bool value_one_of(const struct gitconfig_scene *s UNUSED, const char *value, const char *words) {
    for (const char *at = words; value && at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        size_t len = strcspn(at, "|");

        if (strlen(value) == len && strncasecmp(value, at, len) == 0)
            return true;
    }
    return false;
}

bool value_bool(const struct gitconfig_scene *s, const char *value, const char *words UNUSED) {
    return !value || value_one_of(s, value, "true|false|yes|no|on|off|1|0");
}

bool value_number(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    size_t n = value ? strspn(value + (value[0] == '-'), "0123456789") : 0;
    const char *rest = value ? value + (value[0] == '-') + n : "";

    return n > 0 && n < 12 && (*rest == 0 || (strchr("kKmMgG", *rest) && rest[1] == 0));
}

static bool has_only(const char *value, const char *more) {
    for (; *value; value++)
        if (!((*value >= 'a' && *value <= 'z') || (*value >= 'A' && *value <= 'Z') || (*value >= '0' && *value <= '9') ||
              strchr(more, *value)))
            return false;
    return true;
}

bool value_word(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && value[0] != '-' && strlen(value) < VALUE_MAX && has_only(value, " ._,:=%#/+@-*");
}

/* Letters of any language, and no control characters: they reach the user's terminal. */
static bool is_text(const char *value, const char *control) {
    for (; *value; value++)
        if (((unsigned char)*value < ' ' || *value == 0x7f) && !strchr(control, *value))
            return false;
    return true;
}

bool value_text(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && strlen(value) < VALUE_MAX && is_text(value, "");
}

bool value_lines(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && is_text(value, "\n\t");
}

/* Of a ref, a branch or a remote. */
bool value_name(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && value[0] && value[0] != '-' && value[0] != '/' && strlen(value) < NAME_MAX && is_text(value, "") &&
           !strpbrk(value, " ~^:?*[\\\"'`$!|;&<>") && !strstr(value, "..") && !strstr(value, "@{");
}

/* Notes of other programs: no command, and no option. */
bool value_harmless(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return !value || (is_text(value, "\n\t") && value[0] != '!' && value[0] != '-');
}

/* -- paths ---------------------------------------------------------------------------------------------------------------- */

/* out: `path` from the folder `from` of the workspace on, without "." and "..", relative to the workspace; false: it leaves it. */
static bool resolve_path(const char *from, const char *path, char out[static PATH_MAX]) {
    char all[2 * PATH_MAX];
    size_t n = 0;
    int len = snprintf(all, sizeof all, "%s/%s", from, path);

    if (len < 0 || (size_t)len >= PATH_MAX)
        return false;
    for (const char *at = all; *at;) {
        size_t part = strcspn(at, "/");

        if (part == 2 && memcmp(at, "..", 2) == 0) {
            if (n == 0)
                return false;
            while (n > 0 && out[n - 1] != '/')
                n--;
            n = n > 0 ? n - 1 : 0;
        } else if (part > 0 && !(part == 1 && at[0] == '.')) {
            if (n > 0)
                out[n++] = '/';
            memcpy(out + n, at, part);
            n += part;
        }
        at += part;
        at += strspn(at, "/");
    }
    out[n] = 0;
    return true;
}

/* The same for a path that may be absolute; false: it is not in the workspace. */
static bool find_inside(const struct gitconfig_scene *s, const char *from, const char *path, char out[static PATH_MAX]) {
    size_t len = strlen(s->workspace);

    if (path[0] != '/')
        return resolve_path(from, path, out);
    return strncmp(path, s->workspace, len) == 0 && (path[len] == 0 || path[len] == '/') && resolve_path("", path + len, out);
}

static bool has_parent(const char *path) {
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0))
            return true;
    return false;
}

static bool has_git(const char *path) {
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncasecmp(at, ".git", 4) == 0 || strncasecmp(at, "git~", 4) == 0)
            return true;
    return false;
}

bool value_inside(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && value[0] && !strchr("-/~%", value[0]) && is_text(value, "") && !has_parent(value) && strlen(value) < PATH_MAX;
}

bool value_module_path(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return value && value[0] && !strchr("-/~", value[0]) && is_text(value, "") && !has_parent(value) && !has_git(value) &&
           strlen(value) < PATH_MAX;
}

/* git writes `../../../sub`, from the folder of the file on. Another place would be where the user's next checkout or clean works. */
bool value_worktree(const struct gitconfig_scene *s, const char *value, const char *words UNUSED) {
    char path[PATH_MAX];

    return value && s->is_module && is_text(value, "") && find_inside(s, s->folder, value, path) && path[0] && !has_git(path) &&
           s->may_hold(s->arg, path);
}

/* -- addresses ------------------------------------------------------------------------------------------------------------ */

/* A push runs the hooks of the repository it goes to. So it must be the workspace itself, whose hooks are protected, or a place that the host does not have. Another folder of the
 * workspace could become a link to anywhere, and what a link leads to may be the sandbox's own (/proc/PID/root). */
static bool is_local_path(const struct gitconfig_scene *s, const char *path) {
    char inside[PATH_MAX];

    if (has_parent(path) || strlen(path) >= PATH_MAX)
        return false;
    if (path[0] != '/')
        return str_eq(path, ".") || str_eq(path, "./");
    if (find_inside(s, "", path, inside))
        return !inside[0] || str_eq(inside, ".git");
    return s->is_private(s->arg, path);
}

/* user@host:port of an address; ssh must not take it for an option. */
static bool is_host(const char *host, size_t len) {
    char text[NAME_MAX];
    const char *at;

    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, host, len);
    text[len] = 0;
    at = strrchr(text, '@');
    return text[0] != '-' && (!at || at[1] != '-') && has_only(text, "._~%+=,:@[]-");
}

static bool is_scheme_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("+-.", c);
}

/* NAME::ADDRESS makes git run git-remote-NAME. */
static bool names_helper(const char *url) {
    size_t n = 0;

    while (url[n] && is_scheme_char(url[n]))
        n++;
    return strncmp(url + n, "::", 2) == 0;
}

static bool is_url(const struct gitconfig_scene *s, const char *url) {
    static const char *const schemes[] = {"https://", "http://", "ssh://", "git://", "git+ssh://", "ssh+git://"};
    size_t colon = strcspn(url, ":"), slash = strcspn(url, "/");

    if (!url[0] || url[0] == '-' || strlen(url) >= VALUE_MAX || !is_text(url, "") || names_helper(url) || strstr(url, "%0"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (str_starts(url, schemes[i])) {
            const char *host = url + strlen(schemes[i]);

            return is_host(host, strcspn(host, "/?#"));
        }
    if (str_starts(url, "file:///"))
        return is_local_path(s, url + strlen("file://"));
    if (strstr(url, "://"))
        return false;
    if (url[colon] && colon < slash) /* user@host:path */
        return is_host(url, colon) && url[colon + 1] && url[colon + 1] != '-' && url[colon + 1] != ':';
    return is_local_path(s, url);
}

bool value_url(const struct gitconfig_scene *s, const char *value, const char *words UNUSED) {
    return value && is_url(s, value);
}

bool value_remote(const struct gitconfig_scene *s, const char *value, const char *words) {
    return value && (str_eq(value, ".") || value_name(s, value, words) || is_url(s, value));
}

/* Relative ones count from the address of the repository itself. */
bool value_module_url(const struct gitconfig_scene *s, const char *value, const char *words UNUSED) {
    if (value && (str_starts(value, "./") || str_starts(value, "../")))
        return is_text(value, "") && !strchr(value, ':') && strlen(value) < PATH_MAX;
    return value && is_url(s, value);
}

/* -- refspecs ------------------------------------------------------------------------------------------------------------- */

static bool is_refspec_text(const char *value) {
    return value && value[0] && value[0] != '-' && strlen(value) < VALUE_MAX && is_text(value, "") && !strpbrk(value, " \\~?[") &&
           !strstr(value, "..");
}

/* Not to refs/replace, which would show other objects in the place of those that were asked for, nor to all of refs. */
bool value_fetch(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    static const char *const ends[] = {"refs/heads/", "refs/remotes/", "refs/tags/", "refs/notes/"};
    const char *to = value ? strchr(value, ':') : NULL;

    if (!is_refspec_text(value))
        return false;
    if (!to || !to[1])
        return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (str_starts(to + 1, ends[i]))
            return !strchr(to + 1, ':');
    return false;
}

bool value_push(const struct gitconfig_scene *s UNUSED, const char *value, const char *words UNUSED) {
    return is_refspec_text(value) && value[0] != '+' && value[0] != ':';
}
