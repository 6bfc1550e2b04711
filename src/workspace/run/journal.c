/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the journal, looks up paths and appends records. */
#include "workspace/run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/run/journal_priv.h"

/* -- the index by path ---------------------------------------------------------------------------------------------------- */

enum { FIRST_CAP = 64 };

/* A polynomial over the bytes, modulo the prime 2^61 - 1, at a secret point: two paths collide with probability 2^-49 at
 * most, also if an agent chose them. */
uint64_t journal_hash(const struct journal *j, const char *path) {
    const uint64_t prime = (1ull << 61) - 1;
    uint64_t h = 0;

    for (; *path; path++) {
        __extension__ unsigned __int128 t = (unsigned __int128)h * j->key;

        h = (uint64_t)(t & prime) + (uint64_t)(t >> 61) + (unsigned char)*path;
        h = h >= prime ? h - prime : h;
    }
    return h;
}

struct journal_slot *journal_lookup(const struct journal *j, const char *path, uint64_t hash) {
    size_t mask = j->table_cap - 1;

    for (size_t i = hash & mask; j->table_cap && j->table[i]; i = (i + 1) & mask) {
        struct journal_slot *s = j->slots[j->table[i] - 1];

        if (s->hash == hash && str_eq(s->e.path, path))
            return s;
    }
    return NULL;
}

static void put_index(const struct journal *j, uint64_t hash, size_t index) {
    size_t mask = j->table_cap - 1, i = hash & mask;

    while (j->table[i])
        i = (i + 1) & mask;
    j->table[i] = (uint32_t)index + 1;
}

static int grow_index(struct journal *j) {
    size_t cap = j->cap ? j->cap * 2 : FIRST_CAP;
    struct journal_slot **slots = realloc(j->slots, cap * sizeof(struct journal_slot *));
    uint32_t *table;

    if (!slots)
        return -ENOMEM;
    j->slots = slots;
    table = calloc(cap * 2, sizeof *table);
    if (!table)
        return -ENOMEM;
    free(j->table);
    j->table = table;
    j->table_cap = cap * 2;
    j->cap = cap;
    for (size_t i = 0; i < j->n; i++)
        put_index(j, j->slots[i]->hash, i);
    return 0;
}

int journal_reserve(struct journal *j) {
    if (j->n >= JOURNAL_RECORDS_MAX)
        return -ENOSPC;
    return j->n < j->cap ? 0 : grow_index(j);
}

void journal_insert(struct journal *j, struct journal_slot *s) {
    put_index(j, s->hash, j->n);
    j->slots[j->n++] = s;
    if (s->e.kind != JOURNAL_FILE)
        return;
    if (s->form == JOURNAL_PACKED)
        j->pack_end = MAX_OF(j->pack_end, s->e.blob - 1 + s->e.size);
    else if (s->form != JOURNAL_SPOOLED)
        j->last_blob = MAX_OF(j->last_blob, s->e.blob);
    if (s->e.blob)
        j->stored_bytes += s->e.size;
    else if (s->e.named)
        j->named++;
    else
        j->not_stored++;
}

/* -- opening and adding --------------------------------------------------------------------------------------------------- */

void journal_close(struct journal *j) {
    if (!j)
        return;
    for (size_t i = 0; i < j->n; i++)
        free(j->slots[i]);
    free(j->slots);
    free(j->table);
    free(j->loaded);
    free(j->packing);
    free(j->spool.data);
    closep(&j->spool.fd);
    buf_done(&j->record);
    buf_done(&j->path);
    buf_done(&j->link);
    buf_done(&j->xattrs);
    closep(&j->dir);
    closep(&j->file);
    closep(&j->base);
    closep(&j->pack);
    free(j);
}

void journal_closep(struct journal **j) {
    journal_close(*j);
}

