/* SPDX-License-Identifier: Apache-2.0 */
/* Git's objects from stores that an agent wrote: what is not what its name says is not read. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/sha1.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/git/objects_priv.h"

static char top[64];
static int root = -1;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    return remove(path);
}

static int setup(void **state) {
    snprintf(top, sizeof top, "/tmp/bawn-objects.XXXXXX");
    assert_non_null(mkdtemp(top));
    root = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(root, "objects", 0755), 0);
    assert_int_equal(mkdirat(root, "objects/pack", 0755), 0);
    return root < 0;
}

static int teardown(void **state) {
    closep(&root);
    return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void name_of(const char *type, const void *data, size_t len, unsigned char ret[static OBJECT_ID_MAX]) {
    struct sha1 h;
    char head[64];

    memset(ret, 0, OBJECT_ID_MAX);
    sha1_init(&h);
    sha1_add(&h, head, (size_t)snprintf(head, sizeof head, "%s %zu", type, len) + 1);
    sha1_add(&h, data, len);
    sha1_end(&h, ret);
}

static void write_at(const char *path, const void *data, size_t len) {
    CLEANUP(closep) int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static size_t squeeze(const void *data, size_t len, unsigned char *out, size_t room) {
    uLongf n = room;

    assert_int_equal(compress(out, &n, data, len), Z_OK);
    return n;
}

/* A loose object under any name. */
static void write_loose(const unsigned char *id, const char *type, const char *content, size_t claimed) {
    unsigned char packed[4096];
    char plain[2048], path[128];
    size_t n = (size_t)snprintf(plain, sizeof plain, "%s %zu", type, claimed) + 1, len = strlen(content);

    memcpy(plain + n, content, len);
    n = squeeze(plain, n + len, packed, sizeof packed);
    snprintf(path, sizeof path, "objects/%02x", id[0]);
    assert_true(mkdirat(root, path, 0755) == 0 || errno == EEXIST);
    for (size_t i = 0, at = strlen(path); i < SHA1_LEN; i++)
        at += (size_t)snprintf(path + at, sizeof path - at, i == 0 ? "/" : "%02x", id[i]);
    write_at(path, packed, n);
}

static struct objects *store(void) {
    struct objects *o = objects_new(SHA1_LEN, 0);

    assert_non_null(o);
    assert_int_equal(objects_add_store(o, root, "objects"), 0);
    return o;
}

static void loose_objects(void **state) {
    unsigned char id[OBJECT_ID_MAX], other[OBJECT_ID_MAX], none[OBJECT_ID_MAX] = {1};
    CLEANUP(objects_freep) struct objects *o = NULL;
    struct object got = {0};

    name_of("blob", "hello", 5, id);
    name_of("blob", "other", 5, other);
    write_loose(id, "blob", "hello", 5);
    write_loose(other, "blob", "evil!", 5);
    o = store();
    assert_int_equal(objects_read(o, id, &got), 0);
    assert_int_equal(got.type, OBJECT_BLOB);
    assert_string_equal((char *)got.data, "hello");
    object_done(&got);
    assert_int_equal(objects_read(o, other, &got), -EBADMSG);
    assert_int_equal(objects_read(o, none, &got), -ENOENT);
    write_loose(other, "blob", "other", 4); /* the length is part of the name */
    assert_int_equal(objects_read(o, other, &got), -EBADMSG);
    write_loose(other, "blob", "other", 6);
    assert_int_equal(objects_read(o, other, &got), -EBADMSG);
    write_loose(other, "tree", "other", 5);
    assert_int_equal(objects_read(o, other, &got), -EBADMSG);
}

/* A FIFO, a link and a folder in the place of an object: not waited for, not followed. */
static void no_regular_file(void **state) {
    unsigned char id[OBJECT_ID_MAX];
    CLEANUP(objects_freep) struct objects *o = NULL;
    struct object got = {0};
    char path[128];
    size_t at;

    name_of("blob", "hello", 5, id);
    write_loose(id, "blob", "hello", 5);
    at = (size_t)snprintf(path, sizeof path, "objects/%02x/", id[0]);
    for (size_t i = 1; i < SHA1_LEN; i++)
        at += (size_t)snprintf(path + at, sizeof path - at, "%02x", id[i]);
    assert_int_equal(renameat(root, path, root, "elsewhere"), 0);
    o = store();
    assert_int_equal(mkfifoat(root, path, 0644), 0);
    assert_int_equal(objects_read(o, id, &got), -ENOENT);
    assert_int_equal(unlinkat(root, path, 0), 0);
    assert_int_equal(symlinkat("../../elsewhere", root, path), 0);
    assert_int_equal(objects_read(o, id, &got), -ENOENT);
}

/* A pack of a base and a delta upon it, as git writes it. */
struct made {
    unsigned char pack[1024], idx[4096], base[OBJECT_ID_MAX], delta[OBJECT_ID_MAX];
    size_t pack_len, idx_len;
};

