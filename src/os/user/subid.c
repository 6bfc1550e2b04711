/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ranges of ids. */
#include "os/user/subid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os/file.h"

/* The host's own users and services are below; -1 is no id. */
enum { FIRST_LEAST = 1000, FILE_MOST = 1024 * 1024, LINE_MOST = 256 };

static const char *parse_number(const char *s, char end, uint32_t *ret) {
    uint64_t n = 0;
    const char *from = s;

    for (; *s >= '0' && *s <= '9'; s++)
        if ((n = n * 10 + (uint64_t)(*s - '0')) > UINT32_MAX)
            return NULL;
    if (s == from || *s != end)
        return NULL;
    *ret = (uint32_t)n;
    return s + 1;
}

/* The text after the user, if the line is the user's; NULL: it is another's. */
static const char *of_user(const char *line, const char *name, uid_t uid) {
    const char *colon = strchr(line, ':');
    size_t n = colon ? (size_t)(colon - line) : 0;
    char number[16];
    int len = snprintf(number, sizeof number, "%u", uid);

    if (!colon)
        return NULL;
    if ((name && strlen(name) == n && memcmp(line, name, n) == 0) || ((size_t)len == n && memcmp(line, number, n) == 0))
        return colon + 1;
    return NULL;
}

static int parse_range(const char *s, uid_t uid, struct id_range *ret) {
    struct id_range r;

    s = parse_number(s, ':', &r.first);
    s = s ? parse_number(s, 0, &r.n) : NULL;
    if (!s || r.first < FIRST_LEAST || (uint64_t)r.first + r.n >= UINT32_MAX || (uid >= r.first && uid - r.first < r.n))
        return -EINVAL;
    *ret = r;
    return 0;
}

static int take_line(const char *line, const char *name, uid_t uid, struct id_range *best) {
    const char *rest = of_user(line, name, uid);
    struct id_range r;

    if (!rest)
        return 0;
    if (parse_range(rest, uid, &r) < 0)
        return -EINVAL;
    if (r.n > best->n)
        *best = r;
    return 0;
}

int subid_find(const char *text, const char *name, uid_t uid, struct id_range *ret) {
    struct id_range best = {0};
    char line[LINE_MOST];

    for (const char *end; *text; text = *end ? end + 1 : end) {
        size_t n = strcspn(text, "\n");

        end = text + n;
        if (n >= sizeof line) /* no range is as long */
            return -EINVAL;
        memcpy(line, text, n);
        line[n] = 0;
        if (take_line(line, name, uid, &best) < 0)
            return -EINVAL;
    }
    if (best.n < SUBID_LEAST)
        return -ENOENT;
    best.n = MIN_OF(best.n, (uint32_t)SUBID_MOST);
    *ret = best;
    return 0;
}

int subid_read(const char *path, const char *name, uid_t uid, struct id_range *ret) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(FILE_MOST);
    int r = file_read(path, FILE_FOLLOW, &text);

    if (r < 0)
        return r;
    if (memchr(text.data, 0, text.len))
        return -EINVAL;
    return text.len ? subid_find(text.data, name, uid, ret) : -ENOENT;
}
