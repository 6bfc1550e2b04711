/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matcher over hostile rules and names. Input: a file of rules, a NUL, then paths, each ended by a NUL.
 * Must hold: a file means the same as its lines added one after the other as files of their own (the index against plain
 * order), below an excluded folder everything is excluded, and a verdict comes with its reason.
 */
#include "base/err.h"
#include "workspace/hide/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A byte order mark counts only at the start of a file, so lines that begin with one cannot be compared. */
static bool add_lines(struct ignore *ig, const char *s, const char *end) {
    for (const char *next; s < end; s = next) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        struct err err = {0};

        next = stop ? stop + 1 : end;
        if ((next - s >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) ||
            ignore_add_file(ig, "", "line", s, (size_t)(next - s), &err) < 0)
            return false;
    }
    return true;
}

static void check_path(const struct ignore *whole, const struct ignore *lines, char *path, bool is_dir) {
    struct ignore_why why;
    enum ignore_verdict v = ignore_explain(whole, path, is_dir, &why);
    char *slash = strrchr(path, '/');

    if (lines && ignore_match(lines, path, is_dir) != v)
        BUG("the index and the order of lines disagree");
    if ((v == IGNORE_NONE) != !why.pattern || (v == IGNORE_REINCLUDED && why.pattern[0] != '!'))
        BUG("a verdict without its reason");
    if (!slash)
        return;
    *slash = 0;
    if (ignore_match(whole, path, true) == IGNORE_EXCLUDED && v != IGNORE_EXCLUDED)
        BUG("something in an excluded folder is not excluded");
    *slash = '/';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(ignore_freep) struct ignore *whole = ignore_new();
    CLEANUP(ignore_freep) struct ignore *lines = ignore_new();
    const char *s = (const char *)data, *end = s + size, *stop = size ? memchr(s, 0, size) : NULL;
    struct err err = {0};
    bool same;

    if (!stop || ignore_add_file(whole, "", "whole", s, (size_t)(stop - s), &err) < 0)
        return 0;
    same = add_lines(lines, s, stop);
    ignore_add_file(whole, "a", "a", s, MIN_OF((size_t)(stop - s), 64), &err);
    ignore_add_file(lines, "a", "a", s, MIN_OF((size_t)(stop - s), 64), &err);
    for (s = stop + 1; s < end; s = stop + 1) {
        char path[512];

        stop = memchr(s, 0, (size_t)(end - s));
        stop = stop ? stop : end;
        snprintf(path, sizeof path, "%.*s", (int)MIN_OF(stop - s, 511), s);
        check_path(whole, same ? lines : NULL, path, false);
        check_path(whole, same ? lines : NULL, path, true);
    }
    return 0;
}
