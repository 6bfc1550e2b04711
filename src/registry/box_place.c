/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of all sandboxes, unique ids, and the files in a sandbox's folder. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/hidden.h"
#include "registry/registry_priv.h"

#define IDS_FILE ".ids" /* the ids that were given away in the latest second */

enum { IDS_MAX = 256 * 1024, SAME_ID_MAX = 999 };

int registry_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "sandboxes", ret, err);
}

int registry_open_boxes(const char *boxes, bool make, struct err *err) {
    return paths_open_own(boxes, make, "its sandboxes are theirs", err);
}

int registry_sweep(const char *boxes) {
    CLEANUP(closep) int fd = registry_open_boxes(boxes, false, NULL);

    return fd < 0 ? 0 : hidden_sweep(fd);
}

/* -- a new one ---------------------------------------------------------------------------------------------------------- */

static bool is_line(const char *text, const char *line) {
    size_t n = strlen(line);

    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strcspn(p, "\n") == n && strncmp(p, line, n) == 0)
            return true;
    return false;
}

/* The moment in an id: what follows its last '-'. Of another second's ids nothing need be known any more. */
static bool same_second(const char *ids, const char *id) {
    const char *stamp = strrchr(id, '-');
    size_t first = strcspn(ids, "\n"), n = stamp ? strlen(stamp) : 0;

    return n > 0 && first >= n && strncmp(ids + first - n, stamp, n) == 0;
}

/* Ids are in audit logs, which outlive their sandboxes: one that is free again would mix two. */
static int make_unique(int boxes, char **id, struct err *err) {
    CLEANUP(buf_done) struct buf ids = BUF_INIT(IDS_MAX);
    CLEANUP(freep) char *fresh = strdup(*id);
    int r = registry_get(boxes, IDS_FILE, &ids);

    if (r < 0 || !same_second(buf_str(&ids), *id))
        buf_clear(&ids);
    for (int n = 2; fresh && is_line(buf_str(&ids), fresh); n++) {
        if (n > SAME_ID_MAX)
            return err_set(err, -EAGAIN, "too many sandboxes of one name were made in this second");
        free(fresh);
        fresh = str_dupf("%s-%d", *id, n);
    }
    if (!fresh)
        return err_oom(err);
    buf_addf(&ids, "%s\n", fresh);
    r = registry_put(boxes, IDS_FILE, &ids, false, err);
    if (r < 0)
        return r;
    free(*id);
    *id = TAKE_PTR(fresh);
    return 0;
}

/* The lock of `boxes` is held for what must not be seen half-way, not while files are synced. */
int registry_make_hidden(int boxes, char ret_name[static HIDDEN_NAME_SIZE], char **id, struct err *err) {
    int r = hidden_lock(boxes), fd;

    if (r < 0)
        return err_sys(err, r, "lock the folder of the sandboxes");
    r = make_unique(boxes, id, err);
    fd = r < 0 ? r : hidden_make(boxes, ret_name);
    hidden_unlock(boxes);
    hidden_sweep_gone(boxes);
    return r == 0 && fd < 0 ? err_sys(err, fd, "make the folder of a sandbox") : fd;
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

int registry_put(int dir, const char *name, const struct buf *text, bool synced, struct err *err) {
    int r = file_replace_at(dir, name, 0600, FILE_SOLE | (synced ? FILE_SYNC : 0), buf_str(text), text->len);

    return r < 0 ? err_sys(err, r, "write '%s' of the sandbox", name) : 0;
}

int registry_get(int dir, const char *name, struct buf *text) {
    int r = file_read_at(dir, name, 0, text);

    return r == -EINVAL ? -EBADMSG : r;
}
