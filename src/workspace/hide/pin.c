/* SPDX-License-Identifier: Apache-2.0 */
/* Stores accepted rules and compares them with the present ones. */
#include "workspace/hide/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/file.h"
#include "workspace/hide/defaults.h"

/* A pin: the line below, then for each file, sorted by folder, "<length of the folder> <length of the text>\n", folder, text. */
static const char head[] = "bawn-ignore-1\n";
enum { PIN_MAX = IGNORE_BYTES_MAX + IGNORE_FILES_MAX * (PATH_MAX + 64) };

static int by_folder(const void *a, const void *b) {
    const struct ignore_source *const *x = a, *const *y = b;

    return strcmp((*x)->dir, (*y)->dir);
}

/* Only files of the workspace: the defaults in place of a missing file are not one. */
static int serialize_rules(const struct ignore *ig, struct buf *out, struct err *err) {
    CLEANUP(freep) const struct ignore_source **files = NULL;
    const struct ignore_source *s;
    size_t all = 0, n = 0;

    while (ignore_source(ig, all))
        all++;
    files = calloc(all + 1, sizeof(struct ignore_source *));
    if (!files)
        return err_oom(err);
    for (size_t i = 0; (s = ignore_source(ig, i)); i++)
        if (!str_eq(s->origin, DEFAULTS_ORIGIN))
            files[n++] = s;
    qsort(files, n, sizeof(struct ignore_source *), by_folder);
    buf_adds(out, head);
    for (size_t i = 0; i < n; i++) {
        buf_addf(out, "%zu %zu\n", strlen(files[i]->dir), files[i]->len);
        buf_adds(out, files[i]->dir);
        buf_add(out, files[i]->data, files[i]->len);
    }
    return buf_ok(out) ? 0 : err_oom(err);
}

static int pin_broken(const char *path, struct err *err) {
    return err_set(err, -EBADMSG,
                   "'%s' is damaged; remove it, look at the workspace's " IGNORE_FILE ", and run 'bawn init --accept'", path);
}

/* Reads what serialize_rules() wrote. The bytes are the user's own, but a damaged file must not become fewer rules. */
static int parse_pin(const char *path, const char *data, size_t len, struct ignore *ret, struct err *err) {
    const char *p = data + sizeof head - 1, *end = data + len;
    bool top = false;
    int r = 0;

    if (len < sizeof head - 1 || memcmp(data, head, sizeof head - 1) != 0)
        return pin_broken(path, err);
    while (r >= 0 && p < end) {
        size_t dir_len, text_len;
        int used = 0;
        char dir[PATH_MAX];

        if (sscanf(p, "%zu %zu%n", &dir_len, &text_len, &used) != 2 || used == 0 || p[used] != '\n')
            return pin_broken(path, err);
        p += used + 1;
        if (dir_len >= sizeof dir || text_len > IGNORE_FILE_MAX || (size_t)(end - p) < dir_len + text_len)
            return pin_broken(path, err);
        memcpy(dir, p, dir_len);
        dir[dir_len] = 0;
        r = ignore_add_file(ret, dir, "accepted " IGNORE_FILE, p + dir_len, text_len, err);
        p += dir_len + text_len;
        top |= dir_len == 0;
    }
    return r < 0 || top ? r : defaults_add(ret, err);
}

int pin_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "ignore", ret, err);
}

int pin_accept(const char *dir, const char *workspace, const struct ignore *now, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(PIN_MAX);
    char name[SHA256_HEX_SIZE];
    int r = serialize_rules(now, &text, err);

    if (r < 0)
        return r;
    if (!dir)
        return err_set(err, -ENOENT, "there is no home folder to keep accepted rules in");
    sha256_hex(workspace, strlen(workspace), name);
    r = paths_make_dirs(dir, err);
    return r < 0 ? r : paths_publish(dir, name, text.data, text.len, PUBLISH_REPLACE, err);
}

/* path and data of a pin; NULL: the defaults are what was accepted. */
static int accepted_rules(const char *path, const struct buf *data, struct ignore **ret, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    int r = !ig ? err_oom(err) : data ? parse_pin(path, buf_str(data), data->len, ig, err) : defaults_add(ig, err);

    if (r < 0)
        return r;
    *ret = TAKE_PTR(ig);
    return 1;
}

int pin_check(const char *dir, const char *workspace, const struct ignore *now, bool record, struct ignore **ret_accepted,
              struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(PIN_MAX), data = BUF_INIT(PIN_MAX);
    CLEANUP(freep) char *path = NULL;
    char name[SHA256_HEX_SIZE];
    int r = serialize_rules(now, &text, err);
    bool is_default = text.len == sizeof head - 1; /* the workspace has no rules of its own */

    if (r < 0)
        return r;
    if (!dir)
        return is_default ? 0 : accepted_rules(NULL, NULL, ret_accepted, err);
    sha256_hex(workspace, strlen(workspace), name);
    path = str_dupf("%s/%s", dir, name);
    if (!path)
        return err_oom(err);
    r = file_read(path, FILE_FOLLOW, &data);
    if (r >= 0 && data.len == text.len && memcmp(data.data, text.data, text.len) == 0)
        return 0;
    if (r >= 0)
        return accepted_rules(path, &data, ret_accepted, err);
    if (r != -ENOENT && r != -ENOTDIR)
        return file_err(err, r, path, PIN_MAX);
    if (record && pin_accept(dir, workspace, now, NULL) == 0)
        return 0;
    return record && !is_default ? accepted_rules(NULL, NULL, ret_accepted, err) : 0;
}
