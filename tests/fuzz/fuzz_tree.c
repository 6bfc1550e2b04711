/* SPDX-License-Identifier: Apache-2.0 */
/* A tree that a hostile sandbox sends: whatever it says, nothing appears beside the folder that it is for. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/copy/treestream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[] = "/dev/shm/bawn-fuzz-tree.XXXXXX";

static void remove_top(void) {
    remove_tree(AT_FDCWD, path);
}

static int make_top(void) {
    int fd = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd < 0 || atexit(remove_top) != 0)
        BUG("no folder");
    return fd;
}

static size_t count(int folder) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    size_t n = 0;

    dir_open_at(folder, ".", &d);
    while (dir_next(&d))
        n++;
    return n;
}

static void check_header(const uint8_t *data) {
    uint8_t again[TREE_HEADER];
    struct tree_record r;

    if (tree_record_decode(data, &r) < 0)
        return;
    tree_record_encode(&r, again);
    if (memcmp(data, again, sizeof again) != 0)
        BUG("encoding does not undo decoding");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int top = -1;
    CLEANUP(transfer_done) struct transfer t = {.out = size % 2};
    struct err err = {0};
    int pair[2], in;

    top = top < 0 ? make_top() : top;
    if (size >= TREE_HEADER)
        check_header(data);
    if (mkdirat(top, "in", 0700) < 0 || (in = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        BUG("no folder");
    (void)!send(pair[1], data, MIN_OF(size, (size_t)65536), MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(pair[1], SHUT_WR);
    tree_ask(pair[0], &t, in, &err);
    close(pair[0]);
    close(pair[1]);
    close(in);
    if (count(top) != 1)
        BUG("something is beside the folder");
    remove_tree(top, "in");
    return 0;
}
