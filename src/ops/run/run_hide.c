/* SPDX-License-Identifier: Apache-2.0 */
/* Scans the workspace for what is hidden. */
#include "ops/run/run_hide.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/plan.h"
#include "os/fd.h"
#include "workspace/copy/hardlinks.h"
#include "workspace/git/gitblobs.h"
#include "workspace/git/gittracked.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/pin.h"
#include "workspace/hide/walk_memo.h"

/* In direct and read-only mode each hidden path is a mount; elsewhere it is only an entry of a folder in memory. */
enum { COVERS_MAX = 1000, ABSENCES_MAX = 100000, LITERAL_MAX = 8192 };

struct hiding {
    const struct host_facts *facts;
    struct settings *settings;
    struct run_hidden *to;
    int top;
    struct strv linked; /* hidden paths that may have other names */
    size_t max, still_hidden;
};

void run_hidden_done(struct run_hidden *h) {
    strv_done(&h->paths);
    lookalikes_done(&h->tracked);
    elsewheres_done(&h->elsewhere);
    ignore_freep(&h->rules);
    ignore_freep(&h->accepted);
}

static int hide_found(const struct ignore_found *f, void *arg, struct err *err) {
    struct hiding *h = arg;

    if (h->to->paths.len == h->max)
        return err_set(err, -E2BIG, "more than %zu files match %s (the last one: '%s'); hide their folders instead%s", h->max,
                       IGNORE_FILE, f->path, h->max == COVERS_MAX ? ", or use --workspace overlay or sync" : "");
    if ((f->linked || f->is_dir) && strv_add(&h->linked, f->path) < 0)
        return err_oom(err);
    return strv_add(&h->to->paths, f->path) < 0 ? err_oom(err) : 0;
}

/* A rule for just this path, in its own folder, where it wins over everything. */
static int add_literal(struct ignore *rules, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(LITERAL_MAX);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    CLEANUP(freep) char *dir = strndup(path, slash ? (size_t)(slash - path) : 0);

    buf_addc(&line, '/');
    ignore_quote(&line, name);
    buf_addc(&line, '\n');
    if (!dir || !buf_ok(&line))
        return err_oom(err);
    return ignore_add_file(rules, dir, "accepted " IGNORE_FILE, line.data, line.len, err);
}

static int hide_literal(struct hiding *h, const struct ignore_found *f, struct err *err) {
    int r = add_literal(h->to->rules, f->path, err);

    return r < 0 ? r : hide_found(f, h, err);
}

static int hide_names(struct hiding *h, const struct strv *names, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < names->len; i++)
        r = hide_literal(h, &(struct ignore_found){.path = names->v[i]}, err);
    return MIN_OF(r, 0);
}

/* What the accepted rules hide and the present ones would show stays hidden. */
static int hide_accepted_path(const struct ignore_found *f, void *arg, struct err *err) {
    struct hiding *h = arg;

    if (ignore_match(h->to->rules, f->path, f->is_dir) == IGNORE_EXCLUDED)
        return 0;
    h->still_hidden++;
    return hide_literal(h, f, err);
}

/* The accepted rules count until the user has seen what changed (workspace/hide/pin.h). */
static int hide_accepted(struct hiding *h, bool record, struct err *err) {
    CLEANUP(freep) char *pins = NULL;
    int r = pin_folder(h->facts->environ_, h->facts->home, &pins, err);

    r = r < 0 ? r : pin_check(pins, h->facts->workspace, h->to->rules, record, &h->to->accepted, err);
    if (r <= 0)
        return r;
    r = ignore_scan_by(h->to->accepted, h->top, hide_accepted_path, h, err);
    if (r >= 0 && h->still_hidden &&
        strv_addf(&h->settings->notes,
                  IGNORE_FILE
                  " changed since it was accepted: %zu of the files that it would show %s hidden (see 'bawn init --accept')",
                  h->still_hidden, str_plural(h->still_hidden, "stays", "stay")) < 0)
        return err_oom(err);
    return r;
}

/* A hidden file that was ever added to git is in its store a second time. */
static int hide_objects(struct hiding *h, struct err *err) {
    CLEANUP(strv_done) struct strv objects = {0};
    int r = gitblobs_of_hidden(h->top, &h->to->paths, &objects, err);

    if (r > 0 && strv_add(&h->settings->notes,
                          "too many hidden files to look for all of them among git's objects; what was ever added to git "
                          "can be read there") < 0)
        return err_oom(err);
    return r < 0 ? r : hide_names(h, &objects, err);
}

