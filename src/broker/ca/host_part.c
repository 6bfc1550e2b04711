/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the sandboxes' trust stores that are the host's alone. */
#include "broker/ca/host_part.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/remove.h"

enum { PART_FILE_MAX = 1024 * 1024 };

bool host_part_read(int stock, const char *name, const char *stamp, struct buf *ret) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(ret->ceiling);
    size_t head = strlen(stamp);

    if (file_read_at(stock, name, 0, &text) < 0 || text.len < head || memcmp(text.data, stamp, head) != 0)
        return false;
    buf_add(ret, text.data + head, text.len - head);
    return buf_ok(ret);
}

void host_part_write(int stock, const char *name, const char *stamp, const struct buf *content) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(content->ceiling);

    buf_adds(&text, stamp);
    buf_add(&text, content->data, content->len);
    if (buf_ok(&text))
        (void)file_replace_at(stock, name, 0600, FILE_SYNC, text.data, text.len);
}

static int copy_file(int from, int to, const char *name) {
    CLEANUP(closep) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), out = -1;

    if (in < 0)
        return -errno;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return out < 0 ? -errno : copy_content(in, out, PART_FILE_MAX, NULL);
}

int host_part_copy(int from, const char *from_name, int to, const char *to_name, const char *const *files) {
    CLEANUP(closep) int in = openat(from, from_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), out = -1;
    int r = in < 0 || mkdirat(to, to_name, 0755) < 0 ? -errno : 0;

    if (r < 0)
        return r;
    out = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    r = out < 0 ? -errno : 0;
    for (; r == 0 && *files; files++)
        r = copy_file(in, out, *files);
    if (r < 0)
        remove_tree(to, to_name);
    return r;
}
