/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a command on the host. */
#include "ops/tools/tool_where.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/own.h"
#include "jail/plan/plan_tools.h"
#include "ops/notice.h"

enum { HINT_MAX = 8 * PATH_MAX };

/* Where a shell would find it, were it not for the folders that the sandbox has, too. */
static bool find_command(const char *name, const char *workspace, char path[static PATH_MAX]) {
    const char *rest = paths_getenv(environ, "PATH");

    for (size_t len; rest && *rest; rest += len + (rest[len] == ':')) {
        struct stat st;

        len = strcspn(rest, ":");
        if (*rest != '/' || (size_t)snprintf(path, PATH_MAX, "%.*s/%s", (int)len, rest, name) >= PATH_MAX || plan_shows(path) ||
            (workspace && path_holds(workspace, path)))
            continue;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

void tool_say_missing(const struct notice *n, const char *name, const char *workspace, const char *sandbox) {
    CLEANUP(buf_done) struct buf how = BUF_INIT(HINT_MAX);
    char path[PATH_MAX];

    if (strchr(name, '/') || !find_command(name, workspace, path)) {
        notice_say(n, "%s: command not found inside the sandbox", name);
        return;
    }
    if (sandbox)
        buf_addf(&how, "'bawn stop %s' and 'bawn start %s --mount ", sandbox, sandbox);
    else
        buf_adds(&how, "--mount ");
    buf_add_shell(&how, path);
    notice_say(
        n,
        "%s: command not found inside the sandbox: the host has it at %s, which the sandbox does not see; bring it in with %s%s",
        name, path, buf_str(&how), sandbox ? "'" : "");
}
