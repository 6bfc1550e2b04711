/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the files with network rules. */
#include "supervisor/network/policy_files.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/project.h"
#include "config/load/trust.h"
#include "config/settings.h"
#include "os/fd.h"

#define ORGANISATION_FILE "/etc/bawn/network.json"

static void layer_text_done(struct gate_layer *l) {
    free(l->name);
    free(l->text);
    *l = (struct gate_layer){0};
}

void policy_files_done(struct policy_files *f) {
    for (size_t i = 0; i < f->n; i++)
        layer_text_done(&f->v[i]);
    strv_done(&f->watch);
    strv_done(&f->notes);
    *f = (struct policy_files){0};
}

enum net_mode policy_files_mode(const struct settings *s) {
    static const enum net_mode modes[] = {
        [NETWORK_NONE] = NET_NONE, [NETWORK_LIST] = NET_UNSET, [NETWORK_LIMITED] = NET_LIMITED, [NETWORK_FULL] = NET_FULL};

    return modes[s->net.mode];
}

bool policy_files_can_ask(const struct settings *s, bool has_human) {
    return s->question.mode == ASK_WAIT || (s->question.mode == ASK_AUTO && has_human);
}

const char *policy_files_source(const struct policy_files *f, const char *layer) {
    for (size_t i = 0; i < f->n; i++)
        if (str_eq(policy_layer_names[f->v[i].kind], layer))
            return f->v[i].name;
    return "built-in";
}

/* A mode that a file names is cut to what the settings' levels left (struct settings, network_ceiling). */
static int cut_mode(const struct policy_where *where, struct gate_layer *l, struct rules *rules, struct strv *notes,
                    struct err *err) {
    static const enum network grants[NET_MODES] = {
        [NET_NONE] = NETWORK_NONE, [NET_LIST] = NETWORK_LIST, [NET_LIMITED] = NETWORK_LIMITED, [NET_FULL] = NETWORK_FULL};
    static const enum net_mode modes[] = {NET_NONE, NET_LIST, NET_LIMITED, NET_FULL};
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    enum net_mode most = modes[where->settings->net.ceiling];

    if (l->narrow_only || rules->mode == NET_UNSET || grants[rules->mode] <= where->settings->net.ceiling)
        return 0;
    if (strv_addf(notes, "%s: mode '%s' is more than is allowed here: '%s' is used", l->name, net_mode_names[rules->mode],
                  net_mode_names[most]) < 0)
        return err_oom(err);
    rules->mode = most;
    rules_write(rules, &text);
    free(l->text);
    l->text = buf_take(&text);
    return l->text ? 0 : err_oom(err);
}

static bool wants_to_widen(const struct rules *rules) {
    for (size_t i = 0; i < rules->len; i++)
        if (rules->v[i].action != RULE_DENY)
            return true;
    return rules->mode != NET_UNSET && rules->mode != NET_NONE;
}

/* Takes the layer, if its text is good. */
static int add_layer(const struct policy_where *where, struct gate_layer *l, size_t len, struct policy_files *f,
                     struct err *err) {
    CLEANUP(rules_done) struct rules rules = {0};
    int r = rules_read(l->name, l->text, len, &rules, err);

    if (r < 0)
        return r;
    if (l->kind == LAYER_PROJECT && l->narrow_only && wants_to_widen(&rules) &&
        strv_addf(&f->notes, "%s: can only deny: the project is not trusted (see 'bawn trust')", l->name) < 0)
        return err_oom(err);
    r = cut_mode(where, l, &rules, &f->notes, err);
    if (r < 0)
        return r;
    f->look |= rules_look(&rules);
    f->v[f->n++] = TAKE(*l, (struct gate_layer){0});
    return 0;
}

