/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of images: opening, finding, listing, adding. */
#include "image/image_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "image/store_priv.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"

enum { ID_DIGITS_MIN = 8 };

static const struct json_field ref_fields[] = {
    JSON_VERSION("version", 1),
    JSON_STRING_OF("name", struct image_ref, name, 0),
    JSON_STRING_OF("id", struct image_ref, id, 0),
    JSON_U64("pulled_ns", struct image_ref, pulled_ns),
};
static const struct json_table ref_table = {ref_fields, ARRAY_LEN(ref_fields)};

void image_ref_done(struct image_ref *r) {
    free(r->name);
    free(r->id);
    *r = (struct image_ref){0};
}

/* -- opening ------------------------------------------------------------------------------------------------------------ */

static int open_part(int store, const char *name, bool make, int *ret) {
    if (make && mkdirat(store, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    *ret = openat(store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? -errno : 0;
}

int image_store_open(char *const *environ_, const char *home, bool make, struct image_store *ret, struct err *err) {
    CLEANUP(image_store_done) struct image_store s = IMAGE_STORE_INIT;
    const struct {
        const char *name;
        int *fd;
    } parts[] = {{"layers", &s.layers}, {"configs", &s.configs}, {"refs", &s.refs}, {"partial", &s.partial}, {"pulls", &s.pulls}};
    int r = paths_state(environ_, home, "images", &s.path, err);

    if (r < 0)
        return r;
    if (!s.path)
        return err_usage(err, "neither XDG_STATE_HOME nor HOME is set: there is no place for images");
    if (!make && access(s.path, F_OK) < 0 && errno == ENOENT)
        return -ENOENT; /* no error of its own: an empty store */
    s.fd = r = paths_open_own(s.path, make, "they could change the programs of your images", err);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(parts); i++)
        if ((r = open_part(s.fd, parts[i].name, make, parts[i].fd)) < 0 && !(r == -ENOENT && !make))
            err_sys(err, r, "open '%s/%s'", s.path, parts[i].name);
    if (r < 0)
        return r;
    *ret = TAKE(s, (struct image_store)IMAGE_STORE_INIT);
    return 0;
}

void image_store_done(struct image_store *s) {
    int fds[] = {s->fd, s->layers, s->configs, s->refs, s->partial, s->pulls};

    fd_close_all(fds, ARRAY_LEN(fds));
    free(s->path);
    *s = (struct image_store)IMAGE_STORE_INIT;
}

int image_store_lock(const struct image_store *s, bool alone, struct err *err) {
    while (flock(s->fd, alone ? LOCK_EX : LOCK_SH) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "lock '%s'", s->path);
    return 0;
}

void image_store_unlock(const struct image_store *s) {
    flock(s->fd, LOCK_UN);
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

static void file_name(const char *hex, char ret[static STORE_NAME_SIZE]) {
    snprintf(ret, STORE_NAME_SIZE, "%.64s.json", hex);
}

void store_ref_file(const char *name, char ret[static STORE_NAME_SIZE]) {
    char hex[SHA256_HEX_SIZE];

    sha256_hex(name, strlen(name), hex);
    file_name(hex, ret);
}

void store_config_file(const char *id, char ret[static STORE_NAME_SIZE]) {
    file_name(oci_digest_hex(id), ret);
}

int store_read_ref(const struct image_store *s, const char *file, struct image_ref *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(64 * 1024);
    int r = file_read_at(s->refs, file, 0, &text);

    if (r == -ENOENT)
        return r;
    r = r < 0 ? file_err(err, r, file, text.ceiling)
              : json_table_parse(&ref_table, buf_str(&text), text.len, text.ceiling, ret, err);
    if (r == 0 && !oci_digest_ok(ret->id))
        r = err_set(err, -EBADMSG, "no digest");
    return r < 0 ? err_ctx(err, r, "'%s/refs/%s'", s->path, file) : 0;
}

int store_read_config(const struct image_store *s, const char *file, struct image_info *ret, int *ret_fd, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(IMAGE_INFO_MAX);
    CLEANUP(closep) int fd = openat(s->configs, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : file_read_fd(fd, 0, &text);

    if (r == -ENOENT)
        return r;
    r = r < 0 ? file_err(err, r, file, text.ceiling) : image_info_read(buf_str(&text), text.len, ret, err);
    if (r < 0)
        return err_ctx(err, r, "'%s/configs/%s'", s->path, file);
    if (ret_fd)
        *ret_fd = TAKE_FD(fd);
    return 0;
}

char *image_store_layer(const struct image_store *s, const char *chain) {
    return str_dupf("%s/layers/%s/tree", s->path, oci_digest_hex(chain));
}

/* -- finding ------------------------------------------------------------------------------------------------------------ */

/* The only image whose id begins with these digits. 1: none; -EEXIST: several. */
static int find_digits(const struct image_store *s, const char *digits, char ret[static STORE_NAME_SIZE]) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    size_t n = strlen(digits), found = 0;

    if (n < ID_DIGITS_MIN || n > 64 || !hex_is_lower(digits, n))
        return 1;
    dir_open_at(s->configs, ".", &d);
    while ((e = dir_next(&d)))
        if (strncmp(e->d_name, digits, n) == 0 && strlen(e->d_name) < STORE_NAME_SIZE) {
            snprintf(ret, STORE_NAME_SIZE, "%.*s", STORE_NAME_SIZE - 1, e->d_name);
            found++;
        }
    return found == 1 ? 0 : found ? -EEXIST : 1;
}

int store_resolve(const struct image_store *s, const char *wanted, char config[static STORE_NAME_SIZE],
                  char ref_file[static STORE_NAME_SIZE], char **ret_name, struct err *err) {
    CLEANUP(image_ref_done) struct image_ref ref = {0};
    struct oci_ref parsed;
    char name[OCI_NAME_SIZE];
    int r = find_digits(s, str_starts(wanted, "sha256:") ? oci_digest_hex(wanted) : wanted, config);

    ref_file[0] = 0;
    if (r == -EEXIST)
        return err_usage(err, "several images begin with '%.80s'; name more digits", wanted);
    if (r == 0) {
        *ret_name = str_dupf("sha256:%.64s", config);
        return *ret_name ? 0 : err_oom(err);
    }
    r = oci_ref_parse(wanted, &parsed, err);
    if (r < 0)
        return r;
    oci_ref_name(&parsed, name);
    store_ref_file(name, ref_file);
    r = store_read_ref(s, ref_file, &ref, err);
    if (r == -ENOENT)
        return err_set(err, r, "there is no image '%s' in the store: get it with 'bawn image pull %.200s'", name, wanted);
    if (r < 0)
        return r;
    store_config_file(ref.id, config);
    *ret_name = strdup(name);
    return *ret_name ? 0 : err_oom(err);
}

/* A sandbox that is about to start: what is removed at the same moment is not there. Who looks whether it is used has the lock for a moment. */
static int hold_image(int fd, struct err *err) {
    struct stat st;

    while (flock(fd, LOCK_SH) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "lock the image");
    if (fstat(fd, &st) < 0 || st.st_nlink == 0)
        return err_set(err, -ENOENT, "the image is being removed");
    return 0;
}

int image_store_find(const struct image_store *s, const char *wanted, struct image_info *ret, int *ret_lock, char **ret_name,
                     struct err *err) {
    CLEANUP(image_info_done) struct image_info i = {0};
    CLEANUP(freep) char *name = NULL;
    CLEANUP(closep) int fd = -1;
    char config[STORE_NAME_SIZE], ref_file[STORE_NAME_SIZE];
    int r = store_resolve(s, wanted, config, ref_file, &name, err);

    r = r < 0 ? r : store_read_config(s, config, &i, &fd, err);
    if (r == -ENOENT && !err->code)
        return err_set(err, r, "image '%s' is not complete: get it again with 'bawn image pull %.200s'", name, wanted);
    r = r < 0 || !ret_lock ? r : hold_image(fd, err);
    if (r < 0)
        return r;
    *ret = TAKE(i, (struct image_info){0});
    if (ret_lock)
        *ret_lock = TAKE_FD(fd);
    if (ret_name)
        *ret_name = TAKE_PTR(name);
    return 0;
}

/* -- listing ------------------------------------------------------------------------------------------------------------ */

void image_rows_done(struct image_rows *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].name);
        free(l->v[i].id);
        free(l->v[i].arch);
    }
    free(l->v);
    *l = (struct image_rows){0};
}