static void put32(unsigned char *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void make_pack(struct made *m, const unsigned char *delta, size_t delta_len, const char *result) {
    static const char base[] = "0123456789";
    size_t first = 12, second, n;
    bool swap;

    name_of("blob", base, 10, m->base);
    name_of("blob", result, strlen(result), m->delta);
    memcpy(m->pack, "PACK\0\0\0\2\0\0\0\2", 12);
    m->pack[12] = OBJECT_BLOB << 4 | 10;
    n = 13 + squeeze(base, 10, m->pack + 13, 500);
    second = n;
    m->pack[n++] = (unsigned char)(OBJECT_OFS_DELTA << 4 | (delta_len & 15));
    m->pack[n++] = (unsigned char)(second - first);
    n += squeeze(delta, delta_len, m->pack + n, 400);
    m->pack_len = n + SHA1_LEN;
    memset(m->idx, 0, sizeof m->idx);
    memcpy(m->idx, "\377tOc\0\0\0\2", 8);
    for (unsigned i = 0; i < 256; i++)
        put32(m->idx + 8 + 4 * i, (uint32_t)(m->base[0] <= i) + (m->delta[0] <= i));
    swap = memcmp(m->base, m->delta, SHA1_LEN) > 0;
    memcpy(m->idx + 1032, swap ? m->delta : m->base, SHA1_LEN);
    memcpy(m->idx + 1052, swap ? m->base : m->delta, SHA1_LEN);
    put32(m->idx + 1080, (uint32_t)(swap ? second : first));
    put32(m->idx + 1084, (uint32_t)(swap ? first : second));
    m->idx_len = 1088 + 2 * SHA1_LEN;
}

static const unsigned char good_delta[] = {10, 7, 0x91, 2, 3, 4, 'e', 'v', 'i', 'l'}; /* "234evil" */

static int check(const struct made *m) {
    CLEANUP(objects_freep) struct objects *o = objects_new(SHA1_LEN, 0);
    CLEANUP(closep) int idx = memfd_create("idx", MFD_CLOEXEC);
    CLEANUP(closep) int pack = memfd_create("pack", MFD_CLOEXEC);

    assert_int_equal(fd_write_all(idx, m->idx, m->idx_len), 0);
    assert_int_equal(fd_write_all(pack, m->pack, m->pack_len), 0);
    return objects_check_pack(o, idx, pack);
}

static void packs(void **state) {
    CLEANUP(objects_freep) struct objects *o = NULL;
    struct object got = {0};
    struct made m;

    make_pack(&m, good_delta, sizeof good_delta, "234evil");
    write_at("objects/pack/pack-1.idx", m.idx, m.idx_len);
    write_at("objects/pack/pack-1.pack", m.pack, m.pack_len);
    o = store();
    for (int twice = 0; twice < 2; twice++) { /* the second time from the cache */
        assert_int_equal(objects_read(o, m.delta, &got), 0);
        assert_string_equal((char *)got.data, "234evil");
        object_done(&got);
        assert_int_equal(objects_read(o, m.base, &got), 0);
        object_done(&got);
    }
    assert_int_equal(check(&m), 0);
    make_pack(&m, good_delta, sizeof good_delta, "another"); /* the index gives it the name of something else */
    assert_int_equal(check(&m), -EBADMSG);
}

static void deltas_that_lie(void **state) {
    static const struct {
        unsigned char d[12];
        size_t len;
    } deltas[] = {
        {{9, 3, 0x91, 0, 3}, 5},           /* another base */
        {{10, 3, 0x91, 8, 3}, 5},          /* past the end of the base */
        {{10, 2, 0x91, 0, 3}, 5},          /* more than it says */
        {{10, 4, 0x91, 0, 3}, 5},          /* less */
        {{10, 3, 0}, 3},                   /* reserved */
        {{10, 3, 0x91}, 3},                /* cut off */
        {{10, 3, 3, 'a'}, 4},              /* cut off */
        {{10, 0x80, 0x80, 0x80, 0x80}, 5}, /* a number without end */
        {{10, 0xff, 0xff, 0xff, 0x7f}, 5}, /* a result of 256 MiB */
    };

    for (size_t i = 0; i < ARRAY_LEN(deltas); i++) {
        struct made m;
        int r;

        make_pack(&m, deltas[i].d, deltas[i].len, "012");
        r = check(&m);
        assert_true(r == -EBADMSG || r == -EFBIG);
    }
}

/* Any byte of the index or of the pack that is something else: never a crash, and never a wrong object. */
static void every_byte_counts(void **state) {
    struct made m;

    make_pack(&m, good_delta, sizeof good_delta, "234evil");
    for (size_t i = 0; i < 1088; i++) {
        struct made broken = m;

        broken.idx[i] ^= 0x55;
        check(&broken);
        if (i >= 1032 && i < 1072)
            assert_int_equal(check(&broken), -EBADMSG);
    }
    for (size_t i = 12; i < m.pack_len - SHA1_LEN; i++) {
        struct made broken = m;

        broken.pack[i] ^= 0x55;
        assert_int_not_equal(check(&broken), 0);
    }
}

static void a_ceiling_for_all_together(void **state) {
    CLEANUP(objects_freep) struct objects *o = objects_new(SHA1_LEN, 0);

    assert_int_equal(objects_spend(o, OBJECTS_BYTES_MAX - OBJECT_COST), 0);
    assert_false(objects_exhausted(o));
    assert_int_equal(objects_spent(o), OBJECTS_BYTES_MAX);
    assert_int_equal(objects_spend(o, 0), -EFBIG);
    assert_true(objects_exhausted(o));
    assert_int_equal(objects_spend(o, 0), -EFBIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loose_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(no_regular_file, setup, teardown),
        cmocka_unit_test_setup_teardown(packs, setup, teardown),
        cmocka_unit_test(deltas_that_lie),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(a_ceiling_for_all_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
