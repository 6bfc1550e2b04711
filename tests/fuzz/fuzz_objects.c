/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack with its index, or a loose object, from a repository that an agent wrote. The first byte chooses; of a pack the next
 * two say how long the index is. Whatever the bytes are: an object is what its name says, or it is refused.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "review/git/objects_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *data, size_t len) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || fd_write_all(fd, data, len) < 0)
        BUG("no file in memory");
    return fd;
}

static void read_pack(const uint8_t *data, size_t size) {
    size_t idx_len = MIN_OF((size_t)data[0] << 8 | data[1], size - 2);
    CLEANUP(objects_freep) struct objects *o = objects_new(20, 0);
    CLEANUP(closep) int idx = file_of(data + 2, idx_len);
    CLEANUP(closep) int pack = file_of(data + 2 + idx_len, size - 2 - idx_len);
    struct pack p;

    if (objects_check_pack(o, idx, pack) != 0 || pack_open(&p, idx, pack, 20) < 0)
        return;
    for (uint32_t i = 0; i < p.n; i++) { /* what was checked can be read, and is that */
        struct object obj = {0};
        uint64_t offset;

        if (pack_offset(&p, i, 20, &offset) < 0)
            BUG("an offset that was checked");
        if (pack_read(o, &p, offset, OBJECT_MAX, &obj) == 0 && !objects_matches(o, &obj, pack_id(&p, i, 20)))
            BUG("an object that is not what its name says");
        object_done(&obj);
    }
    pack_close(&p);
}

static void read_loose(const uint8_t *data, size_t size) {
    CLEANUP(objects_freep) struct objects *o = objects_new(20, 0);
    CLEANUP(closep) int fd = file_of(data + 20, size - 20);

    objects_check_loose(o, fd, data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 3 && data[0] & 1)
        read_pack(data + 1, size - 1);
    else if (size > 21)
        read_loose(data + 1, size - 1);
    return 0;
}
