/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of bawn-vault. */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/brokermsg.h"
#include "vault/docker_login.h"
#include "vault/input.h"
#include "vault/lockfile.h"
#include "vault/oauth.h"
#include "vault/store.h"

enum { FD_GIVEN = 3, /* a socket to the broker, or definitions */ EXIT_NO_VALUE = 1, CHECK_MAX = 8 * 1024 };

struct task {
    struct vault *v;
    const char *name;
    const struct credential *c; /* NULL: the verb has no name */
    const char *of;             /* NULL: whatever its purpose is */
    bool fresh;
};

struct vault_verbs_value {
    struct secret value, identity;
    uint64_t expires;
};

static void value_done(struct vault_verbs_value *v) {
    secret_done(&v->value);
    secret_done(&v->identity);
}

/* v was zero. */
static int value_of(const struct task *t, struct vault_verbs_value *v, struct err *err) {
    int r;

    if (t->c->token_url)
        r = oauth_get(t->v, t->c, t->fresh, &v->value, &v->identity, &v->expires, err);
    else
        r = store_get(t->v, t->c, &v->value, err);
    if (r < 0)
        return r;
    r = credential_value_check(t->c, v->value.p, v->value.len, err);
    if (r < 0)
        return err_ctx(err, r, "secret '%s'", t->name);
    if (t->c->store == STORE_COMMAND && t->c->lifetime_s)
        v->expires = (uint64_t)time(NULL) + t->c->lifetime_s;
    return 0;
}

static int send_value(int status, const struct vault_verbs_value *v, struct err *err) {
    CLEANUP(secret_done) struct secret m = {0};
    struct vault_value head = {
        .status = status, .len = (uint32_t)v->value.len, .identity = (uint32_t)v->identity.len, .expires = v->expires};
    int r;

    if (secret_alloc(&m, sizeof head + v->value.len + v->identity.len) < 0)
        return err_oom(err);
    memcpy(m.p, &head, sizeof head);
    if (v->value.len)
        memcpy(m.p + sizeof head, v->value.p, v->value.len);
    if (v->identity.len)
        memcpy(m.p + sizeof head + v->value.len, v->identity.p, v->identity.len);
    r = sock_send(FD_GIVEN, m.p, sizeof head + v->value.len + v->identity.len, NULL, 0);
    return r < 0 ? err_sys(err, r, "send the value to the broker") : 0;
}

static int do_get(const struct task *t, struct err *err) {
    CLEANUP(value_done) struct vault_verbs_value v = {0};
    int r = value_of(t, &v, err);

    r = r < 0 ? r : vault_recheck(t->v, t->c, err);
    return r < 0 ? r : send_value(0, &v, err);
}

/* A keyring that did not answer in time may have it all the same: then neither definition is for it. */
static int put_locked(const struct task *t, const struct secret *value, struct err *err) {
    CLEANUP(closep) int lock = -1;
    struct err why = {0};
    int r = lockfile_take(t->v->dir, lockfile_of_name(t->name), &lock, err);

    if (r < 0)
        return r;
    r = t->c->token_url ? oauth_put(t->v, t->c, value, err) : store_put(t->v, t->c, value, err);
    if (r < 0 && r != -ETIMEDOUT && *t->v->withdrawn && vault_put_back(t->v, &why) < 0)
        log_err(&why);
    return r;
}

static int do_put(const struct task *t, struct err *err) {
    CLEANUP(freep) char *question = str_dupf("Value of %s: ", t->name);
    CLEANUP(secret_done) struct secret value = {0};
    size_t max = t->c->token_url ? VAULT_STORED_MAX : CREDENTIAL_VALUE_MAX;
    int r = question ? store_writable(t->c, err) : err_oom(err);

    if (r < 0)
        return r;
    r = isatty(STDIN_FILENO) ? input_ask(question, max, &value, err) : input_read(STDIN_FILENO, max, &value, err);
    if (r == -ENXIO)
        return err_set(err, r, "there is no terminal to ask at: give the value through a pipe");
    if (r == 0 && !t->c->token_url)
        r = credential_value_check(t->c, value.p, value.len, err);
    if (r < 0) {
        err->status = EXIT_USAGE_ERR;
        return err_ctx(err, r, "secret '%s'", t->name);
    }
    return put_locked(t, &value, err);
}

static int do_rm(const struct task *t, struct err *err) {
    return store_rm(t->v, t->c, err);
}

/* The answer is the JSON, also if it is no: nothing on stderr then. */
static int do_check(const struct task *t, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CHECK_MAX);
    CLEANUP(value_done) struct vault_verbs_value v = {0};
    int r = t->c->token_url ? oauth_check(t->v, t->c, err) : value_of(t, &v, err);
    int w;

    buf_adds(&b, r < 0 ? "{\"ok\":false,\"error\":" : "{\"ok\":true");
    if (r < 0)
        buf_add_json(&b, err->msg);
    buf_adds(&b, "}\n");
    w = buf_ok(&b) ? fd_write_all(STDOUT_FILENO, buf_str(&b), b.len) : -ENOMEM;
    if (w < 0)
        return err_sys(err, w, "write the answer");
    return r < 0 ? EXIT_NO_VALUE : 0;
}

