/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.json: found, locked, replaced. */
#include "ops/secret/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/edit_lock.h"
#include "os/fd.h"
#include "supervisor/credential/credentials.h"

static const char file_name[] = "secrets.json";

void secret_file_done(struct secret_file *f) {
    free(f->home);
    free(f->folder);
    free(f->path);
    closep(&f->dir);
    credentials_done(&f->all);
}

static int find_place(struct secret_file *f, struct err *err) {
    int r = paths_home(environ, &f->home, err);

    r = r < 0 ? r : paths_config(environ, f->home, file_name, &f->path, err);
    if (r < 0)
        return r;
    if (!f->path)
        return err_set(err, -ENOENT, "there is no home folder to keep secrets in");
    f->folder = strndup(f->path, strlen(f->path) - strlen(file_name) - 1);
    return f->folder ? 0 : err_oom(err);
}

int secret_file_read(struct secret_file *f, struct err *err) {
    int r = find_place(f, err);

    return r < 0 ? r : credentials_load(environ, f->home, &f->all, err);
}

static int lock_folder(struct secret_file *f, struct err *err) {
    f->dir = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return err_sys(err, -errno, "open '%s'", f->folder);
    return edit_lock(f->dir, f->folder, f->path, err);
}

int secret_file_edit(struct secret_file *f, struct err *err) {
    int r = find_place(f, err);

    r = r < 0 ? r : paths_make_dirs(f->folder, err);
    r = r < 0 ? r : lock_folder(f, err);
    return r < 0 ? r : credentials_load(environ, f->home, &f->all, err);
}

/* As it will be read again. */
static int write_text(const struct secret_file *f, struct buf *text, struct err *err) {
    CLEANUP(credentials_done) struct credentials check = {0};

    credentials_write(&f->all, text);
    if (!buf_ok(text))
        return err_set(err, -EFBIG, "'%s' would have more than %d bytes", f->path, CREDENTIALS_FILE_MAX);
    return credentials_read(f->path, buf_str(text), text->len, &check, err);
}

int secret_file_save(const struct secret_file *f, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CREDENTIALS_FILE_MAX);
    int r = write_text(f, &text, err);

    return r < 0 ? r : paths_publish_at(f->dir, f->folder, file_name, 0600, buf_str(&text), text.len, PUBLISH_REPLACE, err);
}

int secret_file_preview(const struct secret_file *f, int *ret_fd, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CREDENTIALS_FILE_MAX);
    int fd, r = write_text(f, &text, err);

    if (r < 0)
        return r;
    fd = fd_memory("bawn-secrets", buf_str(&text), text.len);
    if (fd < 0)
        return err_sys(err, fd, "hand the definitions over");
    *ret_fd = fd;
    return 0;
}

int secret_file_find(const struct secret_file *f, const char *name, const struct credential **ret, struct err *err) {
    const char *names[CREDENTIALS_MAX], *near;

    *ret = credential_name_ok(name) ? credentials_find(&f->all, name) : NULL;
    if (*ret)
        return 0;
    if (!credential_name_ok(name))
        return err_usage(err, "the name of a secret has 1 to %d letters, digits, '.', '_' and '-'", CREDENTIAL_NAME_MAX);
    for (size_t i = 0; i < f->all.len; i++)
        names[i] = f->all.v[i].name;
    near = str_nearest(name, names, f->all.len);
    if (near)
        return err_usage(err, "there is no secret '%s' (did you mean '%s'?)", name, near);
    return err_usage(err, "there is no secret '%s' (see 'bawn secret ls')", name);
}
