/* SPDX-License-Identifier: Apache-2.0 */
/* Who the user of an image is, by the image's own passwd and group. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "image/image_layer.h"
#include "image/pull.h"
#include "os/fd.h"

/* As much as there is room for, up to the end of a line. */
static int read_table(const int *layers, size_t n, const char *path, char **ret) {
    CLEANUP(closep) int fd = layers_open_file(layers, n, path);
    char *text = calloc(1, IMAGE_PASSWD_MAX + 1), *last;
    ssize_t got = !text || fd < 0 ? 0 : fd_read_full(fd, text, IMAGE_PASSWD_MAX);

    if (!text)
        return -ENOMEM;
    text[MAX_OF(got, 0)] = 0;
    last = strrchr(text, '\n');
    if (got == IMAGE_PASSWD_MAX && last)
        last[1] = 0;
    for (char *c = text; !str_is_utf8(text) && *c; c++) /* it goes into JSON */
        *c = *c & 0x80 ? '?' : *c;
    *ret = text;
    return 0;
}

/* Field `at` of a line, between colons. */
static bool field_of(const char *line, unsigned at, const char **ret, size_t *ret_len) {
    for (; at; at--) {
        line += strcspn(line, ":\n");
        if (*line++ != ':')
            return false;
    }
    *ret = line;
    *ret_len = strcspn(line, ":\n");
    return true;
}

static bool number_of(const char *p, size_t len, uint64_t *ret) {
    char text[12];

    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, p, len);
    text[len] = 0;
    return parse_u64(text, 0, UINT32_MAX - 1, ret, NULL) == 0;
}

/* The line whose name is `who`, or whose number in field 2 is `id`. */
static const char *find_line(const char *table, const char *who, size_t len, const uint64_t *id) {
    for (const char *line = table; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *f;
        size_t n;
        uint64_t v;

        if (id ? field_of(line, 2, &f, &n) && number_of(f, n, &v) && v == *id
               : field_of(line, 0, &f, &n) && n == len && strncmp(f, who, len) == 0)
            return line;
    }
    return NULL;
}

static int id_of(const char *table, const char *what, const char *who, size_t len, uint64_t *ret, struct err *err) {
    const char *line, *f;
    size_t n;

    if (number_of(who, len, ret))
        return 0;
    line = find_line(table, who, len, NULL);
    if (line && field_of(line, 2, &f, &n) && number_of(f, n, ret))
        return 0;
    return err_set(err, -ENOENT, "the image's %s '%.*s' is not in its /etc", what, (int)MIN_OF(len, 100), who);
}

int pull_user(const int *layers, size_t n, const char *user, struct image_info *i, struct err *err) {
    size_t len = strcspn(user, ":");
    const char *line, *f;
    size_t f_len;
    int r = read_table(layers, n, "etc/passwd", &i->passwd);

    r = r < 0 ? r : read_table(layers, n, "etc/group", &i->group);
    if (r < 0)
        return err_oom(err);
    if (len) {
        r = id_of(i->passwd, "user", user, len, &i->uid, err);
        line = r < 0 ? NULL : find_line(i->passwd, NULL, 0, &i->uid);
        if (line && field_of(line, 3, &f, &f_len))
            number_of(f, f_len, &i->gid);
    }
    if (r == 0 && user[len] == ':' && user[len + 1])
        r = id_of(i->group, "group", user + len + 1, strlen(user + len + 1), &i->gid, err);
    return r;
}
