/* SPDX-License-Identifier: Apache-2.0 */
/* Decides between one id and several. */
#include "ops/run/run_ids.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "engine/engine.h"
#include "ops/run/run_prepare.h"
#include "os/fd.h"
#include "os/user/idspace.h"

/* What is written to folders of the user's own must stay the user's. NULL: nothing is in the way. */
static const char *shares_folders(const struct run_prepared *p) {
    const struct settings *s = &p->settings;

    if (settings_workspace_mode(s) == WORKSPACE_DIRECT)
        return "the workspace is the host's own folder (use -w overlay, sync, worktree or ro)";
    for (size_t i = 0; i < s->n_mounts; i++)
        if (s->mounts[i].writable)
            return "there is a writable mount (show it read-only)";
    if (s->workspace.volumes.len)
        return "there are volumes in the workspace";
    return p->request->agent ? "an agent's folder is shared between runs" : NULL;
}

static const char *why_no_ranges(int r) {
    switch (r) {
    case -ENOENT:
        return "you have no range of ids in /etc/subuid and /etc/subgid (see subuid(5))";
    case -ENOEXEC:
        return "newuidmap or newgidmap is not installed (package uidmap)";
    case -EPERM:
        return "newuidmap or newgidmap refuses to map your range (is it set-user-ID?)";
    case -EINVAL:
        return "your line in /etc/subuid or /etc/subgid is not understood";
    default:
        return "/etc/subuid or /etc/subgid cannot be read";
    }
}

/* In a folder that was made to be shown to the user nothing may belong to others; where the mode was not chosen it is one where nothing does. */
static int choose_mode(struct settings *s) {
    if (s->system_ids != SYSTEM_IDS_MANY || !str_eq(s->origin[SETTING_WORKSPACE_MODE], "built-in") ||
        settings_workspace_mode(s) != WORKSPACE_DIRECT)
        return 0;
    s->workspace.mode = WORKSPACE_OVERLAY;
    return strv_add(&s->notes, "--system-ids many: changes to the workspace wait for 'bawn apply'");
}

/* newuidmap may be there and refuse, as in a container whose image lost its set-user-ID bit. */
static int try_ranges(void) {
    CLEANUP(closep) int fd = -1;
    struct id_map map;
    int r = geteuid() == 0 ? 1 : idspace_own(&map);

    if (r != 0)
        return MIN_OF(r, 0);
    fd = idspace_make(&map, false);
    return fd < 0 ? -EPERM : 0;
}

int run_ids(struct run_prepared *p, struct err *err) {
    struct settings *s = &p->settings;
    const bool many = s->system_ids == SYSTEM_IDS_MANY;
    const char *why;
    int r;

    if (s->system_view != SYSTEM_WRITABLE || s->system_ids == SYSTEM_IDS_ONE)
        return 0;
    if (choose_mode(s) < 0)
        return err_oom(err);
    why = shares_folders(p);
    if (why)
        return many ? err_set(err, -EOPNOTSUPP, "--system-ids many: %s; or use --system-ids one", why) : 0;
    r = idspace_ranges(&p->input.more.uids, &p->input.more.gids);
    r = r < 0 || many ? r : try_ranges(); /* with `many` the start says why it fails */
    if (r == -ENOMEM)
        return err_oom(err);
    if (r < 0)
        p->input.more.uids = p->input.more.gids = (struct id_range){0};
    if (r < 0 && many)
        return err_set(err, -EOPNOTSUPP, "--system-ids many: %s; or use --system-ids one", why_no_ranges(r));
    if (r < 0 && r != -ENOENT && strv_addf(&s->notes, "one id inside: %s", why_no_ranges(r)) < 0)
        return err_oom(err);
    return 0;
}
