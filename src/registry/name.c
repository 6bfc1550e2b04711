/* SPDX-License-Identifier: Apache-2.0 */
/* Names and ids of sandboxes. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/clock.h"
#include "registry/registry.h"

enum { SHOWN_MAX = 60, HASH_DIGITS = 6, STEM_MAX = BOX_NAME_MAX - 1 - HASH_DIGITS };

static const char alphanumeric[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

/* As in the name of a branch, which a sandbox in worktree mode has (git-check-ref-format(1)). */
static bool dots_are_fine(const char *name) {
    return !strstr(name, "..") && !str_ends(name, ".") && !str_ends(name, ".lock");
}

int box_check_name(const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(8 * SHOWN_MAX);
    size_t len = strlen(name);
    char cut[SHOWN_MAX + 1];

    if (len > 0 && len <= BOX_NAME_MAX && strspn(name, inner) == len && strchr(alphanumeric, name[0]) && dots_are_fine(name))
        return 0;
    snprintf(cut, sizeof cut, "%s", name);
    buf_add_printable(&shown, cut);
    return err_usage(
        err,
        "'%s%s' is no name for a sandbox: letters, digits, '-', '_' and '.', the first a letter or digit, at most %d "
        "characters; no '..', and neither '.' nor '.lock' at the end",
        buf_str(&shown), len > SHOWN_MAX ? "..." : "", BOX_NAME_MAX);
}

void box_name_for(const char *workspace, char ret[static BOX_NAME_MAX + 1]) {
    const char *slash = strrchr(workspace, '/'), *from = slash ? slash + 1 : workspace;
    char hash[SHA256_HEX_SIZE], stem[STEM_MAX + 1] = "";
    size_t n = 0;

    sha256_hex(workspace, strlen(workspace), hash);
    from += strcspn(from, alphanumeric);
    for (; *from && n < STEM_MAX; from++, n++)
        stem[n] = strchr(inner, *from) && !(*from == '.' && n && stem[n - 1] == '.') ? *from : '-';
    stem[n] = 0;
    snprintf(ret, BOX_NAME_MAX + 1, "%s-%.*s", n ? stem : "sandbox", HASH_DIGITS, hash);
}

void box_make_id(const char *name, char ret[static BOX_ID_MAX + 1]) {
    char stamp[CLOCK_TEXT_SIZE];

    snprintf(ret, BOX_ID_MAX + 1, "bawn-%.*s-%.20s", BOX_NAME_MAX, name, clock_text(clock_mark(), CLOCK_STAMP, stamp));
}
