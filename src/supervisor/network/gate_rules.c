/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a run, and when they are read again. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/file.h"
#include "supervisor/credential/credentials.h"
#include "supervisor/network/gate_priv.h"
#include "supervisor/network/published.h"

/* The sandbox can change files beside its project's rules as often as it likes: that must cost us next to nothing, and no screen. */
enum { WATCH_DELAY_MS = 50, RELOAD_DELAY_MS = 20, RELOAD_PAUSE_MS = 200, REPORT_PAUSE_MS = 5000, READS_PER_TURN = 16 };

void gate_rules_done(struct gate_rules *r) {
    gate_rules_unwatch(r);
    policy_files_done(&r->files);
    rules_done(&r->session);
    free(r->once);
    *r = (struct gate_rules)GATE_RULES_INIT;
}

static bool same_files(const struct policy_files *a, const struct policy_files *b) {
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].kind != b->v[i].kind || a->v[i].narrow_only != b->v[i].narrow_only || !str_eq(a->v[i].text, b->v[i].text))
            return false;
    return true;
}

static bool same_folders(const struct strv *a, const struct strv *b) {
    for (size_t i = 0; i < a->len; i++)
        if (!strv_has(b, a->v[i]))
            return false;
    return a->len == b->len;
}

static void open_watch(struct gate_rules *r) {
    closep(&r->inotify);
    r->watch_ms = 0;
    r->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    for (size_t i = 0; r->inotify >= 0 && i < r->files.watch.len; i++)
        inotify_add_watch(r->inotify, r->files.watch.v[i],
                          IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR);
}

bool gate_rules_reload(struct gate_rules *r) {
    CLEANUP(policy_files_done) struct policy_files now = {0};
    struct policy_files before;
    struct err err = {0};

    r->reload_ms = 0;
    r->last_ms = clock_ms();
    if (policy_files_load(r->where, &now, &err) < 0) {
        if (r->reported_ms && r->last_ms - r->reported_ms < REPORT_PAUSE_MS)
            return false;
        r->reported_ms = r->last_ms;
        err_ctx(&err, err.code, "the network rules stay as they were");
        log_err(&err);
        return false;
    }
    before = r->files;
    r->files = now;
    now = before;
    if (r->inotify >= 0 && !same_folders(&r->files.watch, &before.watch)) {
        open_watch(r); /* one came into being, in which there may be a file soon, or since we looked */
        r->reload_ms = r->last_ms + RELOAD_PAUSE_MS;
    }
    return !same_files(&r->files, &before);
}

void gate_rules_watch(struct gate_rules *r) {
    r->watch_ms = clock_ms() + WATCH_DELAY_MS;
}

void gate_rules_unwatch(struct gate_rules *r) {
    closep(&r->inotify);
    r->reload_ms = r->watch_ms = 0;
}

int gate_rules_timeout(const struct gate_rules *r) {
    return clock_left_ms(r->watch_ms ? r->watch_ms : r->reload_ms);
}

/* Which file it was does not matter: what counts is compared. */
static bool drain_events(int fd) {
    char events[4096];
    bool any = false;

    for (int i = 0; fd >= 0 && i < READS_PER_TURN && read(fd, events, sizeof events) > 0; i++)
        any = true;
    return any;
}

bool gate_rules_handle(struct gate_rules *r) {
    if (r->watch_ms && clock_ms() >= r->watch_ms) {
        open_watch(r);
        r->reload_ms = clock_ms(); /* for what changed before the watch began */
    }
    if (drain_events(r->inotify) && !r->reload_ms)
        r->reload_ms = MAX_OF(clock_ms() + RELOAD_DELAY_MS, r->last_ms + RELOAD_PAUSE_MS);
    if (!r->reload_ms || clock_ms() < r->reload_ms)
        return false;
    return gate_rules_reload(r);
}

/* The configuration ------------------------------------------------------------------------------------------- */

/* One of the host's files, whatever it is; a file that is missing or too large counts as empty. */
static char *host_file(const char *path) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX - 1);

    return strdup(file_read(path, FILE_FOLLOW | FILE_ANY, &text) < 0 ? "" : buf_str(&text));
}

