/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that stood in a protected place before the run: if .git/hooks leads to tools/hooks, tools/hooks is what the host obeys,
 * and it is protected too, whether it exists or not, and so are links on the way. Looked for at the top of the workspace only, where it costs a
 * hundred calls at the first change; the supervisor finds the others, and those that the host makes later (supervisor/watch/landing.h). Links that lead out of
 * the workspace protect nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "init/guard/guard_priv.h"
#include "os/fd.h"
#include "proto/initmsg.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

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
static void add_pattern(struct buf *out, const char *before, const char *path, const char *rest) {
    buf_adds(out, before);
    for (const char *s = path; *s; s++) {
        if (*s != '/' && !isalnum((unsigned char)*s))
            buf_addc(out, '\\');
        buf_addc(out, *s);
    }
    buf_adds(out, rest);
    buf_addc(out, '\n');
}

struct look {
    const struct guard *g;
    const struct lead *lead;
    struct buf *out;
};

/* ".vscode" and "!.vscode/" together: a folder is fine, a file or link is not; and so it is where a link of that name leads. */
static void add_place(void *arg, const char *place, bool is_link) {
    const struct look *look = arg;
    const struct lead *l = look->lead;

    if (str_eq(place, l->path) || strchr(place, '\n'))
        return;
    add_pattern(look->out, "/", place, is_link ? "" : l->rest);
    if (is_link || (!*l->rest && !guard_rules_protect(&look->g->rules, l->path, RULES_FOLDER)))
        add_pattern(look->out, "!/", place, "/");
}

int guard_protect_targets(struct guard *g, const struct init_text *texts, size_t n, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(IGNORE_FILE_MAX);
    struct init_text more = {.dir = "", .origin = "links at the start"};
    struct lead lead;
    struct look look = {.g = g, .lead = &lead, .out = &out};

    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < texts[i].len;) {
            const char *line = texts[i].data + at, *end = memchr(line, '\n', texts[i].len - at);
            size_t len = end ? (size_t)(end - line) : texts[i].len - at;

            if (lead_of(&texts[i], line, len, &lead) && protect_follow(g->root, g->root_path, lead.path, add_place, &look) < 0)
                return err_set(err, -ENAMETOOLONG, "it cannot be found out where a link in a protected place leads");
            at += len + 1;
        }
    if (!buf_ok(&out))
        return err_oom(err);
    more.data = buf_str(&out);
    more.len = out.len;
    return out.len ? guard_rules_add_protect(&g->rules, &more, err) : 0;
}
