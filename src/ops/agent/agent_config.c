/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the user's settings of an agent, has them confirmed, and puts them into the agent's folders. */
#include "ops/agent/agent_config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "config/load/trust.h"
#include "jail/plan/facts.h"
#include "ops/audit_verb.h"
#include "ops/notice.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/session/volumes.h"
#include "workspace/copy/place.h"

#define CONFIG_MARK "config.sha256"

struct gathering {
    const struct agent *agent;
    const struct host_facts *facts;
    struct agent_config *to;
};

void agent_config_done(struct agent_config *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->v[i].path);
        buf_done(&c->v[i].data);
    }
    free(c->v);
    strv_done(&c->runs);
    strv_done(&c->left);
}

/* -- gathering ------------------------------------------------------------------------------------------------------------ */

static const char *pair_of(const struct strv *pairs, const char *name) {
    for (size_t i = 0; i + 1 < pairs->len; i += 2)
        if (str_eq(pairs->v[i], name))
            return pairs->v[i + 1];
    return NULL;
}

/* Files of these names have credentials, in whatever folder. */
static bool name_stays_out(const char *name) {
    static const char *const parts[] = {"credential", "token", "secret", "oauth", ".pem", ".key", "history", "session"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strcasestr(name, parts[i]))
            return true;
    return false;
}

static bool is_clutter(const char *name) {
    return name[0] == '.' || str_eq(name, "node_modules") || str_eq(name, "__pycache__");
}

static int leave_out(struct gathering *g, const char *path, const char *why, struct err *err) {
    return config_note(&g->to->left, path, why, NULL, err);
}

static int filter_file(const struct gathering *g, struct config_file *f, const char *only, struct err *err) {
    const char *preset = pair_of(&g->agent->files, f->path);
    struct err reason = {0};
    int r = 0;

    if (str_ends(f->path, ".json"))
        r = config_filter_json(g->agent, f, only, preset, g->to, &reason);
    else if (str_ends(f->path, ".toml") && preset)
        r = config_filter_toml(g->agent, f, preset, g->to, &reason);
    else if (preset) { /* instructions */
        buf_addc(&f->data, '\n');
        buf_adds(&f->data, preset);
    }
    if (r < 0)
        *err = reason;
    return r < 0 ? r : buf_ok(&f->data) ? 0 : err_oom(err);
}

/* fd: taken. 0 also if it stays out. */
static int gather_file(struct gathering *g, int fd, const char *path, struct err *err) {
    const char *as = pair_of(&g->agent->config_as, path);
    CLEANUP(closep) int file = fd;
    struct config_file *f;
    struct err reason = {0};
    struct stat st;
    int r;

    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_uid != g->facts->uid && st.st_uid != 0))
        return leave_out(g, path, "no file of yours", err);
    if (st.st_size > CONFIG_FILE_MAX || g->to->n == CONFIG_FILES_MAX || g->to->bytes + (size_t)st.st_size > CONFIG_BYTES_MAX)
        return leave_out(g, path, "too large", err);
    f = VEC_NEW(g->to->v, g->to->n);
    if (!f)
        return err_oom(err);
    f->path = strdup(as ? as : path);
    f->data = (struct buf)BUF_INIT(4 * CONFIG_FILE_MAX);
    f->mode = 0600 | (st.st_mode & 0100);
    r = f->path ? paths_read_fd(file, path, CONFIG_FILE_MAX, &f->data, err) : err_oom(err);
    g->to->bytes += f->data.len;
    r = r < 0 ? r : filter_file(g, f, pair_of(&g->agent->config_parts, path), &reason);
    if (r != -EINVAL)
        return r;
    g->to->n--;
    free(f->path);
    buf_done(&f->data);
    return leave_out(g, path, reason.msg, err);
}