/* A hidden file that has another name, which no rule hides. */
static int hide_links(struct hiding *h, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    struct strv *notes = &h->settings->notes;
    int r = hardlinks_of_hidden(h->top, &h->linked, h->to->rules, &names, err);

    if (r > 0 && strv_add(notes, "too many hidden files to look for other names (hard links) of all of them; what has one can be "
                                 "read by it") < 0)
        return err_oom(err);
    if (r >= 0 && names.len &&
        strv_addf(notes, "%zu %s of hidden files are hidden, too: '%s'%s", names.len,
                  names.len == 1 ? "other name" : "other names", names.v[0], names.len > 1 ? ", ..." : "") < 0)
        return err_oom(err);
    return r < 0 ? r : hide_names(h, &names, err);
}

/* A hidden folder that the user mounts by name is meant to be seen. */
static int find_elsewhere(struct hiding *h, struct err *err) {
    struct elsewheres *e = &h->to->elsewhere;
    int r = elsewheres_find(h->settings, h->facts->workspace, e, err);

    for (size_t i = r < 0 ? 0 : e->n; i-- > 0;)
        if (*e->v[i].rel && ignore_match(h->to->rules, e->v[i].rel, true) == IGNORE_EXCLUDED)
            elsewheres_drop(e, i);
    return r;
}

/* A path that is replaced by another file, or by a folder of the sandbox's own, counts as hidden: a copy does not have it, and nothing of
 * that name is carried back. */
static int hide_replaced(struct hiding *h, enum workspace_mode mode, struct err *err) {
    const struct settings *s = h->settings;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < s->workspace.n_substitutes; i++)
        r = add_literal(h->to->rules, s->workspace.substitutes[i].path, err);
    for (size_t i = 0; r >= 0 && i < s->workspace.volumes.len && (mode == WORKSPACE_SYNC || mode == WORKSPACE_WORKTREE); i++)
        r = add_literal(h->to->rules, s->workspace.volumes.v[i], err);
    return r;
}

/* A search that failed is not remembered. */
static int hide_by_rules(struct hiding *h, bool record, struct err *err) {
    CLEANUP(walk_memo_done) struct walk_memo memo = WALK_MEMO_INIT;
    CLEANUP(freep) char *dir = NULL, *path = NULL;
    char name[SHA256_HEX_SIZE];
    int r = walk_memo_folder(h->facts->environ_, h->facts->home, &dir, err);

    if (r < 0 || !dir)
        return r < 0 ? r : ignore_scan(h->to->rules, h->top, hide_found, h, err);
    sha256_hex(h->facts->workspace, strlen(h->facts->workspace), name);
    path = str_dupf("%s/%s", dir, name);
    if (!path)
        return err_oom(err);
    walk_memo_load(&memo, path);
    r = ignore_scan_memo(h->to->rules, h->top, &memo, hide_found, h, err);
    if (r == 0 && record)
        walk_memo_store(&memo, dir, name);
    return r;
}

static int hide_all(struct hiding *h, bool record, struct err *err) {
    int r = hide_by_rules(h, record, err);

    if (r < 0 || (r = hide_accepted(h, record, err)) < 0 || (r = hide_links(h, err)) < 0 || (r = hide_objects(h, err)) < 0 ||
        (r = gittracked_find(h->top, &h->to->paths, &h->to->tracked, err)) < 0)
        return r;
    return find_elsewhere(h, err);
}

int run_hide(const struct host_facts *facts, struct settings *s, bool record, struct run_hidden *ret, struct err *err) {
    CLEANUP(closep) int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    enum workspace_mode mode = settings_workspace_mode(s);
    struct hiding h = {.facts = facts,
                       .settings = s,
                       .to = ret,
                       .top = top,
                       .max = mode == WORKSPACE_DIRECT || mode == WORKSPACE_RO ? COVERS_MAX : ABSENCES_MAX};
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace");
    ret->rules = ignore_new();
    r = ret->rules ? hide_all(&h, record, err) : err_oom(err);
    strv_done(&h.linked);
    return r < 0 ? r : hide_replaced(&h, mode, err);
}
