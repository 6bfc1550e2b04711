/* SPDX-License-Identifier: Apache-2.0 */
/* bawn: the command line; called as bawn-sh, a shell of the project's sandbox. */
#include "base/str.h"
#include "cli/run/cmd_sh.h"
#include "cli/verb.h"

/* A login shell's name begins with '-'. */
static bool is_shell(const char *name) {
    const char *slash = strrchr(name, '/');

    name = slash ? slash + 1 : name;
    return str_eq(name + (name[0] == '-'), "bawn-sh");
}

int main(int argc, char **argv) {
    if (argc > 0 && is_shell(argv[0]))
        return sh_main(argc, argv);
    return verb_dispatch(argc, argv);
}
