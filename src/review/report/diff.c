/* SPDX-License-Identifier: Apache-2.0 */
#include "review/report/diff.h"

#include <errno.h>
#include <git2.h>
#include <unistd.h>

#include "base/err.h"
#include "os/file.h"
#include "review/report/escape.h"

static int git_failed(struct err *err, const char *doing) {
    const git_error *e = git_error_last();

    return err_set(err, -EIO, "%s: %s", doing, e && e->message ? e->message : "libgit2 does not say why");
}

int diff_begin(struct err *err) {
    return git_libgit2_init() < 0 ? git_failed(err, "start libgit2") : 0;
}

void diff_end(void) {
    git_libgit2_shutdown();
}

int diff_load(int fd, struct buf *ret) {
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : file_read_fd(fd, FILE_ANY, ret);
}

bool diff_is_binary(const struct buf *content) {
    size_t n = MIN_OF(content->len, (size_t)DIFF_BINARY_LOOK), odd = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)content->data[i];

        if (c == 0)
            return true;
        odd += c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b;
    }
    return odd > n / 32; /* colour codes and form feeds are in many a text */
}

size_t diff_lines(const struct buf *content) {
    size_t n = 0;

    for (const char *p = content->data, *end = p ? p + content->len : p; p && p < end; n++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    return n;
}

struct painter {
    const struct diff_style *style;
    struct buf *b;
    struct diff_count count;
};

static const char *colour_of(char origin) {
    return origin == '+' ? "\033[32m" : origin == '-' ? "\033[31m" : "";
}

static void paint(const struct painter *p, const char *colour, const char *lead, const char *text, size_t len) {
    bool colours = p->style->colour && *colour;

    while (len > 0 && text[len - 1] == '\n')
        len--;
    buf_adds(p->b, colours ? colour : "");
    buf_adds(p->b, lead);
    escape_content(p->b, text, len, p->style->keep_cr);
    buf_adds(p->b, colours ? "\033[m\n" : "\n");
}

static int on_hunk(const git_diff_delta *delta UNUSED, const git_diff_hunk *hunk, void *arg) {
    const struct painter *p = arg;

    if (p->b)
        paint(p, "\033[36m", "", hunk->header, hunk->header_len);
    return 0;
}

static int on_line(const git_diff_delta *delta UNUSED, const git_diff_hunk *hunk UNUSED, const git_diff_line *line, void *arg) {
    struct painter *p = arg;
    char lead[2] = {line->origin, 0};

    p->count.added += line->origin == GIT_DIFF_LINE_ADDITION;
    p->count.removed += line->origin == GIT_DIFF_LINE_DELETION;
    if (!p->b)
        return 0;
    switch (line->origin) {
    case GIT_DIFF_LINE_CONTEXT:
    case GIT_DIFF_LINE_ADDITION:
    case GIT_DIFF_LINE_DELETION:
        paint(p, colour_of(line->origin), lead, line->content, line->content_len);
        break;
    default: /* one of the three that say the file has no newline at its end */
        buf_adds(p->b, "\\ No newline at end of file\n");
    }
    return 0;
}

int diff_hunks(const struct buf *old_, const struct buf *new_, const struct diff_style *style, struct buf *b,
               struct diff_count *ret, struct err *err) {
    git_diff_options opts = GIT_DIFF_OPTIONS_INIT;
    struct painter p = {.style = style, .b = b};

    if (diff_lines(old_) > DIFF_LINES_MAX || diff_lines(new_) > DIFF_LINES_MAX)
        return err_set(err, -EFBIG, "more than %d lines", (int)DIFF_LINES_MAX);
    opts.flags = GIT_DIFF_FORCE_TEXT;
    opts.max_size = -1;
    if (git_diff_buffers(buf_str(old_), old_->len, NULL, buf_str(new_), new_->len, NULL, &opts, NULL, NULL, on_hunk, on_line,
                         &p) < 0)
        return git_failed(err, "compare two versions");
    if (b && !buf_ok(b))
        return err_set(err, -EFBIG, "the diff is too large");
    *ret = p.count;
    return 0;
}

/* -- three-way merge ------------------------------------------------------------------------------------------------------ */

static bool too_much(const struct buf *b) {
    return diff_is_binary(b) || diff_lines(b) > DIFF_LINES_MAX;
}

static git_merge_file_input input_of(const struct buf *b, const char *name) {
    git_merge_file_input in = GIT_MERGE_FILE_INPUT_INIT;

    in.ptr = buf_str(b);
    in.size = b->len;
    in.path = name;
    in.mode = 0100644;
    return in;
}

int diff_merge(const struct buf *base, const struct buf *ours, const struct buf *theirs, struct buf *ret, struct err *err) {
    git_merge_file_input b = input_of(base, "base"), o = input_of(ours, "workspace"), t = input_of(theirs, "run");
    git_merge_file_options opts = GIT_MERGE_FILE_OPTIONS_INIT;
    git_merge_file_result result = {0};
    int r;

    if (too_much(base) || too_much(ours) || too_much(theirs))
        return 1;
    if (git_merge_file(&result, &b, &o, &t, &opts) < 0)
        return err_set(err, -EIO, "merge three versions: %s", git_error_last() ? git_error_last()->message : "no reason given");
    r = result.automergeable ? 0 : 1;
    if (r == 0)
        buf_add(ret, result.ptr, result.len);
    git_merge_file_result_free(&result);
    return buf_ok(ret) ? r : err_set(err, -EFBIG, "the merged file is larger than %zu bytes", ret->ceiling);
}