bool store_in_use(int config_fd) {
    bool used = flock(config_fd, LOCK_EX | LOCK_NB) < 0;

    if (!used)
        flock(config_fd, LOCK_UN);
    return used;
}

static int add_row(const struct image_store *s, const char *config, const struct image_ref *ref, struct image_rows *l,
                   struct err *err) {
    CLEANUP(image_info_done) struct image_info i = {0};
    CLEANUP(closep) int fd = -1;
    int r = store_read_config(s, config, &i, &fd, err);
    struct image_row *row;

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    row = VEC_NEW(l->v, l->n);
    if (!row)
        return err_oom(err);
    *row = (struct image_row){.id = TAKE_PTR(i.id),
                              .arch = TAKE_PTR(i.arch),
                              .name = ref ? strdup(ref->name) : NULL,
                              .bytes = i.bytes,
                              .layers = i.layers.len,
                              .pulled_ns = ref ? ref->pulled_ns : 0,
                              .used = store_in_use(fd)};
    return ref && !row->name ? err_oom(err) : 0;
}

static int compare_rows(const void *a, const void *b) {
    const struct image_row *x = a, *y = b;

    return x->name && y->name ? strcmp(x->name, y->name) : (y->name != NULL) - (x->name != NULL);
}

static bool is_listed(const struct image_rows *l, const char *config) {
    for (size_t i = 0; i < l->n; i++)
        if (strncmp(oci_digest_hex(l->v[i].id), config, 64) == 0)
            return true;
    return false;
}

