/*
 * Links that stood in a protected place before the run: if .git/hooks leads to tools/hooks, tools/hooks is what the host obeys,
 * and it is protected too. Looked for at the top of the workspace only, where it costs a few hundred calls at the start; links
 * that lead out of the workspace, or nowhere, protect nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "init/guard_priv.h"
#include "os/fd.h"
#include "proto/initmsg.h"
#include "workspace/ignore.h"

/* A pattern as seen from the top of the workspace: the folders, or the file, that it names without wildcards, and what
 * follows. */
struct lead {
    char path[PATH_MAX];
    char rest[PATH_MAX]; /* "" or with a '/' in front */
};

static bool lead_of(const struct init_text *t, const char *line, size_t len, struct lead *ret) {
    size_t plain;
    int n, k;

    while (len > 0 && strchr(" \r/", line[len - 1]))
        len--;
    if (len > 3 && memcmp(line, "**/", 3) == 0) {
        line += 3;
        len -= 3;
    }
    if (len > 1 && line[0] == '/') {
        line++;
        len--;
    }
    if (len == 0 || line[0] == '#' || line[0] == '!')
        return false;
    for (plain = 0; plain < len && !strchr("*?[\\", line[plain]); plain++)
        ;
    while (plain < len && plain > 0 && line[plain] != '/')
        plain--;
    n = snprintf(ret->path, sizeof ret->path, "%s%s%.*s", t->dir, *t->dir ? "/" : "", (int)plain, line);
    k = snprintf(ret->rest, sizeof ret->rest, "%.*s", (int)(len - plain), line + plain);
    return plain > 0 && n < PATH_MAX && k < PATH_MAX;
}

/* A pattern for exactly this path, and for `rest` below it. */
static void add_pattern(struct buf *out, const char *folder, const char *name, const char *rest) {
    const char *parts[] = {*folder ? "/" : "", folder, name};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (const char *s = parts[i]; *s; s++) {
            if (*s != '/' && !isalnum((unsigned char)*s))
                buf_addc(out, '\\');
            buf_addc(out, *s);
        }
    buf_adds(out, rest);
    buf_addc(out, '\n');
}

/* As much of the path as there is: does it lead somewhere else? */
static void look(const struct guard *g, const struct lead *l, struct buf *out) {
    char prefix[PATH_MAX], real[PATH_MAX];

    for (size_t len = strlen(l->path); len > 0; len--) {
        CLEANUP(closep) int fd = -1;
        const char *rel;
        struct stat st;

        if (l->path[len] && l->path[len] != '/')
            continue;
        memcpy(prefix, l->path, len);
        prefix[len] = 0;
        fd = openat(g->root, prefix, O_PATH | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            continue;
        /* ".vscode" and "!.vscode/" together: only a link of that name is protected, not the folder it leads to */
        if (!l->path[len] && !*l->rest &&
            !guard_rules_protect(&g->rules, prefix, S_ISDIR(st.st_mode) ? RULES_FOLDER : RULES_FILE))
            return;
        rel = place_path_of(fd, real) < 0 ? NULL : path_below(real, g->root_path);
        if (rel && !str_eq(rel, prefix) && !strchr(rel, '\n'))
            add_pattern(out, rel, l->path + len, l->rest);
        return;
    }
}

int guard_protect_targets(struct guard *g, const struct init_text *texts, size_t n, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(IGNORE_FILE_MAX);
    struct init_text more = {.dir = "", .origin = "links at the start"};
    struct lead lead;

    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < texts[i].len;) {
            const char *line = texts[i].data + at, *end = memchr(line, '\n', texts[i].len - at);
            size_t len = end ? (size_t)(end - line) : texts[i].len - at;

            if (lead_of(&texts[i], line, len, &lead))
                look(g, &lead, &out);
            at += len + 1;
        }
    if (!buf_ok(&out))
        return err_oom(err);
    more.data = buf_str(&out);
    more.len = out.len;
    return out.len ? guard_rules_add_protect(&g->rules, &more, err) : 0;
}
