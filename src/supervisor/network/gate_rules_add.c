/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that the user adds while a sandbox runs: for this run, or to the user's file. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "supervisor/network/gate_rules.h"

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
    if (!names_its_id(object)) {
        free(ret->id);
        ret->id = NULL;
    }
    return 0;
}

/* In front: the first rule that matches decides. A rule that is there already is not added again. */
static int add_first(struct rules *rules, struct rule *rule, char ret_id[static RULE_ID_MAX + 1], struct err *err) {
    CLEANUP(rule_done) struct rule owned = *rule;
    struct rule given;
    int r = 0;

    for (size_t i = 0; i < rules->len; i++)
        if (rule_same(&rules->v[i], &owned)) {
            snprintf(ret_id, RULE_ID_MAX + 1, "%s", rules->v[i].id);
            return 0;
        }
    if (owned.id && rules_find(rules, owned.id))
        return err_usage(err, "a rule with the id '%s' exists already", owned.id);
    r = owned.id ? 0 : rule_give_id(rules, &owned, err);
    if (r < 0)
        return r;
    snprintf(ret_id, RULE_ID_MAX + 1, "%s", owned.id);
    given = TAKE(owned, (struct rule){0});
    r = rules_add(rules, 0, &given, err);
    return r < 0 ? r : rules_compile(rules, err);
}

int gate_rules_add_session(struct gate_rules *r, const char *text, char ret_id[static RULE_ID_MAX + 1], struct err *err) {
    struct rule rule = {0};
    int rc;

    if (r->session.len >= GATE_SESSION_MAX)
        return err_set(err, -ENOSPC, "this run has %d rules of its own already", GATE_SESSION_MAX);
    rc = read_rule(text, &rule, err);
    return rc < 0 ? rc : add_first(&r->session, &rule, ret_id, err);
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
    CLEANUP(rule_done) struct rule owned = *rule;
    CLEANUP(rules_done) struct rules rules = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_SIZE_MAX);
    CLEANUP(closep) int lock = -1;
    char id[RULE_ID_MAX + 1];
    struct rule given;
    int r = paths_make_dirs(folder, err);

    r = r < 0 ? r : lock_folder(folder, &lock, err);
    r = r < 0 ? r : read_rules(path, &rules, err);
    if (r < 0)
        return r;
    given = TAKE(owned, (struct rule){0});
    r = add_first(&rules, &given, id, err);
    if (r < 0)
        return r;
    rules_write(&rules, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    return paths_publish(folder, "network.json", buf_str(&b), b.len, PUBLISH_REPLACE, err);
}

int gate_rules_add_always(struct gate_rules *r, const char *text, struct err *err) {
    CLEANUP(freep) char *folder = NULL, *path = NULL;
    struct rule rule = {0};
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
