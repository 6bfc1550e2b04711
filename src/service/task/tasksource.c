/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workspace begins with. A repository is cloned by git in a sandbox of its own, which reaches its host through the gate, under the rules of
 * the tenant and the organisation. The workspace of another run, which has ended, is copied.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "os/spawn.h"
#include "service/task/taskfiles_priv.h"
#include "service/task/taskreq.h"
#include "service/task/tasksource.h"

enum { SAID_MAX = 16 * 1024, REQUEST_CEILING = 33 * 1024 * 1024 };

/* Without the hooks of git's template; the branch is made if there is none. */
static const char clone_script[] =
    "git clone -q --template= -- \"$1\" . || exit 1\n"
    "if [ -n \"$2\" ]; then git checkout -q \"$2\" -- 2>/dev/null || git checkout -q -b \"$2\" || exit 1; fi";

int tasksource_host(const char *url, char **ret, struct err *err) {
    static const char *const schemes[] = {"https://", "http://"};
    const char *host = NULL;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(schemes) && !host; i++)
        host = str_starts(url, schemes[i]) ? url + strlen(schemes[i]) : NULL;
    n = host ? strcspn(host, "/?#") : 0;
    if (n == 0 || memchr(host, '@', n))
        return err_set(err, -EINVAL, "must be https://HOST/... or http://HOST/..., without a user or password");
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]", host[i]))
            return err_set(err, -EINVAL, "its host has a character that no host has");
    *ret = strndup(host, n);
    return *ret ? 0 : err_oom(err);
}

static int source_run(const struct spawn *s, const char *what, struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(SAID_MAX);
    char *line, *last;
    int r = spawn_collect(s, NULL, &said);

    if (r == 0)
        return 0;
    if (r < 0)
        return err_sys(err, r, "%s", what);
    while (said.len && said.data[said.len - 1] == '\n')
        said.data[--said.len] = 0;
    last = said.len ? strrchr(said.data, '\n') : NULL;
    line = last ? last + 1 : said.len ? said.data : "it gave no reason";
    return err_set(err, -EIO, "%s: %.250s", what, line);
}

static int add_secrets(const struct buf *request, struct strv *argv) {
    struct taskreq_field f;
    int r = 0;

    for (size_t at = 0; r >= 0 && taskreq_next(request, &at, &f) > 0;)
        if (str_eq(f.name, "shape.secrets"))
            r = strv_addf(argv, "--secret=%.*s", (int)f.len, f.data);
    return r;
}

/* What it takes counts as if the run had it. */
static int add_limits(const struct buf *request, struct strv *argv) {
    static const char *const limits[][2] = {
        {"shape.limits.cpus", "cpus"}, {"shape.limits.memory", "memory"}, {"shape.limits.disk", "disk"}};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(limits); i++) {
        CLEANUP(freep) char *value = NULL;

        r = taskreq_get(request, limits[i][0], &value);
        r = r < 0 || !value ? r : strv_addf(argv, "--%s=%s", limits[i][1], value);
    }
    return r;
}

static int source_clone(const struct buf *request, const char *bawn, const char *url, struct err *err) {
    static const char *const words[] = {"bawn",        "run",           "--no-tty",          "--quiet",
                                        "--ask=never", "--timeout=15m", "--workspace=direct"};
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(freep) char *host = NULL;
    CLEANUP(freep) char *branch = NULL;
    const struct spawn base = {.path = bawn, .envp = environ, .cwd = SPAWN_CWD_STAY, .group = SPAWN_SESSION};
    struct spawn s = base;
    int r = tasksource_host(url, &host, err), add = 0;

    if (r < 0)
        return err_ctx(err, r, "the repository");
    for (size_t i = 0; add >= 0 && i < ARRAY_LEN(words); i++)
        add = strv_add(&argv, words[i]);
    add = add < 0 ? add : strv_addf(&argv, "--allow=%s", host);
    add = add < 0 ? add : add_secrets(request, &argv);
    add = add < 0 ? add : add_limits(request, &argv);
    add = add < 0 ? add : taskreq_get(request, "shape.source.branch", &branch);
    for (size_t i = 0; add >= 0 && i < 6; i++)
        add = strv_add(&argv, (const char *const[]){"--", "sh", "-c", clone_script, "sh", url}[i]);
    add = add < 0 ? add : strv_add(&argv, branch ? branch : "");
    if (add < 0)
        return err_oom(err);
    s.argv = argv.v;
    return source_run(&s, "clone the repository", err);
}

/* We are in runs/OURS/workspace. */
static int source_copy(const char *run, struct err *err) {
    CLEANUP(freep) char *from = str_dupf("../../%s/workspace/.", run);
    char *argv[] = {"cp", "-a", "--reflink=auto", "--", from, ".", NULL};
    const struct spawn s = {.path = "/bin/cp", .argv = argv, .envp = environ, .cwd = SPAWN_CWD_STAY};

    return from ? source_run(&s, "copy the workspace", err) : err_oom(err);
}

int tasksource_fill(const struct buf *request, const char *bawn, struct err *err) {
    CLEANUP(freep) char *git = NULL;
    CLEANUP(freep) char *run = NULL;
    int r = taskreq_get(request, "shape.source.git", &git);

    r = r < 0 ? r : taskreq_get(request, "shape.source.run", &run);
    if (r < 0)
        return err_sys(err, r, "read the request");
    return git ? source_clone(request, bawn, git, err) : run ? source_copy(run, err) : 0;
}

/* BAWN; stdin: the request */
int taskfiles_source(char **args, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(REQUEST_CEILING);
    int r = file_read_fd(STDIN_FILENO, 0, &request);

    return r < 0 ? err_sys(err, r, "read the request") : tasksource_fill(&request, args[0], err);
}
