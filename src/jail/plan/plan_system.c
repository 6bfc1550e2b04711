/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a writable system. */
#include "jail/plan/plan_system.h"

#include <string.h>

#include "base/str.h"
#include "base/strv.h"
#include "jail/plan/plan.h"

const char *const plan_system_folders[] = {"/usr", "/opt", PLAN_SYSTEM_DPKG};
const size_t n_plan_system_folders = ARRAY_LEN(plan_system_folders);

/* Where packages and their managers look: sources and keys, defaults of the programs that make users, shells, what `su` needs. Neither auth.conf of apt nor its
 * other configuration (passwords, of proxies, too); sources with a password in them are not copied either (system_fill.c). */
static const char *const etc_of_packages[] = {
    "adduser.conf",
    "apt/keyrings",
    "apt/preferences.d",
    "apt/sources.list",
    "apt/sources.list.d",
    "apt/trusted.gpg",
    "apt/trusted.gpg.d",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "debconf.conf",
    "default/useradd",
    "deluser.conf",
    "dpkg",
    "login.defs",
    "pam.d",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "security/limits.conf",
    "security/pam_env.conf",
    "shells",
    "skel",
    "terminfo",
    "ucf.conf",
};

/* Folders that package managers expect, empty. The first two are for the first two of package_files, which an image has, too. */
static const struct step folders[] = {
    {STEP_DIR, "/etc/apt/apt.conf.d"},
    {STEP_DIR, "/etc/dpkg/dpkg.cfg.d"},
    {STEP_DIR, "/root", .mode = 0700},
    {STEP_DIR, "/run/lock"},
    {STEP_DIR, "/var/cache/apt/archives/partial"},
    {STEP_DIR, "/var/cache/debconf"},
    {STEP_DIR, "/var/cache/ldconfig", .mode = 0700},
    {STEP_DIR, "/var/cache/man"},
    {STEP_DIR, "/var/lib/apt/lists/partial"},
    {STEP_DIR, "/var/lib/systemd"},
    {STEP_DIR, "/var/log/apt"},
    {STEP_DIR, "/var/mail"},
    {STEP_DIR, "/srv"},
    {STEP_DIR, PLAN_EMPTY_DIR},
};

/* dpkg makes a link to what it replaces, which the kernel grants only to the owner of a file. Files of the host belong to its root, whom a user's
 * sandbox does not have: those that packages are about to replace become the copy's own before. */
#define OWN_FILES "/run/bawn/own-files"
static const char own_files[] =
    "#!/bin/sh\n"
    "while read -r package; do\n"
    "    dpkg-deb --fsys-tarfile \"$package\" | tar -t --quoting-style=literal | while read -r file; do\n"
    "        file=/${file#./}\n"
    "        if [ -f \"$file\" ] && [ ! -L \"$file\" ] && [ ! -O \"$file\" ]; then\n"
    "            cp -p \"$file\" \"$file.bawn-own\" && mv -f \"$file.bawn-own\" \"$file\"\n"
    "        fi\n"
    "    done\n"
    "done\n"
    "exit 0\n";

/* apt starts its downloads as another user, and checks that it became that one: there is none. dpkg opens every file once more to wait for the disk, which
 * fails for those whose mode could not be set, and a copy that can be thrown away is not worth it. */
static const struct step package_files[] = {
    {STEP_FILE, "/etc/apt/apt.conf.d/99bawn", "APT::Sandbox::User \"root\";\n", .mode = 0644},
    {STEP_FILE, "/etc/dpkg/dpkg.cfg.d/bawn", "force-unsafe-io\n", .mode = 0644},
    {STEP_FILE, "/etc/apt/apt.conf.d/98bawn", "DPkg::Pre-Install-Pkgs { \"" OWN_FILES "\"; };\n", .mode = 0644},
    {STEP_FILE, OWN_FILES, own_files, .mode = 0755},
};

void plan_system_name(const char *to, char ret[static PLAN_SYSTEM_NAME]) {
    size_t n = 0;

    for (const char *c = to + 1; *c && n < PLAN_SYSTEM_NAME - 1; c++)
        ret[n++] = *c == '/' ? '-' : *c;
    ret[n] = 0;
}

bool plan_system_has(const char *path) {
    return str_index(path, plan_system_folders, n_plan_system_folders) >= 0;
}

void plan_make_system(const struct plan_input *in, struct plan *p) {
    const char *dir = in->system_dir ? in->system_dir : "(folder of the system)";

    plan_add_own(p, (struct step){.kind = STEP_UPPER, .writable = true}, strdup("/"), strdup(dir));
    if (in->image) {
        for (size_t i = 0; i < 2; i++) {
            plan_add(p, folders[i]);
            plan_add(p, package_files[i]);
        }
        return;
    }
    for (size_t i = 0; i < n_plan_system_folders; i++)
        plan_add(p, (struct step){STEP_COW, plan_system_folders[i], plan_system_folders[i], .optional = true, .writable = true});
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        plan_add(p, folders[i]);
    for (size_t i = 0; i < ARRAY_LEN(package_files); i++)
        plan_add(p, package_files[i]);
}

int plan_system_etc(struct strv *ret) {
    int r = plan_etc_paths(ret);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_of_packages); i++)
        r = strv_add(ret, etc_of_packages[i]);
    return r;
}
