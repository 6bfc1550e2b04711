/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and merges the levels of settings. */
#include "config/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/given.h"
#include "config/load/load.h"
#include "config/load/paths.h"
#include "config/load/profile.h"
#include "config/load/trust.h"
#include "os/fd.h"

#define ORG_POLICY "/etc/bawn/policy.json"
#define BUILT_IN "built-in"

void settings_done(struct settings *s) {
    free(s->engine);
    free(s->profile);
    free(s->image);
    mounts_done(s);
    env_done(s);
    substitutes_done(s);
    strv_done(&s->net.allow);
    strv_done(&s->net.said);
    strv_done(&s->net.deny);
    strv_done(&s->net.publish);
    strv_done(&s->secrets.names);
    strv_done(&s->ssh.keys.names);
    free(s->question.hook);
    strv_done(&s->workspace.protect);
    strv_done(&s->workspace.volumes);
    strv_done(&s->bypass_tools);
    strv_done(&s->engine_flags);
    strv_done(&s->allowed_engines);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        free(s->origin[i]);
    strv_done(&s->notes);
    *s = (struct settings){0};
}

enum workspace_mode settings_workspace_mode(const struct settings *s) {
    if (s->workspace.copied)
        return WORKSPACE_SYNC;
    return s->workspace.writable ? s->workspace.mode : WORKSPACE_RO;
}

bool settings_holds_changes(const struct settings *s) {
    return s->workspace.copied && s->workspace.mode == WORKSPACE_OVERLAY;
}

/* If no level says anything: the limits of profile dev, and the network of the built-in groups. */
static int set_built_in(struct settings *s, struct err *err) {
    *s = (struct settings){
        .mode = MODE_AUTO,
        .limits.cpus_milli = 2000,
        .limits.memory = LIMITS_MEMORY_USUAL,
        .limits.pids = 256,
        .limits.disk = 20ull << 30,
        .net.mode = NETWORK_LIST,
        .net.ceiling = NETWORK_FULL,
        .question.mode = ASK_AUTO,
        .question.timeout_ms = 60 * 1000,
        .start_timeout_ms = 2 * 60 * 1000,
        .ssh.agent = SSH_AGENT_AUTO,
        .ssh.keys = {.all = true},
        .secrets = {.all = true},
        .workspace.writable = true,
        .persist_caches = true,
        .home_tools = true,
        .workspace.mode = WORKSPACE_DIRECT,
        .workspace.rollback = 1ull << 30,
        .workspace.skip_ignored = true,
    };
    s->engine = strdup("auto");
    if (!s->engine)
        return err_oom(err);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings_set_origin(s, (enum setting)i, BUILT_IN) < 0)
            return err_oom(err);
    return 0;
}

/* Weakest first. The project's word about an agent is stronger than the user's, as its word about everything is. */
enum rank { RANK_USER, RANK_PROJECT, RANK_USER_AGENT, RANK_PROJECT_AGENT, RANK_ENVIRONMENT, RANK_FLAG, RANK_COUNT };

struct stack {
    struct layer rank[RANK_COUNT];
    struct layer profile[RANK_COUNT]; /* stands right below rank[i] */
};

static void stack_done(struct stack *st) {
    for (size_t i = 0; i < RANK_COUNT; i++) {
        layer_done(&st->rank[i]);
        layer_done(&st->profile[i]);
    }
}

static int read_user(const struct settings_sources *src, struct stack *st, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r;

    r = paths_config(src->environ_, src->home, "config.json", &path, err);
    if (r < 0 || !path)
        return r;
    r = doc_read(path, &d, err);
    if (r <= 0)
        return r;
    return file_read_config(&d, "user", src->home, src->agent, &st->rank[RANK_USER], &st->rank[RANK_USER_AGENT], err);
}

static int read_project(const struct settings_sources *src, const struct project *p, bool trusted, struct stack *st,
                        struct err *err) {
    st->rank[RANK_PROJECT].project = st->rank[RANK_PROJECT_AGENT].project = true;
    st->rank[RANK_PROJECT].narrow_only = st->rank[RANK_PROJECT_AGENT].narrow_only = !trusted;
    return file_read_config(&p->doc, "project", src->home, src->agent, &st->rank[RANK_PROJECT], &st->rank[RANK_PROJECT_AGENT],
                            err);
}

/* Reads the profile that layer `named` names. An untrusted project's choice can only narrow, like all it says. */
static int read_profile(const struct profile_place *place, const struct layer *named, struct layer *ret, struct err *err) {
    const char *name = named->values.profile;
    struct jsonfile_position at = named->at[SETTING_PROFILE];
    int r = profile_read(place, name, ret, err);

    if (r < 0)
        return named->file && r == -EINVAL ? err_ctx(err, r, "%s:%u:%u: profile", named->file, at.line, at.column) : r;
    ret->project = named->project;
    if (!named->project)
        return 0;
    ret->narrow_only = named->narrow_only;
    free(ret->file);
    ret->file = strdup(named->file);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        ret->at[i] = at;
    if (!ret->file || asprintf(&ret->via, " of profile '%s'", name) < 0)
        return err_oom(err);
    return 0;
}