/* Programs disagree about capitals, so both are looked at; the small ones count. */
static char *host_variable(const struct policy_where *where, const char *small, const char *capital) {
    const char *value = paths_getenv(where->environ_, small);

    if (!value)
        value = paths_getenv(where->environ_, capital);
    return strdup(value && strlen(value) < GATE_TEXT_MAX ? value : "");
}

static int add_layer(struct gate_config *c, const struct gate_layer *l) {
    struct gate_layer *to = &c->layers[c->n_layers++];

    *to = (struct gate_layer){
        .kind = l->kind, .narrow_only = l->narrow_only, .name = str_dupf("%s", l->name), .text = str_dupf("%s", l->text)};
    return to->name && to->text ? 0 : -ENOMEM;
}

static int add_layers(const struct gate_rules *r, struct gate_config *c) {
    CLEANUP(buf_done) struct buf session = BUF_INIT(GATE_TEXT_MAX - 1);
    int rc = 0;

    if (r->session.len) {
        rules_write(&r->session, &session);
        rc = buf_ok(&session)
                 ? add_layer(c, &(struct gate_layer){.kind = LAYER_SESSION, .name = "this run", .text = session.data})
                 : -ENOMEM;
    }
    static_assert(POLICY_FILES_MAX + 1 <= LAYERS, "all layers fit");
    for (size_t i = 0; rc == 0 && i < r->files.n; i++)
        rc = add_layer(c, &r->files.v[i]);
    return rc;
}

static int add_credentials(const struct gate_rules *r, struct gate_config *c) {
    const struct run_credentials *from = r->credentials;

    c->ssh = from && from->ssh.agent;
    c->ssh_keys = strdup(from && from->ssh.keys ? from->ssh.keys : "");
    c->known_hosts = strdup(from && from->ssh.known_hosts ? from->ssh.known_hosts : "");
    c->grants = from ? from->grants : NULL; /* lent: gate_rules_config() takes them out again */
    c->n_grants = from ? from->n_grants : 0;
    return c->ssh_keys && c->known_hosts ? 0 : -ENOMEM;
}

static int fill_config(const struct gate_rules *r, const struct published *pub, struct gate_config *c) {
    const struct settings *s = r->where->settings;
    const struct policy_where *w = r->where;

    c->generation = r->generation;
    c->mode = policy_files_mode(s);
    c->can_ask = r->can_ask;
    c->ask_timeout_ms = (uint32_t)s->question.timeout_ms;
    c->max_flows = GATE_FLOWS_MAX;
    c->resolv_conf = host_file("/etc/resolv.conf");
    c->hosts = host_file("/etc/hosts");
    c->http_proxy = host_variable(w, "http_proxy", "HTTP_PROXY");
    c->https_proxy = host_variable(w, "https_proxy", "HTTPS_PROXY");
    c->no_proxy = host_variable(w, "no_proxy", "NO_PROXY");
    for (size_t i = 0; i < pub->n; i++)
        c->publish[c->n_publish++] = (struct gate_publish){pub->v[i].inside, pub->v[i].outside};
    if (!c->resolv_conf || !c->hosts || !c->http_proxy || !c->https_proxy || !c->no_proxy)
        return -ENOMEM;
    return add_layers(r, c);
}

int gate_rules_config(const struct gate_rules *r, const struct published *pub, int *ret_fd, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(GATE_CONFIG_MAX);
    CLEANUP(gate_config_done) struct gate_config c = {0};
    int rc = fill_config(r, pub, &c);

    rc = rc < 0 ? rc : add_credentials(r, &c);
    rc = rc < 0 ? rc : gate_config_encode(&c, &b);
    c.grants = NULL;
    c.n_grants = 0;
    rc = rc < 0 ? rc : fd_memory("bawn-gate", b.data, b.len);
    if (rc < 0)
        return err_sys(err, rc, "hand the network rules over");
    *ret_fd = rc;
    return 0;
}

/* Rules that the user adds while a sandbox runs ------------------------------------------------------------------- */

