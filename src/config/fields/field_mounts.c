/* SPDX-License-Identifier: Apache-2.0 */
/* Extra mounts. Those of several levels add up; the stronger level wins per place inside. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/fields/field.h"

enum { PATH_LEN_MAX = 4095 };

/* "/proc" and everything below it; "/" only itself. */
static bool path_is_in(const char *path, const char *top) {
    size_t n = strlen(top);

    if (str_eq(top, "/"))
        return str_eq(path, "/");
    return strncmp(path, top, n) == 0 && (path[n] == 0 || path[n] == '/');
}

/* Absolute, with "//", "/./" and a final "/" gone, so that the comparisons below cannot be dodged by spelling. */
static int path_clean(const char *text, const char *home, char **ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PATH_LEN_MAX);
    bool tilde = text[0] == '~' && (text[1] == 0 || text[1] == '/');

    if (tilde && !home)
        return err_usage(err, "'%.200s' needs a home folder, and there is none", text);
    if (!tilde && text[0] != '/')
        return err_usage(err, "path '%.200s' must be absolute", text);
    if (tilde)
        buf_adds(&b, home);
    for (const char *p = text + tilde; *p;) {
        size_t n = strcspn(p, "/");

        if (n == 2 && strncmp(p, "..", 2) == 0)
            return err_usage(err, "path '%.200s' must not contain '..'", text);
        if (n > 0 && !(n == 1 && *p == '.')) {
            buf_addc(&b, '/');
            buf_add(&b, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (b.len == 0)
        buf_addc(&b, '/');
    if (!buf_ok(&b))
        return err_usage(err, "path '%.80s...' is longer than %d bytes", text, PATH_LEN_MAX);
    *ret = buf_take(&b);
    return *ret ? 0 : err_oom(err);
}

/* What these hold is the host itself (processes, devices, kernel), or what the sandbox's own walls are made of. */
static const char *const no_source[] = {"/", "/proc", "/sys", "/dev"};
static const char *const no_target[] = {"/",     "/proc", "/sys",   "/dev",   "/usr",   "/bin",
                                        "/sbin", "/lib",  "/lib32", "/lib64", "/libx32"};

static int mount_check(const struct mount_spec *m, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(no_source); i++)
        if (path_is_in(m->from, no_source[i]))
            return err_usage(err, "mounting '%.200s' into a sandbox is not allowed", m->from);
    for (size_t i = 0; i < ARRAY_LEN(no_target); i++)
        if (path_is_in(m->to, no_target[i]))
            return err_usage(err, "mounting over '%.200s' is not allowed", m->to);
    return 0;
}

static void mount_done(struct mount_spec *m) {
    free(m->from);
    free(m->to);
    *m = (struct mount_spec){0};
}

void mounts_done(struct settings *s) {
    for (size_t i = 0; i < s->n_mounts; i++)
        mount_done(&s->mounts[i]);
    free(s->mounts);
}

static struct mount_spec *mount_at(const struct settings *s, const char *to) {
    for (size_t i = 0; i < s->n_mounts; i++)
        if (str_eq(s->mounts[i].to, to))
            return &s->mounts[i];
    return NULL;
}

/* One place inside has one mount: the later one. */
static int mount_put(struct settings *s, const char *from, const char *to, bool writable) {
    struct mount_spec *m = mount_at(s, to);

    if (!m) {
        m = VEC_NEW(s->mounts, s->n_mounts);
        if (!m || str_set(&m->to, to) < 0)
            return -ENOMEM;
    }
    m->writable = writable;
    return str_set(&m->from, from);
}

static int mount_add(struct settings *s, const char *from, const char *to, bool writable, const char *home, struct err *err) {
    CLEANUP(mount_done) struct mount_spec m = {0};
    int r = path_clean(from, home, &m.from, err);

    r = r < 0 ? r : path_clean(to ? to : m.from, home, &m.to, err);
    r = r < 0 ? r : mount_check(&m, err);
    if (r < 0)
        return r;
    if (s->n_mounts >= MOUNTS_MAX)
        return err_usage(err, "more than %d mounts", MOUNTS_MAX);
    return mount_put(s, m.from, m.to, writable) < 0 ? err_oom(err) : 0;
}

static int mount_mode(const char *word, bool *ret_writable) {
    if (!str_eq(word, "ro") && !str_eq(word, "rw"))
        return -EINVAL;
    *ret_writable = str_eq(word, "rw");
    return 0;
}

int mounts_add_text(struct settings *s, const char *text, const char *home, struct err *err) {
    CLEANUP(freep) char *copy = strdup(text);
    char *parts[3] = {0}, *rest = copy;
    bool writable = false;
    size_t n = 0;

    if (!copy)
        return err_oom(err);
    while (rest && n < ARRAY_LEN(parts))
        parts[n++] = strsep(&rest, ":");
    if (n > 1 && mount_mode(parts[n - 1], &writable) == 0)
        n--;
    if (rest || n > 2)
        return err_usage(err, "'%.200s' is not a mount (write FROM[:TO][:ro|rw])", text);
    return mount_add(s, parts[0], n == 2 ? parts[1] : NULL, writable, home, err);
}

int settings_add_mount(struct settings *s, const char *path, struct err *err) {
    return !mount_at(s, path) && mount_put(s, path, path, false) < 0 ? err_oom(err) : 0;
}

/* As written in a file. */
struct mount_text {
    const char *from, *to;
    bool writable;
};

static int read_text(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    *(const char **)slot = json_string_value(v);
    return 0;
}

static int read_mode(struct jsonwalk *w, json_t *v, void *writable, struct err *err) {
    const char *word;
    int r = read_text(w, v, &word, err);

    if (r == 0 && mount_mode(word, writable) < 0)
        return jsonwalk_fail(w, err, "'%.60s' is not known (one of: ro, rw)", word);
    return r;
}

/* One {from, to?, mode?}. */
static int mount_from_json(struct jsonwalk *w, json_t *v, void *settings, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"from", read_text, offsetof(struct mount_text, from)},
                                               {"to", read_text, offsetof(struct mount_text, to)},
                                               {"mode", read_mode, offsetof(struct mount_text, writable)}};
    struct mount_text m = {0};
    int r = jsonwalk_members(w, v, keys, ARRAY_LEN(keys), &m, err);

    if (r < 0)
        return r;
    if (!m.from)
        return jsonwalk_fail(w, err, "key 'from' is missing");
    return jsonwalk_ctx(w, mount_add(settings, m.from, m.to, m.writable, w->home, err), err);
}