/*
 * Only the highest-ranked name counts. One that an untrusted project wrote does not push aside the profile that the user
 * chose below it, or naming "dev" would undo the user's "tight": both are applied.
 */
static int read_profiles(const struct settings_sources *src, struct stack *st, struct err *err) {
    CLEANUP(profile_place_done) struct profile_place place = {0};
    bool untrusted_seen = false;
    int r = 0;

    for (size_t i = RANK_COUNT; i-- > 0;) {
        const struct layer *l = &st->rank[i];

        if (!layer_has(l, SETTING_PROFILE) || (l->narrow_only && untrusted_seen))
            continue;
        if (!place.folder)
            r = profile_place_init(&place, src->environ_, src->home, err);
        if (r == 0)
            r = read_profile(&place, l, &st->profile[i], err);
        if (r < 0 || !l->narrow_only)
            return r;
        untrusted_seen = true;
    }
    return 0;
}

static int read_all(const struct settings_sources *src, const struct project *project, bool trusted, struct stack *st,
                    struct err *err) {
    int r = read_user(src, st, err);

    if (r == 0 && project)
        r = read_project(src, project, trusted, st, err);
    if (r == 0)
        r = given_environment(src->environ_, &st->rank[RANK_ENVIRONMENT], err);
    if (r == 0 && src->flags)
        r = given_flags(src->flags, src->home, &st->rank[RANK_FLAG], err);
    return r < 0 ? r : read_profiles(src, st, err);
}

/* Mode off and engine "none" are one thing; the one that was said at the stronger level decides, and it wrote the mode. */
static int settle_engine(struct settings *s, struct err *err) {
    if ((s->mode == MODE_OFF) == str_eq(s->engine, "none"))
        return 0;
    if (str_set(&s->engine, s->mode == MODE_OFF ? "none" : "auto") < 0 ||
        settings_set_origin(s, SETTING_ENGINE, s->origin[SETTING_ENABLED]) < 0)
        return err_oom(err);
    return 0;
}

/* A user who can write the floor can lower it. */
static int check_owner(int fd, const char *path, struct err *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err, -EPERM, "the organisation's policy '%s' must belong to root", path);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "the organisation's policy '%s' must be writable by its owner only (chmod go-w)", path);
    return 0;
}

/* A policy that is there but cannot be used stops the run: not knowing the floor is not the same as having none. */
static int apply_policy(const char *path, struct settings *s, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    CLEANUP(layer_done) struct layer floor = {0};
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, -errno, "open the organisation's policy '%s'", path);
    r = check_owner(fd, path, err);
    if (r < 0)
        return r;
    r = doc_read_fd(fd, path, &d, err);
    if (r < 0)
        return r;
    r = file_read_policy(&d, &floor, err);
    return r < 0 ? r : layer_apply_floor(&floor, s, err);
}

/* Mode none is stronger than any rule, which surprises a user who has just allowed a host. */
static int note_idle_hosts(struct settings *s, struct err *err) {
    if (s->net.mode != NETWORK_NONE || s->net.allow.len == 0)
        return 0;
    if (strv_addf(&s->notes, "networkAllow (%s) has no effect: the network is none (%s)", s->origin[SETTING_NETWORK_ALLOW],
                  s->origin[SETTING_NETWORK]) < 0)
        return err_oom(err);
    return 0;
}

int load_settings(const struct settings_sources *src, const struct project *project, bool trusted, struct settings *ret,
                  struct err *err) {
    CLEANUP(settings_done) struct settings s = {0};
    CLEANUP(stack_done) struct stack st = {0};
    int r = read_all(src, project, trusted, &st, err);

    r = r < 0 ? r : set_built_in(&s, err);
    for (size_t i = 0; i < RANK_COUNT && r == 0; i++) {
        r = layer_apply(&st.profile[i], &s, err);
        r = r < 0 ? r : layer_apply(&st.rank[i], &s, err);
    }
    r = r < 0 ? r : settle_engine(&s, err);
    if (r < 0)
        return r;
    r = apply_policy(src->org_policy ? src->org_policy : ORG_POLICY, &s, err);
    r = r < 0 ? r : note_idle_hosts(&s, err);
    if (r < 0)
        return r;
    *ret = TAKE(s, (struct settings){0});
    return 0;
}

static int is_trusted(const struct settings_sources *src, const struct project *p, bool *ret, struct err *err) {
    CLEANUP(freep) char *file = NULL;
    int r = trust_file(src->environ_, src->home, &file, err);

    if (r < 0)
        return r;
    *ret = false;
    return file ? trust_check(file, p->workspace, p->hash, ret, err) : 0;
}

int settings_load(const struct settings_sources *src, struct settings *ret, struct err *err) {
    CLEANUP(project_done) struct project project = {0};
    bool trusted = false;
    int found;

    found = src->workspace ? project_read(src->workspace, &project, err) : 0;
    if (found > 0) {
        int r = is_trusted(src, &project, &trusted, err);

        if (r < 0)
            return r;
    }
    return found < 0 ? found : load_settings(src, found ? &project : NULL, trusted, ret, err);
}