enum { LOCK_TRIES = 20 };

int gate_rules_for(const struct gate_msg *q, struct buf *out) {
    bool about_http = q->method[0];

    /* A '*' would be a wildcard in a rule, and a path that was cut is not the one that was asked for. */
    if (about_http && (strchr(q->path, '*') || strlen(q->path) == sizeof q->path - 1))
        return -ENOTSUP;
    buf_adds(out, "{\"action\":\"allow\",\"host\":");
    buf_add_json(out, q->host);
    if (q->port)
        buf_addf(out, ",\"ports\":[%u]", q->port);
    if (about_http) {
        buf_adds(out, ",\"methods\":[");
        buf_add_json(out, q->method);
        buf_adds(out, "],\"paths\":[");
        buf_add_json(out, q->path);
        buf_addc(out, ']');
    }
    if (str_eq(q->host, HOST_OF_THE_MACHINE))
        buf_adds(out, ",\"allow_private\":true"); /* that name means loopback, and nothing else */
    buf_addc(out, '}');
    return 0;
}

static bool names_its_id(const char *object) {
    json_t *o = json_loads(object, JSON_REJECT_DUPLICATES, NULL);
    bool has = json_object_get(o, "id") != NULL;

    json_decref(o);
    return has;
}

/* An id that rules_compile() made up goes, so that the rule gets one that its new list has not. */
static int read_rule(const char *object, struct rule *ret, struct err *err) {
    CLEANUP(rules_done) struct rules one = {0};
    CLEANUP(freep) char *text = str_dupf("{\"rules\":[%s]}", object);
    int r = text ? rules_read("the new rule", text, strlen(text), &one, err) : err_oom(err);

    if (r < 0)
        return r;
    if (one.len != 1)
        return err_usage(err, "expected one rule");
    *ret = one.v[0];
    one.len = 0;
    if (!names_its_id(object))
        free(TAKE_PTR(ret->id));
    return 0;
}

static struct gate_once *find_once(const struct gate_rules *r, const char *id) {
    for (size_t i = 0; i < r->n_once; i++)
        if (str_eq(r->once[i].id, id))
            return &r->once[i];
    return NULL;
}

/* In front: the first rule that matches decides. One that is there already comes to the front; `same` is its place, rules->len: there is
 * none. What is added is taken. */
static int add_first(struct rules *rules, size_t same, struct rule *rule, char ret_id[static RULE_ID_MAX + 1], struct err *err) {
    struct rule moved;
    int r;

    if (same < rules->len) {
        moved = rules->v[same];
        memmove(rules->v + 1, rules->v, same * sizeof moved);
        rules->v[0] = moved;
        snprintf(ret_id, RULE_ID_MAX + 1, "%s", moved.id);
        return rules_compile(rules, err);
    }
    if (rule->id && rules_find(rules, rule->id))
        return err_usage(err, "a rule with the id '%s' exists already", rule->id);
    r = rule->id ? 0 : rule_give_id(rules, rule, err);
    if (r < 0)
        return r;
    snprintf(ret_id, RULE_ID_MAX + 1, "%s", rule->id);
    r = rules_add(rules, 0, rule, err);
    return r < 0 ? r : rules_compile(rules, err);
}

/* A rule that ends soon does not stand for one that stays, nor the other way round. */
static int add_session(struct gate_rules *r, const char *text, bool once, char ret_id[static RULE_ID_MAX + 1], struct err *err) {
    CLEANUP(rule_done) struct rule rule = {0};
    size_t same = 0;
    int rc = read_rule(text, &rule, err);

    if (rc < 0)
        return rc;
    while (same < r->session.len &&
           (!rule_same(&r->session.v[same], &rule) || (find_once(r, r->session.v[same].id) != NULL) != once))
        same++;
    if (same == r->session.len && r->session.len >= GATE_SESSION_MAX)
        return err_set(err, -ENOSPC, "this run has %d rules of its own already", GATE_SESSION_MAX);
    return add_first(&r->session, same, &rule, ret_id, err);
}