/* Nothing after the first record that is not whole can be trusted: a crash was here. */
static int load_records(struct journal *j, size_t len) {
    for (size_t at = JOURNAL_MAGIC_LEN;;) {
        struct journal_slot *s;
        struct journal_entry e;
        enum journal_form form;
        size_t used = journal_decode(j->loaded + at, len - at, &e, &form);

        j->end = at;
        if (used == 0)
            return 0;
        at += used;
        if (journal_lookup(j, e.path, journal_hash(j, e.path)))
            continue; /* the first counts: it is the oldest */
        s = calloc(1, sizeof *s);
        if (!s || journal_reserve(j) < 0) {
            free(s);
            return -ENOMEM;
        }
        *s = (struct journal_slot){.e = e, .hash = journal_hash(j, e.path), .form = form};
        journal_insert(j, s);
    }
}

static int load_journal(struct journal *j) {
    struct stat st;
    ssize_t n;

    if (fstat(j->file, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    if (st.st_size > JOURNAL_SIZE_MAX)
        return -EFBIG;
    j->loaded = malloc((size_t)st.st_size + 1);
    n = j->loaded ? fd_read_full(j->file, j->loaded, (size_t)st.st_size) : -ENOMEM;
    if (n < 0)
        return (int)n;
    j->old = n >= JOURNAL_MAGIC_LEN && memcmp(j->loaded, JOURNAL_MAGIC_1, JOURNAL_MAGIC_LEN) == 0;
    if (!j->old && memcmp(j->loaded, JOURNAL_MAGIC, MIN_OF((size_t)n, JOURNAL_MAGIC_LEN)) != 0)
        return -EBADMSG;
    return n < JOURNAL_MAGIC_LEN ? 0 : load_records(j, (size_t)n);
}

/* What follows the last whole record would hide all that is written after it. */
static int begin_writing(struct journal *j) {
    int r;

    if (ftruncate(j->file, (off_t)j->end) < 0)
        return -errno;
    if (j->end > 0)
        return 0;
    if (lseek(j->file, 0, SEEK_SET) < 0)
        return -errno;
    r = fd_write_all(j->file, JOURNAL_MAGIC, JOURNAL_MAGIC_LEN);
    j->end = r == 0 ? JOURNAL_MAGIC_LEN : 0;
    return r;
}

static int open_files(struct journal *j, int dir) {
    const int how = j->write ? O_RDWR | O_CREAT : O_RDONLY;
    int r;

    j->dir = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    j->file = j->dir < 0 ? -1 : openat(dir, JOURNAL_FILE_NAME, how | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (j->file < 0)
        return -errno;
    if (getrandom(&j->key, sizeof j->key, 0) != (ssize_t)sizeof j->key)
        return -errno;
    j->key >>= 3;              /* below the prime */
    r = journal_spool_find(j); /* before the journal, into which it may be taken over in this moment */
    r = r < 0 ? r : load_journal(j);
    if (r == 0 && !j->write && j->pack_end > 0)
        journal_open_pack(j);
    r = r == 0 && j->write ? begin_writing(j) : r;
    return r < 0 ? r : journal_spool_load(j);
}

int journal_open(int dir, bool write, const struct journal_opts *opts, struct journal **ret, struct err *err) {
    CLEANUP(journal_closep) struct journal *j = malloc(sizeof *j);
    int r;

    if (!j)
        return err_oom(err);
    *j = (struct journal){.dir = -1,
                          .file = -1,
                          .base = -1,
                          .pack = -1,
                          .spool.fd = -1,
                          .write = write,
                          .opts = opts ? *opts : (struct journal_opts){0},
                          .record = BUF_INIT(JOURNAL_RECORD_MAX + 64),
                          .path = BUF_INIT(JOURNAL_PATH_MAX),
                          .link = BUF_INIT(JOURNAL_PATH_MAX),
                          .xattrs = BUF_INIT(XATTRS_MAX)};
    r = open_files(j, dir);
    if (r < 0)
        return err_sys(err, r, "open the journal of the run");
    *ret = TAKE_PTR(j);
    return 0;
}

static struct journal_slot *make_slot(const struct journal *j, const struct journal_entry *e) {
    size_t path = strlen(e->path) + 1, link = e->link ? strlen(e->link) + 1 : 0;
    struct journal_slot *s = malloc(sizeof *s + path + link + e->xattrs_len);
    char *at;

    if (!s)
        return NULL;
    *s = (struct journal_slot){
        .e = *e, .hash = journal_hash(j, e->path), .form = e->named && !j->old ? JOURNAL_NAMED : JOURNAL_COPIED};
    at = s->bytes;
    s->e.path = memcpy(at, e->path, path);
    if (link)
        s->e.link = memcpy(at + path, e->link, link);
    if (e->xattrs_len)
        s->e.xattrs = memcpy(at + path + link, e->xattrs, e->xattrs_len);
    s->e.mode &= 07777;
    s->e.blob = 0;
    return s;
}

/* All or nothing: half a record would hide those after it. */
static int append_record(struct journal *j, const struct journal_slot *s) {
    ssize_t n;

    buf_clear(&j->record);
    journal_encode(&s->e, s->form, &j->record);
    if (!buf_ok(&j->record))
        return -ENOMEM;
    if (j->end + j->record.len > JOURNAL_SIZE_MAX)
        return -ENOSPC;
    do
        n = pwrite(j->file, j->record.data, j->record.len, (off_t)j->end);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)j->record.len) {
        j->end += j->record.len;
        return 0;
    }
    n = n < 0 ? -errno : -ENOSPC;
    return ftruncate(j->file, (off_t)j->end) < 0 ? -EIO : (int)n;
}

static bool is_sound_entry(const struct journal_entry *e) {
    if (e->kind > JOURNAL_OTHER || !journal_is_path(e->path, strlen(e->path)) || e->xattrs_len > XATTRS_MAX)
        return false;
    if ((e->kind == JOURNAL_LINK) != (e->link != NULL) || (e->named && e->kind != JOURNAL_FILE && e->kind != JOURNAL_DIR))
        return false;
    return !e->link || (e->link[0] && strlen(e->link) <= JOURNAL_PATH_MAX);
}

/* Where the content of a new record is: a file, or memory. */
struct journal_source {
    int fd; /* -1: none */
    bool keep_inode;
    int host_dir;
    const char *bytes; /* NULL: none */
};

static int add_from(struct journal *j, const struct journal_entry *e, const struct journal_source *from, struct err *err) {
    CLEANUP(freep) struct journal_slot *s = NULL;
    bool keep = e->kind == JOURNAL_FILE && !e->named;
    int r;

    if (!j->write || !is_sound_entry(e))
        return err_set(err, -EINVAL, "'%s' cannot be recorded", e->path);
    if (journal_lookup(j, e->path, journal_hash(j, e->path)))
        return 0;
    s = make_slot(j, e);
    r = s ? journal_reserve(j) : -ENOMEM;
    if (r == 0 && from->fd >= 0 && keep)
        r = journal_keep(j, from->fd, from->keep_inode, from->host_dir, &s->e, &s->form);
    else if (r == 0 && from->bytes && keep)
        r = journal_keep_bytes(j, from->bytes, &s->e, &s->form);
    if (r == 0) {
        r = append_record(j, s);
        if (r < 0)
            journal_unkeep(j, s);
    }
    if (r < 0)
        return err_sys(err, r, "record what '%s' was", e->path);
    journal_insert(j, TAKE_PTR(s));
    return 1;
}

int journal_add(struct journal *j, const struct journal_entry *e, int content, bool keep_inode, int host_dir, struct err *err) {
    return add_from(j, e, &(struct journal_source){.fd = content, .keep_inode = keep_inode, .host_dir = host_dir}, err);
}

int journal_add_bytes(struct journal *j, const struct journal_entry *e, const char *content, struct err *err) {
    return add_from(j, e, &(struct journal_source){.fd = -1, .bytes = content}, err);
}

const struct journal_entry *journal_find(const struct journal *j, const char *path) {
    const struct journal_slot *s = journal_lookup(j, path, journal_hash(j, path));

    return s ? &s->e : NULL;
}

size_t journal_count(const struct journal *j) {
    return j->n;
}

const struct journal_entry *journal_at(const struct journal *j, size_t i) {
    return i < j->n ? &j->slots[i]->e : NULL;
}

size_t journal_named(const struct journal *j) {
    return j->named;
}

size_t journal_not_stored(const struct journal *j) {
    return j->not_stored;
}
