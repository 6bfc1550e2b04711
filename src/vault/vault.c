#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"

static const char defs_name[] = "secrets.json";

static int read_defs(const char *path, struct credentials *ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CREDENTIALS_FILE_MAX + 1);
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    r = paths_read_fd(fd, path, CREDENTIALS_FILE_MAX, &b, err);
    return r < 0 ? r : credentials_read(path, buf_str(&b), b.len, ret, err);
}

int vault_open(char *const *environ_, struct vault *ret, struct err *err) {
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
    r = read_defs(path, &v.defs, err);
    if (r < 0)
        return r;
    *ret = v;
    v = (struct vault){0};
    return 0;
}

void vault_done(struct vault *v) {
    free(v->dir);
    credentials_done(&v->defs);
    *v = (struct vault){0};
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