/* The same for a text that is in a buffer, which is taken. */
static int add_layer_text(const struct policy_where *where, enum policy_layer_kind kind, const char *name, struct buf *text,
                          struct policy_files *f, struct err *err) {
    size_t len = text->len;
    CLEANUP(layer_text_done)
    struct gate_layer l = {.kind = kind, .narrow_only = kind == LAYER_ORGANISATION, .name = strdup(name), .text = buf_take(text)};

    return l.name && l.text ? add_layer(where, &l, len, f, err) : err_oom(err);
}

/* The folder of path, or the nearest one above it that exists: a file can also come with its folder. */
static int watch_folder_of(const char *path, struct strv *watch, struct err *err) {
    CLEANUP(freep) char *folder = strdup(path);
    char *slash;

    if (!folder)
        return err_oom(err);
    do {
        slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            return 0;
        *slash = 0;
    } while (access(folder, F_OK) < 0);
    return !strv_has(watch, folder) && strv_add(watch, folder) < 0 ? err_oom(err) : 0;
}

/* A user who can write the organisation's rules can loosen them. A path that was given is a test's: it may belong to the tester. */
static int check_organisation(int fd, const char *path, bool given, struct err *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", path);
    if (st.st_uid != 0 && !(given && st.st_uid == geteuid()))
        return err_set(err, -EPERM, "the organisation's rules '%s' must belong to root", path);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "the organisation's rules '%s' must be writable by their owner only (chmod go-w)", path);
    return 0;
}

/* A file that is there but cannot be used stops the run: not knowing the rules is not the same as having none. */
static int add_rule_file(const struct policy_where *where, const char *path, enum policy_layer_kind kind, struct policy_files *f,
                         struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);
    int r;

    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return err_sys(err, -errno, "open '%s'", path);
    r = watch_folder_of(path, &f->watch, err);
    if (r < 0 || fd < 0)
        return r;
    r = kind == LAYER_ORGANISATION ? check_organisation(fd, path, where->organisation, err) : 0;
    r = r < 0 ? r : paths_read_fd(fd, path, GATE_TEXT_MAX, &text, err);
    return r < 0 ? r : add_layer_text(where, kind, path, &text, f, err);
}

static int add_project(const struct policy_where *where, struct policy_files *f, struct err *err) {
    CLEANUP(project_network_done) struct project_network n = {0};
    CLEANUP(layer_text_done) struct gate_layer l = {.kind = LAYER_PROJECT};
    CLEANUP(freep) char *records = NULL, *path = str_dupf("%s/%s", where->workspace, PROJECT_NETWORK_FILE);
    bool trusted;
    int r, found;

    if (!path)
        return err_oom(err);
    found = project_network_read(where->workspace_fd, &n, err);
    r = found < 0 ? found : watch_folder_of(path, &f->watch, err);
    if (r < 0 || !found)
        return r;
    r = trust_file(where->environ_, where->home, &records, err);
    r = r < 0 || !records ? r : watch_folder_of(records, &f->watch, err); /* `bawn trust` counts at once */
    r = r < 0 ? r : project_network_trusted(records, &n, &trusted, err);
    if (r < 0)
        return r;
    l.narrow_only = !trusted;
    l.name = TAKE_PTR(n.path);
    l.text = TAKE_PTR(n.text);
    return add_layer(where, &l, n.len, f, err);
}

/* said: of the hosts that are allowed those of the command line, or the others. */
static int add_words(const struct settings *s, enum setting id, bool said, struct rules *rules, struct err *err) {
    const struct strv *words = id == SETTING_NETWORK_DENY ? &s->net.deny : &s->net.allow;
    int r = 0;

    for (size_t i = 0; r == 0 && i < words->len; i++) {
        CLEANUP(rule_done) struct rule rule = {0};

        if (id == SETTING_NETWORK_ALLOW && strv_has(&s->net.said, words->v[i]) != said)
            continue;
        r = rule_from_text(words->v[i], id == SETTING_NETWORK_DENY ? RULE_DENY : RULE_ALLOW, &rule, err);
        r = r < 0 ? r : rule_give_id(rules, &rule, err);
        r = r < 0 ? r : rules_add(rules, rules->len, &rule, err);
    }
    return r == -EINVAL ? err_ctx(err, r, "%s (%s)", setting_names[id], s->origin[id]) : r;
}

