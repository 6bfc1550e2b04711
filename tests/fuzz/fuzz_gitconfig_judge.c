/* SPDX-License-Identifier: Apache-2.0 */
/* Two configurations, one behind the other with a NUL between: the judge ends, says why it refuses, and takes what does not change. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "workspace/git/gitconfig_judge.h"
#include "workspace/git/gitconfig_plain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool yes(void *arg UNUSED, const char *path) {
    return path[0] != 'x';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct gitconfig_scene scene = {
        .workspace = "/w", .folder = ".git/modules/m", .is_module = true, .is_private = yes, .may_hold = yes};
    const char *old = (const char *)data, *end = size ? memchr(old, 0, size) : NULL, *new = end ? end + 1 : old;
    size_t old_len = end ? (size_t)(end - old) : size, new_len = end ? size - old_len - 1 : size;
    char why[GITCONFIG_WHY_MAX] = "";
    CLEANUP(buf_done) struct buf text = BUF_INIT(4 * GITCONFIG_JUDGED_MAX);
    CLEANUP(buf_done) struct buf same = BUF_INIT(4 * GITCONFIG_JUDGED_MAX);
    int r = gitconfig_judge(&scene, old, old_len, new, new_len, &text, why);

    if (r < 0 && !why[0])
        BUG("a refusal without a reason");
    if (r == 0 && gitconfig_not_plain(buf_str(&text), text.len))
        BUG("what is written is not plain");
    if (!gitconfig_not_plain(old, old_len) && old_len < GITCONFIG_JUDGED_MAX &&
        gitconfig_judge(&scene, old, old_len, old, old_len, &same, why) == -EACCES)
        BUG("what does not change is refused");
    why[0] = 0;
    if (gitconfig_judge_modules(&scene, new, new_len, why) < 0 && !why[0])
        BUG("a refusal without a reason");
    return 0;
}