/* Links in a folder are not followed: they lead to what the preset does not name. */
static int gather_folder(struct gathering *g, int fd, const char *path, int depth, struct err *err) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir_take(fd, &d);

    if (r < 0 || dir_names(d.fd, ".", &names) < 0)
        return leave_out(g, path, "cannot be read", err);
    for (size_t i = 0; r == 0 && i < names.len; i++) {
        CLEANUP(freep) char *below = str_dupf("%s/%s", path, names.v[i]);
        int child = openat(d.fd, names.v[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;

        if (!below)
            r = err_oom(err);
        else if (is_clutter(names.v[i]))
            r = 0;
        else if (name_stays_out(names.v[i]) || child < 0 || fstat(child, &st) < 0)
            r = leave_out(g, below, "not brought in", err);
        else if (S_ISDIR(st.st_mode) && depth < CONFIG_DEPTH_MAX)
            r = gather_folder(g, TAKE_FD(child), below, depth + 1, err);
        else
            r = gather_file(g, TAKE_FD(child), below, err);
        closep(&child);
    }
    return r;
}

/* What the preset names may be a link, as people have it who keep their configuration in a project of its own. */
static int gather_path(struct gathering *g, const char *path, struct err *err) {
    CLEANUP(freep) char *whole = str_dupf("%s/%s", g->facts->home, path);
    CLEANUP(closep) int fd = whole ? open(whole, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    struct stat st;

    if (!whole)
        return err_oom(err);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : leave_out(g, path, "cannot be read", err);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return gather_folder(g, TAKE_FD(fd), path, 0, err);
    return gather_file(g, TAKE_FD(fd), path, err);
}

/* What is confirmed is what runs; instructions may change without a question. */
static void hash_runs(struct agent_config *c) {
    struct sha256 h;

    sha256_init(&h);
    for (size_t i = 0; i < c->runs.len; i++)
        sha256_add(&h, c->runs.v[i], strlen(c->runs.v[i]) + 1);
    sha256_end_hex(&h, c->consent);
}

static void hash_all(struct agent_config *c) {
    struct sha256 h;

    sha256_init(&h);
    for (size_t i = 0; i < c->n; i++) {
        sha256_add(&h, c->v[i].path, strlen(c->v[i].path) + 1);
        sha256_add(&h, &c->v[i].mode, sizeof c->v[i].mode);
        sha256_add(&h, &c->v[i].data.len, sizeof c->v[i].data.len);
        sha256_add(&h, buf_str(&c->v[i].data), c->v[i].data.len);
    }
    sha256_end_hex(&h, c->hash);
}

int agent_config_collect(const struct agent *a, const struct host_facts *facts, struct agent_config *ret, struct err *err) {
    struct gathering g = {.agent = a, .facts = facts, .to = ret};
    int r = facts->home ? 0 : err_set(err, -ENOENT, "--agent-config needs a home");

    for (size_t i = 0; r == 0 && i < a->config_files.len; i++)
        r = gather_path(&g, a->config_files.v[i], err);
    if (r == 0) {
        hash_all(ret);
        hash_runs(ret);
    }
    return r;
}

/* -- confirming ----------------------------------------------------------------------------------------------------------- */

static int record_consent(const char *records, const char *name, const struct agent *a, const struct agent_config *c,
                          struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    int r;

    audit_add(&b, "what", "agent configuration confirmed");
    audit_add(&b, "agent", a->name);
    audit_add(&b, "config_sha256", c->consent);
    r = audit_verb(AUDIT_POLICY, "", &b, err);
    return r < 0 ? r : trust_record(records, name, c->consent, err);
}

static int confirm_config(const struct agent *a, const struct config_wish *w, const struct host_facts *facts,
                          const struct agent_config *c, struct err *err) {
    CLEANUP(freep) char *records = NULL, *name = str_dupf("agent-config:%s", a->name);
    bool trusted = false;
    int r = name ? trust_file(facts->environ_, facts->home, &records, err) : err_oom(err);

    if (r < 0 || !c->runs.len)
        return r;
    if (!records)
        return err_set(err, -ENOENT, "there is no home folder to keep trust records in");
    r = trust_check(records, name, c->consent, &trusted, err);
    if (r < 0 || trusted)
        return r;
    if (!str_eq(w->mode, "yes")) {
        if (!w->confirm)
            return err_usage(err, "your settings of %s run commands inside, e.g. '%s'; read them, and use --agent-config=yes",
                             a->title ? a->title : a->name, c->runs.v[0]);
        if (!w->confirm(&c->runs, w->arg))
            return err_set(err, -ECANCELED, "not confirmed: your settings of %s stay out", a->title ? a->title : a->name);
    }
    return record_consent(records, name, a, c, err);
}

/* -- placing -------------------------------------------------------------------------------------------------------------- */

static int place_one(const struct config_file *f, const struct strv *homes, struct err *err) {
    for (size_t i = 0; i + 1 < homes->len; i += 2) {
        size_t n = strlen(homes->v[i + 1]);
        CLEANUP(closep) int folder = -1;
        CLEANUP(closep) int content = -1;
        const struct place_meta meta = {.mode = f->mode};
        int r;

        if (strncmp(f->path, homes->v[i + 1], n) != 0 || f->path[n] != '/')
            continue;
        folder = open(homes->v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        content = memfd_create("bawn-agent-config", MFD_CLOEXEC);
        r = folder < 0 || content < 0 ? -errno : fd_write_all(content, buf_str(&f->data), f->data.len);
        return r < 0 ? err_sys(err, r, "write '%s'", f->path) : place_file(folder, f->path + n + 1, content, &meta, NULL, err);
    }
    return err_set(err, -EINVAL, "'%s' is in no folder of the preset's \"home\"", f->path);
}

/* The agent has made something else of a folder or file: that stays. */
static bool is_in_the_way(int r) {
    return r == -EISDIR || r == -ELOOP || r == -ENOTDIR;
}

static int place_all(const struct agent_config *c, const struct strv *homes, const struct notice *n, struct err *err) {
    for (size_t i = 0; i < c->n; i++) {
        int r = place_one(&c->v[i], homes, err);

        if (is_in_the_way(r))
            notice_say(n, "'%s' of your settings stays out: the agent has something else there", c->v[i].path);
        else if (r < 0)
            return r;
    }
    return 0;
}

/* The mark is beside the agent's folders, where no sandbox comes. */
static int place_if_changed(const struct agent *a, const struct agent_config *c, const struct host_facts *facts,
                            const struct strv *homes, const struct notice *n, struct err *err) {
    CLEANUP(freep) char *sub = str_dupf("agent-%s", a->name), *folder = NULL, *mark = NULL;
    char last[SHA256_HEX_SIZE] = "";
    int r = sub ? volumes_folder(facts, sub, &folder, err) : err_oom(err);

    mark = folder ? str_dupf("%s/" CONFIG_MARK, folder) : NULL;
    if (r < 0 || !mark)
        return r < 0 ? r : err_oom(err);
    if (fd_read_file_at(AT_FDCWD, mark, last, sizeof last) > 0 && str_eq(last, c->hash))
        return 0;
    r = place_all(c, homes, n, err);
    r = r < 0 ? r : paths_publish(folder, CONFIG_MARK, c->hash, strlen(c->hash), PUBLISH_REPLACE, err);
    return r < 0 ? r : 1;
}

struct bringing {
    const struct agent *agent;
    const struct config_wish *wish;
    const struct host_facts *facts;
    const struct strv *homes;
    const struct notice *notice;
    int result; /* a pipe */
};

static int bring_config(const struct bringing *b, struct err *err) {
    const struct agent *a = b->agent;
    const char *title = a->title ? a->title : a->name;
    CLEANUP(agent_config_done) struct agent_config c = {0};
    int r = agent_config_collect(a, b->facts, &c, err);

    r = r < 0 ? r : confirm_config(a, b->wish, b->facts, &c, err);
    r = r < 0 ? r : place_if_changed(a, &c, b->facts, b->homes, b->notice, err);
    if (r <= 0)
        return r;
    if (c.n)
        notice_say(b->notice, "%zu %s of your settings of %s came in", c.n, c.n == 1 ? "file" : "files", title);
    for (size_t i = 0; i < c.left.len; i++)
        notice_say(b->notice, "left out: %s", c.left.v[i]);
    return 0;
}

static int bring_child(void *arg) {
    const struct bringing *b = arg;
    struct err err = {0};

    if (bring_config(b, &err) == 0)
        err = (struct err){0}; /* of what was in the way, and was said */
    return fd_write_all(b->result, &err, sizeof err) < 0;
}

/* In a process of its own: the files have credentials, and nothing of them stays in the memory of the supervisor. */
int agent_config_bring(const struct agent *a, const struct config_wish *w, const struct host_facts *facts,
                       const struct strv *homes, const struct notice *n, struct err *err) {
    struct bringing b = {.agent = a, .wish = w, .facts = facts, .homes = homes, .notice = n};
    struct err theirs = {0};
    int pipe_[2], status;
    ssize_t got;
    pid_t pid;

    if (!a->config_files.len)
        return err_usage(err, "the preset of '%s' does not name its configuration", a->name);
    if (pipe2(pipe_, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "pipe");
    b.result = pipe_[1];
    pid = process_clone(bring_child, &b, 0, NULL);
    close(pipe_[1]);
    got = pid < 0 ? pid : fd_read_some(pipe_[0], &theirs, sizeof theirs);
    close(pipe_[0]);
    status = pid < 0 ? pid : process_wait(pid);
    if (pid < 0 || got != sizeof theirs || status != 0)
        return err_set(err, -EIO, "your settings of %s could not be read", a->title ? a->title : a->name);
    if (theirs.code)
        *err = theirs;
    return theirs.code;
}