static int do_unlock(const struct task *t, struct err *err) {
    return file_unlock(t->v, err);
}

static int do_lock(const struct task *t, struct err *err) {
    return file_lock(t->v, err);
}

static int do_login(const struct task *t, struct err *err) {
    int r = store_writable(t->c, err);

    return r < 0 ? r : oauth_login(t->v, t->c, err);
}

static int do_authorize(const struct task *t, struct err *err) {
    int r = store_writable(t->c, err);

    return r < 0 ? r : oauth_browser(t->v, t->c, FD_GIVEN, err);
}

/* For bawn-pull, which gets no other value than this one. */
static int do_registry(const struct task *t, struct err *err) {
    CLEANUP(secret_done) struct secret login = {0};
    int r = docker_login_get(t->v, t->name, &login, err);

    r = r < 0 || !login.len ? r : fd_write_all(FD_GIVEN, login.p, login.len);
    return r == -EPIPE ? 0 : r;
}

struct vault_verbs_verb {
    const char *name;
    int (*run)(const struct task *t, struct err *err);
    bool named, socket, may_ask, new_defs;
    bool host; /* its name is a registry's, not one of a secret */
};

static const struct vault_verbs_verb verbs[] = {
    {"--get", do_get, .named = true, .socket = true},
    {"--authorize", do_authorize, .named = true, .socket = true},
    {"--put", do_put, .named = true, .may_ask = true, .new_defs = true},
    {"--rm", do_rm, .named = true, .may_ask = true, .new_defs = true},
    {"--check", do_check, .named = true},
    {"--unlock", do_unlock, .may_ask = true},
    {"--lock", do_lock},
    {"--login", do_login, .named = true, .may_ask = true},
    {"--registry", do_registry, .host = true, .socket = true},
};

static bool take_options(const struct vault_verbs_verb *b, int argc, char **argv, int i, struct task *t) {
    if (b->socket && i + 1 < argc && str_eq(argv[i], "--of")) {
        t->of = argv[i + 1];
        i += 2;
    }
    if (b->run == do_get && i < argc && str_eq(argv[i], "--fresh")) {
        t->fresh = true;
        i++;
    }
    return i == argc;
}

static const struct vault_verbs_verb *find_verb(int argc, char **argv, struct task *t) {
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++) {
        const struct vault_verbs_verb *b = &verbs[i];
        int want = b->named || b->host ? 3 : 2;

        if (!str_eq(b->name, argv[1]))
            continue;
        t->name = want == 3 && argc > 2 ? argv[2] : NULL;
        return argc >= want && take_options(b, argc, argv, want, t) ? b : NULL;
    }
    return NULL;
}

/* A command must not inherit the way to the broker, nor what our own caller left open. 1: it was given; 0: not, and it need not be. */
static int take_given(const struct vault_verbs_verb *b, struct err *err) {
    bool wanted = b->socket || b->new_defs, is = wanted && fcntl(FD_GIVEN, F_SETFD, FD_CLOEXEC) == 0;

    if (b->socket && !is)
        return err_usage(err, "bawn-vault %s is started by bawn", b->name);
    return fd_close_from(FD_GIVEN + wanted) < 0 ? err_sys(err, -errno, "close inherited descriptors") : is;
}

static int check_purpose(const struct task *t, struct err *err) {
    char purpose[CREDENTIAL_PURPOSE_SIZE];

    credential_purpose(t->c, purpose);
    if (!t->of || str_eq(t->of, purpose))
        return 0;
    return err_set(err, -ENOKEY, "secret '%s' was redefined after this sandbox was started: start another one", t->name);
}

static int run_verb(const struct vault_verbs_verb *b, struct task *t, char *const *environ_, bool given, struct err *err) {
    CLEANUP(secret_done) struct secret key = {0};
    CLEANUP(vault_done) struct vault v = {0};
    bool withdrawn = false;
    int r = vault_open(environ_, given && b->new_defs ? FD_GIVEN : -1, &v, err);

    v.key = &key;
    v.withdrawn = &withdrawn;
    v.may_ask = b->may_ask;
    t->v = &v;
    r = r < 0 || !b->named ? r : vault_find(&v, t->name, &t->c, err);
    r = r < 0 || !b->named ? r : check_purpose(t, err);
    return r < 0 ? r : b->run(t, err);
}

int vault_run_verb(int argc, char **argv, char *const *environ_) {
    static const struct vault_verbs_value none = {0};
    struct err err = {0};
    struct task t = {0};
    const struct vault_verbs_verb *b = find_verb(argc, argv, &t);
    int r = b ? take_given(b, &err) : err_usage(&err, "bawn-vault is started by bawn: use 'bawn secret'");

    if (r >= 0)
        r = run_verb(b, &t, environ_, r > 0, &err);
    if (r < 0)
        log_err(&err);
    if (r < 0 && b && b->run == do_get) /* last: with the answer the request ends, perhaps the run with it, and we with the run */
        (void)send_value(vault_status(r), &none, NULL); /* a broker that is gone needs no answer */
    return r >= 0 ? r : err.status == EXIT_USAGE_ERR ? EXIT_USAGE_ERR : EXIT_NO_VALUE;
}
