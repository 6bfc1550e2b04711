/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worktree mode and what it is made of, one call at a time, for test_worktree_git.py:
 *
 *     worktree-cli make|open|carry|merged|drop|discard RUNS NAME WORKSPACE [PATTERN...]
 *     worktree-cli manifest FOLDER           "PATH" or "PATH differs" (from the workspace's file) each
 *     worktree-cli config < FILE             "LINE KEY\nVALUE\0" each, as `git config --list -z` has it
 *     worktree-cli places WORKSPACE [FILE...]
 *     worktree-cli git FOLDER OBJECTS WORKTREE ARG...     one call of git.h
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/manifest.h"
#include "workspace/git/git.h"
#include "workspace/git/gitconfig.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/worktree.h"

static int fail(const struct err *err) {
    fprintf(stderr, "%s\n", err->msg);
    return 1;
}

static int open_run(const char *verb, char **argv, struct rundir *ret, struct err *err) {
    struct run_info info = {.mode = WORKSPACE_WORKTREE, .workspace = argv[2]};

    return str_eq(verb, "make") ? rundir_create(argv[0], argv[1], &info, ret, err)
                                : rundir_open(argv[0], argv[1], true, ret, err);
}

static int rules(char **patterns, struct ignore **ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(100000);

    *ret = ignore_new();
    for (; *patterns; patterns++)
        buf_addf(&text, "%s\n", *patterns);
    return ignore_add_file(*ret, "", "arguments", buf_str(&text), text.len, err);
}

static int run(const char *verb, char **argv) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int workspace = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(ignore_freep) struct ignore *hidden = NULL;
    CLEANUP(worktree_view_done) struct worktree_view view = {0};
    struct err err = {0};
    bool merged = false;
    int r = open_run(verb, argv, &rd, &err);

    r = r < 0 ? r : rules(argv + 3, &hidden, &err);
    if (r < 0)
        return fail(&err);
    if (str_eq(verb, "make"))
        r = worktree_make(&rd, workspace, hidden, &view, &err);
    else if (str_eq(verb, "open"))
        r = worktree_open(&rd, workspace, &view, &err);
    else if (str_eq(verb, "carry"))
        r = worktree_carry(&rd, workspace, &err);
    else if (str_eq(verb, "merged"))
        r = worktree_merged(&rd, workspace, &merged, &err);
    else
        r = worktree_drop(&rd, workspace, str_eq(verb, "discard"), &err);
    if (r < 0)
        return fail(&err);
    if (view.objects)
        printf("%s\n%s\n%s\n", rd.path, view.objects, rd.info.branch);
    else
        printf("%d\n", str_eq(verb, "merged") ? merged : r);
    return 0;
}

static int print_key(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    printf("%u %s", line, key);
    if (value)
        printf("\n%s", value);
    putchar(0);
    return 0;
}

static int config(void) {
    static char data[GITCONFIG_SIZE_MAX];
    size_t len = fread(data, 1, sizeof data, stdin);
    struct err err = {0};

    return gitconfig_parse(data, len, print_key, NULL, &err) < 0 ? fail(&err) : 0;
}

static int manifest(const char *folder) {
    CLEANUP(closep) int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    struct err err = {0};

    if (manifest_load(dir, "manifest", &m, &err) < 0)
        return fail(&err);
    for (size_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_at(m, i);

        printf("%s%s\n", e->path, e->host.ino ? "" : " differs");
    }
    return 0;
}

static int places(char **argv) {
    CLEANUP(closep) int workspace = open(argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(strv_done) struct strv found = {0};
    CLEANUP(freep) char *hooks = NULL;
    struct err err = {0};

    if (gitconfig_places(workspace, argv[0], (const char *const *)argv + 1, &found, &hooks, &err) < 0)
        return fail(&err);
    printf("hooks=%s\n", hooks ? hooks : "");
    for (size_t i = 0; i < found.len; i++)
        puts(found.v[i]);
    return 0;
}

static int one_call(char **argv) {
    CLEANUP(git_done) struct git g = GIT_INIT;
    CLEANUP(closep) int objects = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int cwd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(buf_done) struct buf out = BUF_INIT(GIT_OUTPUT_MAX);
    struct git_opts opts = {.folder = argv[0], .owner = cwd};
    struct git_call call = git_call((const char *const *)argv + 3, objects);
    struct err err = {0};

    call.cwd = cwd;
    if (git_init(&g, &opts, &err) < 0 || git_run(&g, &call, &out, &err) < 0)
        return fail(&err);
    fwrite(buf_str(&out), 1, out.len, stdout);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && str_eq(argv[1], "config"))
        return config();
    if (argc == 3 && str_eq(argv[1], "manifest"))
        return manifest(argv[2]);
    if (argc >= 3 && str_eq(argv[1], "places"))
        return places(argv + 2);
    if (argc >= 6 && str_eq(argv[1], "git"))
        return one_call(argv + 2);
    return argc >= 5 ? run(argv[1], argv + 2) : 2;
}
