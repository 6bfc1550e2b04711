/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and rules of a workspace. */
#include "ops/setup/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/file.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/pin.h"

int setup_settings(const struct setup_config *q, struct settings *ret, struct err *err) {
    const struct settings_flags flags = {.profile = q->profile};
    struct settings_sources src = {.flags = &flags, .agent = q->agent, .environ_ = environ};
    CLEANUP(freep) char *home = NULL, *workspace = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : paths_workspace(q->directory, &workspace, err);
    if (r < 0)
        return r;
    src.home = home;
    src.workspace = workspace;
    return settings_load(&src, ret, err);
}

int setup_open(const char *directory, struct err *err) {
    int dir = open(directory ? directory : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? err_usage(err, "workspace '%s': %s", directory ? directory : ".", strerror(errno)) : dir;
}

int setup_accept_rules(int dir, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *rules = ignore_new();
    CLEANUP(freep) char *home = NULL, *pins = NULL, *workspace = NULL;
    int r = rules ? ignore_scan(rules, dir, NULL, NULL, err) : err_oom(err);

    r = r < 0 ? r : paths_home(environ, &home, err);
    r = r < 0 ? r : pin_folder(environ, home, &pins, err);
    r = r < 0 ? r : paths_of_fd(dir, &workspace, err);
    return r < 0 ? r : pin_accept(pins, workspace, rules, err);
}

/* Whole or not at all: half of the rules would hide half of the secrets. The mode is the umask's, for the team reads it. */
static int publish_rules(int dir, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(DEFAULTS_TEXT_MAX);
    int r;

    defaults_text(&text);
    if (!buf_ok(&text))
        return err_oom(err);
    r = file_replace_at(dir, IGNORE_FILE, 0666, FILE_SYNC | FILE_NEW, text.data, text.len);
    return r < 0 && r != -EEXIST ? err_sys(err, r, "write '" IGNORE_FILE "'") : r;
}

int setup_write_rules(int dir, bool *ret_written, struct err *err) {
    int r = faccessat(dir, IGNORE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST : publish_rules(dir, err);

    *ret_written = r == 0;
    if (r < 0)
        return r == -EEXIST ? 0 : r;
    r = setup_accept_rules(dir, err);
    return r == -ENOENT ? 0 : r; /* without a home the defaults hold, which are the same */
}
