/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, judges and writes git's own files. The text is read once into memory of ours, and what was judged is what is written: the file that the inside wrote is never
 * the one that the host reads.
 */
#include "init/guard/guard_git_judge.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "os/file.h"
#include "proto/initmsg.h"
#include "workspace/git/gitconfig_judge.h"

/* Nothing that was written inside is at this path on the host: it is on the tmpfs that the sandbox alone has (/tmp and others), on the mount that
 * is its root, or nowhere here. The root's device says nothing: it may be the disk of the workspace (jail/apply/ground.h). */
static bool is_private(void *arg, const char *path) {
    const struct guard *g = arg;
    char at[PATH_MAX];
    uint64_t mount, root;
    dev_t dev, root_dev;
    int r;

    if ((g->start->flags & INIT_FLAG_NO_PIDNS) || stat_mount("/", &root_dev, &root) < 0 || strlen(path) >= sizeof at)
        return false;
    memcpy(at, path, strlen(path) + 1);
    while ((r = stat_mount(at, &dev, &mount)) < 0) {
        char *slash = strrchr(at, '/');

        if (!guard_is_absence(-r) || !slash || slash == at)
            return guard_is_absence(-r);
        *slash = 0;
    }
    return (g->private_dev && dev == g->private_dev) || (root && mount == root);
}

static bool may_hold(void *arg, const char *rel) {
    const struct guard *g = arg;

    return !guard_rules_lead(&g->rules, rel) && !guard_rules_is_git(rel) && !judge_is_protected(g, rel, RULES_FOLDER);
}

struct scene_room {
    char folder[PATH_MAX];
    struct gitconfig_scene scene;
};

static const struct gitconfig_scene *make_scene(const struct guard *g, const char *rel, struct scene_room *s) {
    const char *slash = strrchr(rel, '/'), *part;

    snprintf(s->folder, sizeof s->folder, "%.*s", slash ? (int)(slash - rel) : 0, rel);
    part = guard_rules_behind_git(s->folder);
    s->scene = (struct gitconfig_scene){.workspace = g->root_path,
                                        .folder = s->folder,
                                        .is_module = part && (str_starts(part, "modules/") || strstr(part, "/modules/")) &&
                                                     guard_git_is_home(s->folder),
                                        .is_private = is_private,
                                        .may_hold = may_hold,
                                        .arg = (void *)g};
    return &s->scene;
}

static const char not_inside[] = "it leads to no submodule or worktree of a repository that it lies in";
static const char not_worktree[] = "git writes something else there";

static int judge_text(const struct guard *g, const char *rel, enum git_role role, const struct buf *old, const struct buf *new,
                      struct buf *ret, char why[static GITCONFIG_WHY_MAX]) {
    struct scene_room room;
    const struct gitconfig_scene *s = make_scene(g, rel, &room);
    int r;

    if (role == GIT_POINTER || role == GIT_COMMONDIR || role == GIT_GITDIR) {
        snprintf(why, GITCONFIG_WHY_MAX, "%s", role == GIT_POINTER ? not_inside : not_worktree);
        return guard_git_link(g, rel, role, new, ret);
    }
    if (role == GIT_CONFIG)
        return gitconfig_judge(s, buf_str(old), old->len, buf_str(new), new->len, ret, why);
    r = gitconfig_judge_modules(s, buf_str(new), new->len, why);
    buf_add(ret, buf_str(new), new->len);
    return r < 0 || buf_ok(ret) ? r : -ENOMEM;
}

int guard_git_judge(struct guard *g, const char *rel, enum git_role role, const struct buf *old, const struct buf *new,
                    struct buf *ret) {
    char why[GITCONFIG_WHY_MAX] = "";
    int r = judge_text(g, rel, role, old, new, ret, why);

    if (r == -ENOMEM || r == 0)
        return r;
    return guard_refuse_for(g, rel, GUARD_WHY_GIT, -EACCES, why);
}

static int read_place(const struct place *p, struct buf *ret) {
    CLEANUP(closep) int fd = place_open(p, O_RDONLY | O_NONBLOCK, 0);

    return fd < 0 ? fd : file_read_fd(fd, 0, ret);
}

bool guard_git_is_harmless(const struct guard *g, const struct place *p, enum git_role role) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_JUDGED_MAX);
    CLEANUP(buf_done) struct buf ret = BUF_INIT(GITCONFIG_JUDGED_MAX);
    const struct buf none = {0};
    char why[GITCONFIG_WHY_MAX];

    if (role == GIT_NONE || read_place(p, &text) < 0)
        return false;
    return judge_text(g, p->rel, role, role == GIT_CONFIG ? &text : &none, role == GIT_CONFIG ? &none : &text, &ret, why) == 0;
}

/* Known to us as one that the host is not saving; not to the supervisor as one that was written inside. */
static void know_copy(struct guard *g, const struct place *p) {
    uint64_t birth_ns;
    struct stat st;

    if (stat_born(p->dir, p->name, AT_SYMLINK_NOFOLLOW, &st, &birth_ns) == 0)
        seen_add_hash(&g->known, guardmsg_key(st.st_dev, st.st_ino, birth_ns));
}

int guard_git_write(struct guard *g, const struct place *p, mode_t mode, const struct buf *text) {
    mode_t before = umask(0);
    int r = file_replace_at(p->dir, p->name, mode, p->exists ? 0 : FILE_NEW, buf_str(text), text->len);

    umask(before);
    if (r == 0)
        know_copy(g, p);
    return r;
}

static int put_text(struct guard *g, const struct place *from, const struct place *to, const struct buf *text) {
    mode_t mode = to->exists ? to->st.st_mode & 0777 : from->st.st_mode & 0775;
    int r = guard_touch(g, from, true);

    r = r < 0 ? r : guard_touch(g, to, true);
    guard_note_renamed(g, to->rel);
    return r < 0 ? r : guard_git_write(g, to, mode, text);
}

/* git writes its configuration anew also when it ends up as it was: then the present file stays. */
int guard_git_put(struct guard *g, const struct place *from, const struct place *to, enum git_role role) {
    CLEANUP(buf_done) struct buf old = BUF_INIT(GITCONFIG_JUDGED_MAX);
    CLEANUP(buf_done) struct buf new = BUF_INIT(GITCONFIG_JUDGED_MAX);
    int r = 0;

    if (!from->rel || from->object >= 0 || to->object >= 0 || !S_ISREG(from->st.st_mode) ||
        (to->exists && !S_ISREG(to->st.st_mode)) || guard_rules_is_git(from->rel) || judge_is_protected(g, from->rel, RULES_FILE))
        return guard_refuse(g, to->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (guard_rules_hide(&g->rules, to->rel, RULES_FILE))
        return guard_refuse(g, to->rel, GUARD_WHY_HIDDEN, -EACCES);
    r = judge_remove(g, from);
    r = r < 0 || !to->exists ? r : judge_end_of_move(g, to);
    if (r < 0)
        return r;
    if (read_place(from, &new) < 0 || (to->exists && read_place(to, &old) < 0))
        return guard_refuse(g, to->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (!to->exists || old.len != new.len || memcmp(buf_str(&old), buf_str(&new), new.len) != 0) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_JUDGED_MAX);

        r = guard_git_judge(g, to->rel, role, &old, &new, &text);
        r = r < 0 ? r : put_text(g, from, to, &text);
    }
    if (r < 0)
        return r;
    return unlinkat(from->dir, from->name, 0) < 0 ? -errno : 0;
}
