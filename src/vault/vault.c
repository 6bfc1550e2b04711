/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions that every verb of bawn-vault works with. */
#include "vault/vault.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"

static const char defs_name[] = "secrets.json";

static int read_published(const char *dir, struct credentials *ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CREDENTIALS_FILE_MAX + 1);
    CLEANUP(freep) char *path = str_dupf("%s/%s", dir, defs_name);
    int r = path ? paths_read_own(path, CREDENTIALS_FILE_MAX, &b, err) : err_oom(err);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return credentials_read(path, buf_str(&b), b.len, ret, err);
}

static int read_new(int fd, struct credentials *ret, struct err *err) {
    static const char name[] = "the new definitions";
    CLEANUP(buf_done) struct buf b = BUF_INIT(CREDENTIALS_FILE_MAX + 1);
    int r = paths_read_fd(fd, name, CREDENTIALS_FILE_MAX, &b, err);

    return r < 0 ? r : credentials_read(name, buf_str(&b), b.len, ret, err);
}

int vault_open(char *const *environ_, int new_defs, struct vault *ret, struct err *err) {
    CLEANUP(vault_done) struct vault v = {.environ_ = environ_};
    CLEANUP(freep) char *home = NULL;
    CLEANUP(freep) char *path = NULL;
    int r = paths_home(environ_, &home, err);

    r = r < 0 ? r : paths_config(environ_, home, defs_name, &path, err);
    if (r < 0)
        return r;
    if (!path)
        return err_usage(err, "neither XDG_CONFIG_HOME nor HOME is set: there is no place for secrets");
    v.dir = strndup(path, strlen(path) - sizeof defs_name);
    if (!v.dir)
        return err_oom(err);
    r = read_published(v.dir, new_defs < 0 ? &v.defs : &v.published, err);
    r = r < 0 || new_defs < 0 ? r : read_new(new_defs, &v.defs, err);
    if (r < 0)
        return r;
    *ret = TAKE(v, (struct vault){0});
    return 0;
}

void vault_done(struct vault *v) {
    free(v->dir);
    credentials_done(&v->defs);
    credentials_done(&v->published);
    *v = (struct vault){0};
}

int vault_recheck(const struct vault *v, const struct credential *c, struct err *err) {
    CLEANUP(credentials_done) struct credentials now = {0};
    int r = read_published(v->dir, &now, err);
    const struct credential *there = r < 0 ? NULL : credentials_find(&now, c->name);

    if (r < 0 || (there && credential_same_purpose(there, c)))
        return r;
    return err_set(err, -ENOKEY, "secret '%s' was removed or defined anew meanwhile", c->name);
}

/* The process that started us has the lock of the file (ops/secret/secret_file.c). */
static int publish(const struct vault *v, const struct credentials *defs, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CREDENTIALS_FILE_MAX);

    credentials_write(defs, &text);
    return buf_ok(&text) ? paths_publish(v->dir, defs_name, buf_str(&text), text.len, PUBLISH_REPLACE, err) : err_oom(err);
}

int vault_withdraw(const struct vault *v, const struct credential *c, struct err *err) {
    const struct credential *old = credentials_find(&v->published, c->name);
    CLEANUP(freep) struct credential *others = NULL;
    struct credentials rest = {0};

    if (!old || credential_same_purpose(old, c))
        return 0;
    others = calloc(v->published.len, sizeof *others);
    if (!others)
        return err_oom(err);
    rest.v = others;
    for (size_t i = 0; i < v->published.len; i++)
        if (&v->published.v[i] != old)
            others[rest.len++] = v->published.v[i];
    *v->withdrawn = true;
    return publish(v, &rest, err);
}

int vault_put_back(const struct vault *v, struct err *err) {
    return publish(v, &v->published, err);
}

int vault_find(const struct vault *v, const char *name, const struct credential **ret, struct err *err) {
    const struct credential *c = credential_name_ok(name) ? credentials_find(&v->defs, name) : NULL;

    if (!c && !credential_name_ok(name))
        return err_usage(err, "a secret's name has up to %d letters, digits, '.', '_' and '-'", CREDENTIAL_NAME_MAX);
    if (!c)
        return err_usage(err, "there is no secret '%s'; 'bawn secret ls' lists them", name);
    *ret = c;
    return 0;
}

const char *vault_getenv(const struct vault *v, const char *name) {
    return paths_getenv(v->environ_, name);
}
