/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a run, and when they are read again. */
#include "supervisor/network/gate_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/credential/credentials.h"
#include "supervisor/network/published.h"
#include "supervisor/watch/limit_watch.h"

/* The sandbox can change files beside its project's rules as often as it likes: that must cost us next to nothing, and no screen. */
enum { WATCH_DELAY_MS = 50, RELOAD_DELAY_MS = 20, RELOAD_PAUSE_MS = 200, TELL_PAUSE_MS = 5000, READS_PER_TURN = 16 };

void gate_rules_done(struct gate_rules *r) {
    gate_rules_unwatch(r);
    policy_files_done(&r->files);
    rules_done(&r->session);
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
        if (r->reported_ms && r->last_ms - r->reported_ms < TELL_PAUSE_MS)
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
    uint64_t now = clock_ms(), at = r->watch_ms ? r->watch_ms : r->reload_ms;

    if (!at)
        return -1;
    return at <= now ? 0 : (int)(at - now);
}

/* Which file it was does not matter: what counts is compared. */
static bool drain(int fd) {
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
    if (drain(r->inotify) && !r->reload_ms)
        r->reload_ms = MAX_OF(clock_ms() + RELOAD_DELAY_MS, r->last_ms + RELOAD_PAUSE_MS);
    if (!r->reload_ms || clock_ms() < r->reload_ms)
        return false;
    return gate_rules_reload(r);
}

/* The configuration ------------------------------------------------------------------------------------------- */

/* One of the host's files, whatever it is; a file that is missing or too large is as none. */
static char *host_file(const char *path) {
    CLEANUP(freep) char *text = malloc(GATE_TEXT_MAX);

    if (text && fd_read_file_at(AT_FDCWD, path, text, GATE_TEXT_MAX) < 0)
        text[0] = 0;
    return text ? strdup(text) : NULL;
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
    c->ask_timeout_ms = (uint32_t)s->ask_timeout_ms;
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