static int add_made(const struct policy_where *where, enum policy_layer_kind kind, const char *name, const struct rules *rules,
                    struct policy_files *f, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GATE_TEXT_MAX);

    rules_write(rules, &text);
    return rules->len ? add_layer_text(where, kind, name, &text, f, err) : 0;
}

/* Words of the command line and of settings. Denials come first: a deny beside an allow is meant as the exception. */
static int add_sandbox(const struct policy_where *where, struct policy_files *f, struct err *err) {
    CLEANUP(rules_done) struct rules rules = {0}, set = {0};
    int r = add_words(where->settings, SETTING_NETWORK_DENY, false, &rules, err);

    r = r < 0 ? r : add_words(where->settings, SETTING_NETWORK_ALLOW, true, &rules, err);
    r = r < 0 ? r : add_made(where, LAYER_SANDBOX, "command line, and networkDeny in settings", &rules, f, err);
    r = r < 0 ? r : add_words(where->settings, SETTING_NETWORK_ALLOW, false, &set, err);
    return r < 0 ? r : add_made(where, LAYER_SETTINGS, "settings (networkAllow)", &set, f, err);
}

int policy_files_load(const struct policy_where *where, struct policy_files *ret, struct err *err) {
    CLEANUP(policy_files_done) struct policy_files f = {0};
    CLEANUP(freep) char *user = NULL;
    int r = add_rule_file(where, where->organisation ? where->organisation : ORGANISATION_FILE, LAYER_ORGANISATION, &f, err);

    r = r < 0 ? r : paths_config(where->environ_, where->home, "network.json", &user, err);
    r = r < 0 || !user ? r : add_rule_file(where, user, LAYER_USER, &f, err);
    r = r < 0 ? r : add_project(where, &f, err);
    r = r < 0 ? r : add_sandbox(where, &f, err);
    if (r < 0)
        return r;
    *ret = TAKE(f, (struct policy_files){0});
    return 0;
}

static bool addr_of(const struct sockaddr *sa, struct addr *ret) {
    *ret = (struct addr){0};
    if (sa && sa->sa_family == AF_INET) {
        ret->len = 4;
        memcpy(ret->b, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa && sa->sa_family == AF_INET6) {
        ret->len = 16;
        memcpy(ret->b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
    }
    return ret->len;
}

/* A service of this machine is not public because it also listens on a public address (ATTACKS 51). */
static int set_own(struct policy *p, struct err *err) {
    CLEANUP(freep) struct addr *own = NULL;
    struct ifaddrs *all = NULL;
    size_t n = 0;

    if (getifaddrs(&all) < 0)
        return err_sys(err, -errno, "list this machine's addresses");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        n++;
    own = calloc(n + 1, sizeof *own);
    n = 0;
    for (const struct ifaddrs *i = all; own && i; i = i->ifa_next)
        n += addr_of(i->ifa_addr, &own[n]);
    freeifaddrs(all);
    return own ? policy_set_own(p, own, n, err) : err_oom(err);
}

int policy_files_compile(const struct policy_files *f, enum net_mode mode, bool can_ask, struct policy *ret, struct err *err) {
    CLEANUP(policy_done) struct policy p = {0};
    int r = policy_init(&p, mode, can_ask, err);

    for (size_t i = 0; r == 0 && i < f->n; i++) {
        CLEANUP(rules_done) struct rules rules = {0};

        r = rules_read(f->v[i].name, f->v[i].text, strlen(f->v[i].text), &rules, err);
        if (r == 0)
            policy_set_layer(&p, f->v[i].kind, &rules, f->v[i].narrow_only);
    }
    r = r < 0 ? r : set_own(&p, err);
    if (r < 0)
        return r;
    *ret = TAKE(p, (struct policy){0});
    return 0;
}
