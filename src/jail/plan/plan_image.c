/* SPDX-License-Identifier: Apache-2.0 */
/* The root of a sandbox that has an image. */
#include "jail/plan/plan_image.h"

#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "jail/plan/plan.h"

enum { TABLE_MAX = 256 * 1024 };

static const struct step image_skeleton[] = {
    {STEP_DIR, "/etc"},
    {STEP_DIR, "/dev"},
    {STEP_DIR, "/dev/pts"},
    {STEP_DIR, "/proc"},
    {STEP_DIR, "/run"},
    {STEP_DIR, PLAN_EMPTY_DIR},
    {STEP_DIR, "/sys/devices/system"},
    {STEP_RO, "/sys/devices/system/cpu", "/sys/devices/system/cpu", .optional = true},
    {STEP_SYMLINK, "/dev/fd", "/proc/self/fd"},
    {STEP_SYMLINK, "/dev/stdin", "/proc/self/fd/0"},
    {STEP_SYMLINK, "/dev/stdout", "/proc/self/fd/1"},
    {STEP_SYMLINK, "/dev/stderr", "/proc/self/fd/2"},
    {STEP_SYMLINK, "/dev/ptmx", "pts/ptmx"},
};

void plan_make_image_root(const struct plan_input *in, struct plan *p) {
    for (size_t i = 0; i < in->image->layers->len; i++)
        plan_add_own(p, (struct step){.kind = STEP_LAYER}, strdup("/"), strdup(in->image->layers->v[i]));
    for (size_t i = 0; i < ARRAY_LEN(image_skeleton); i++)
        plan_add(p, image_skeleton[i]);
}

/* Field 2 of a line of passwd or group. */
static bool line_has_id(const char *line, size_t len, unsigned id) {
    const char *first = memchr(line, ':', len), *second = first ? memchr(first + 1, ':', len - (size_t)(first + 1 - line)) : NULL;
    char text[12];
    uint64_t v;
    size_t n;

    if (!second)
        return false;
    n = strcspn(second + 1, ":\n");
    if (n == 0 || n >= sizeof text || second + 1 + n > line + len)
        return false;
    memcpy(text, second + 1, n);
    text[n] = 0;
    return parse_u64(text, 0, UINT32_MAX, &v, NULL) == 0 && v == id;
}

/* The line with this id; its length is in *ret_len. NULL: none. */
static const char *find_id(const char *table, unsigned id, size_t *ret_len) {
    for (const char *line = table; *line; line += *ret_len, line += *line == '\n') {
        *ret_len = strcspn(line, "\n");
        if (line_has_id(line, *ret_len, id))
            return line;
    }
    return NULL;
}

const char *plan_image_user(struct plan *p, const struct plan_image *i) {
    size_t len;
    const char *line = find_id(i->passwd, i->uid, &len);
    size_t n = line ? strcspn(line, ":") : 0;

    return plan_own(p, n && n < 33 ? strndup(line, n) : strdup(i->uid ? "user" : "root"));
}

/* The image's users, of whom the one that the command is has our home: programs ask passwd, not only HOME. */
static char *make_passwd(const struct plan_image *i, const struct plan *p) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TABLE_MAX);
    size_t len;

    buf_addf(&b, "%s:x:%u:%u::%s:/bin/sh\n", p->ids.user, p->ids.inside_uid, p->ids.inside_gid, p->home);
    for (const char *line = i->passwd; *line; line += len, line += *line == '\n') {
        len = strcspn(line, "\n");
        if (len && !line_has_id(line, len, p->ids.inside_uid))
            buf_addf(&b, "%.*s\n", (int)len, line);
    }
    return buf_ok(&b) ? buf_take(&b) : NULL;
}

static char *make_group(const struct plan_image *i, const struct plan *p) {
    size_t len;

    return find_id(i->group, p->ids.inside_gid, &len) ? strdup(i->group)
                                                      : str_dupf("%s:x:%u:\n%s", p->ids.user, p->ids.inside_gid, i->group);
}

void plan_make_image_etc(const struct plan_input *in, struct plan *p) {
    const struct step file = {.kind = STEP_FILE, .mode = 0644};

    plan_add_own(p, file, strdup("/etc/passwd"), make_passwd(in->image, p));
    plan_add_own(p, file, strdup("/etc/group"), make_group(in->image, p));
}