static int list_locked(const struct image_store *s, struct image_rows *ret, struct err *err) {
    CLEANUP(image_rows_done) struct image_rows l = {0};
    CLEANUP(strv_done) struct strv refs = {0}, configs = {0};
    int r = dir_names(s->refs, ".", &refs);

    r = r < 0 ? r : dir_names(s->configs, ".", &configs);
    if (r < 0)
        return err_sys(err, r, "list '%s'", s->path);
    for (size_t i = 0; r >= 0 && i < refs.len; i++) {
        CLEANUP(image_ref_done) struct image_ref ref = {0};
        char config[STORE_NAME_SIZE];

        if (refs.v[i][0] == '.' || (r = store_read_ref(s, refs.v[i], &ref, err)) < 0)
            r = r == -ENOENT ? 0 : r;
        else {
            store_config_file(ref.id, config);
            r = add_row(s, config, &ref, &l, err);
        }
    }
    for (size_t i = 0; r >= 0 && i < configs.len; i++)
        if (configs.v[i][0] != '.' && !is_listed(&l, configs.v[i]))
            r = add_row(s, configs.v[i], NULL, &l, err);
    if (r < 0)
        return r;
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, compare_rows);
    *ret = TAKE(l, (struct image_rows){0});
    return 0;
}

/* Two that look at once would take each other for a sandbox. */
int image_store_list(const struct image_store *s, struct image_rows *ret, struct err *err) {
    int r = image_store_lock(s, true, err);

    r = r < 0 ? r : list_locked(s, ret, err);
    image_store_unlock(s);
    return r;
}

/* -- adding ------------------------------------------------------------------------------------------------------------- */

static int add_layer(const struct image_store *s, int staging, const char *chain, struct err *err) {
    const char *hex = oci_digest_hex(chain);
    struct stat st;

    if (fstatat(s->layers, hex, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (staging < 0 || fstatat(staging, hex, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, -EAGAIN, "a layer of the image was removed meanwhile; try again");
    if (renameat(staging, hex, s->layers, hex) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        return err_sys(err, -errno, "put a layer into the store");
    return 0;
}

static int publish_json(int dir, const char *file, const struct buf *text, bool once, struct err *err) {
    int r = file_replace_at(dir, file, 0600, once ? FILE_NEW : 0, buf_str(text), text->len);

    return r < 0 && !(once && r == -EEXIST) ? err_sys(err, r, "write '%s' into the store", file) : 0;
}

static int add_files(const struct image_store *s, const struct image_info *i, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf config = BUF_INIT(IMAGE_INFO_MAX), ref = BUF_INIT(64 * 1024);
    const struct image_ref r = {(char *)(uintptr_t)name, i->id, clock_mark()};
    char file[STORE_NAME_SIZE];
    int e = image_info_write(i, &config, err);

    e = e < 0 ? e : json_table_write(&ref_table, &r, JSON_COMPACT, &ref, err);
    store_config_file(i->id, file);
    e = e < 0 ? e : publish_json(s->configs, file, &config, true, err);
    store_ref_file(name, file);
    return e < 0 ? e : publish_json(s->refs, file, &ref, false, err);
}

int image_store_add(const struct image_store *s, int staging, const struct image_info *i, const char *name, struct err *err) {
    CLEANUP(closep) int layers = openat(staging, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = image_store_lock(s, false, err);

    for (size_t k = 0; r == 0 && k < i->layers.len; k++)
        r = add_layer(s, layers, i->layers.v[k], err);
    r = r < 0 ? r : add_files(s, i, name, err);
    image_store_unlock(s);
    return r;
}