static int mounts_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    int r = json_is_array(v) ? jsonwalk_elements(w, v, MOUNTS_MAX, mount_from_json, out, err)
                             : jsonwalk_wrong_type(w, v, "an array of {from, to, mode}", err);

    return r < 0 ? r : out->n_mounts == 0;
}

static bool mount_is_granted(const struct mount_spec *m, const struct settings *by) {
    for (size_t i = 0; i < by->n_mounts; i++)
        if (str_eq(by->mounts[i].from, m->from) && str_eq(by->mounts[i].to, m->to) && by->mounts[i].writable >= m->writable)
            return true;
    return false;
}

static bool mounts_within(const struct field *f, const struct settings *s, const struct settings *than) {
    for (size_t i = 0; i < s->n_mounts; i++)
        if (!mount_is_granted(&s->mounts[i], than))
            return false;
    return true;
}

static int mounts_merge(const struct field *f, struct settings *into, const struct settings *from) {
    for (size_t i = 0; i < from->n_mounts; i++)
        if (mount_put(into, from->mounts[i].from, from->mounts[i].to, from->mounts[i].writable) < 0)
            return -ENOMEM;
    return 0;
}

static int mounts_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    size_t left = 0;

    for (size_t i = 0; i < s->n_mounts; i++) {
        if (mount_is_granted(&s->mounts[i], floor))
            s->mounts[left++] = s->mounts[i];
        else
            mount_done(&s->mounts[i]);
    }
    s->n_mounts = left;
    return 0;
}

static void mounts_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    struct jsonout j = {.to = b};

    buf_addc(b, '[');
    for (size_t i = 0; i < s->n_mounts; i++) {
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "from", s->mounts[i].from);
        jsonout_text(&j, "to", s->mounts[i].to);
        jsonout_text(&j, "mode", s->mounts[i].writable ? "rw" : "ro");
        jsonout_close(&j, '}');
    }
    buf_addc(b, ']');
}

const struct field_type type_mounts = {.from_json = mounts_from_json,
                                       .within = mounts_within,
                                       .merge = mounts_merge,
                                       .clamp = mounts_clamp,
                                       .add_json = mounts_add_json,
                                       .adds_up = true};