int gate_rules_add_session(struct gate_rules *r, const char *text, char ret_id[static RULE_ID_MAX + 1], struct err *err) {
    return add_session(r, text, false, ret_id, err);
}

int gate_rules_add_once(struct gate_rules *r, const struct gate_msg *question, uint64_t until_ms, struct err *err) {
    CLEANUP(buf_done) struct buf rule = BUF_INIT(8 * 1024);
    char id[RULE_ID_MAX + 1];
    struct gate_once *once;
    int rc = gate_rules_for(question, &rule);

    if (rc < 0)
        return err_sys(err, rc, "make a rule of it");
    if (VEC_RESERVE(r->once, r->n_once, r->cap_once, 8) < 0)
        return err_oom(err);
    rc = add_session(r, buf_str(&rule), true, id, err);
    if (rc < 0)
        return rc;
    once = find_once(r, id);
    once = once ? once : &r->once[r->n_once++];
    once->until_ms = until_ms;
    snprintf(once->id, sizeof once->id, "%s", id);
    return 0;
}

uint64_t gate_rules_once_ms(const struct gate_rules *r) {
    uint64_t soonest = 0;

    for (size_t i = 0; i < r->n_once; i++)
        if (!soonest || r->once[i].until_ms < soonest)
            soonest = r->once[i].until_ms;
    return soonest;
}

bool gate_rules_end_once(struct gate_rules *r, uint64_t now) {
    struct err err = {0};
    bool any = false;

    for (size_t i = r->session.len; i-- > 0;) {
        struct gate_once *once = find_once(r, r->session.v[i].id);

        if (!once || once->until_ms > now)
            continue;
        VEC_REMOVE(r->once, r->n_once, (size_t)(once - r->once));
        rule_done(&r->session.v[i]);
        VEC_REMOVE(r->session.v, r->session.len, i);
        any = true;
    }
    if (any && rules_compile(&r->session, &err) < 0)
        log_err(&err);
    return any;
}

/* The loop must not wait long for the lock. */
static int lock_folder(const char *folder, int *ret_fd, struct err *err) {
    CLEANUP(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", folder);
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return err_sys(err, -errno, "lock '%s'", folder);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int read_rules(const char *path, struct rules *ret, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_SIZE_MAX);
    int r;

    if (fd < 0 && errno == ENOENT)
        return rules_read(path, "{}", 2, ret, err);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    r = paths_read_fd(fd, path, RULES_SIZE_MAX, &b, err);
    return r < 0 ? r : rules_read(path, buf_str(&b), b.len, ret, err);
}

static int add_to_file(const char *folder, const char *path, struct rule *rule, struct err *err) {
    CLEANUP(rules_done) struct rules rules = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_SIZE_MAX);
    CLEANUP(closep) int lock = -1;
    char id[RULE_ID_MAX + 1];
    size_t same = 0;
    int r = paths_make_dirs(folder, err);

    r = r < 0 ? r : lock_folder(folder, &lock, err);
    r = r < 0 ? r : read_rules(path, &rules, err);
    while (r == 0 && same < rules.len && !rule_same(&rules.v[same], rule))
        same++;
    r = r < 0 ? r : add_first(&rules, same, rule, id, err);
    if (r < 0)
        return r;
    rules_write(&rules, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    return paths_publish(folder, "network.json", buf_str(&b), b.len, PUBLISH_REPLACE, err);
}

int gate_rules_add_always(struct gate_rules *r, const char *text, struct err *err) {
    CLEANUP(freep) char *folder = NULL, *path = NULL;
    CLEANUP(rule_done) struct rule rule = {0};
    int rc = paths_config(r->where->environ_, r->where->home, "network.json", &path, err);

    if (rc < 0)
        return rc;
    if (!path)
        return err_set(err, -ENOENT, "there is no home for a file with rules");
    folder = strndup(path, (size_t)(strrchr(path, '/') - path));
    if (!folder)
        return err_oom(err);
    rc = read_rule(text, &rule, err);
    return rc < 0 ? rc : add_to_file(folder, path, &rule, err);
}
