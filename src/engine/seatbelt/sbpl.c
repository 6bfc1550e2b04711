/* SPDX-License-Identifier: Apache-2.0 */
/* The profile: what every run has, then what this one has, then what is taken away. */
#include "engine/seatbelt/sbpl.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"

void sbpl_quote(struct buf *out, const char *text) {
    buf_addc(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_addc(out, '\\');
        buf_addc(out, *text);
    }
    buf_addc(out, '"');
}

char *sbpl_real_path(const char *path) {
    static const char *const links[] = {"/tmp", "/var", "/etc"};

    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (str_eq(path, links[i]) || str_below(path, links[i]))
            return str_dupf("/private%s", path);
    return strdup(path);
}

/* Each line with its reason. What is not here is denied: the keychain, other programs' services, name look-ups, the rest of the disk. */
static const char always[] =
    "(version 1)\n"
    "(deny default)\n"
    "\n; programs, and what they say to each other inside\n"
    "(allow process-fork)\n"
    "(allow process-info* (target same-sandbox))\n"
    "(allow signal (target same-sandbox))\n"
    "(allow ipc-posix-sem)\n"
    "\n; the system, without the keychains of the machine\n"
    "(allow file-read* process-exec* file-map-executable\n"
    "  (subpath \"/usr\") (subpath \"/bin\") (subpath \"/sbin\") (subpath \"/System\")\n"
    "  (subpath \"/Library\") (subpath \"/opt\") (subpath \"/Applications/Xcode.app\"))\n"
    "(deny file-read* (subpath \"/Library/Keychains\") (subpath \"/Library/Preferences\")\n"
    "  (subpath \"/Library/Application Support\") (subpath \"/Library/Logs\") (subpath \"/System/Volumes\"))\n"
    "(allow file-read* (literal \"/\") (literal \"/private/etc/hosts\") (literal \"/private/etc/passwd\")\n"
    "  (literal \"/private/etc/group\") (literal \"/private/etc/protocols\") (literal \"/private/etc/services\")\n"
    "  (literal \"/private/etc/shells\") (literal \"/private/etc/localtime\") (subpath \"/private/etc/ssl\")\n"
    "  (subpath \"/private/var/db/timezone\") (subpath \"/private/var/select\"))\n"
    "; names on the way to a file, not what is in folders\n"
    "(allow file-read-metadata (literal \"/Users\") (literal \"/private\") (literal \"/private/etc\")\n"
    "  (literal \"/private/var\") (literal \"/private/tmp\") (literal \"/etc\") (literal \"/tmp\") (literal \"/var\")\n"
    "  (literal \"/Applications\") (literal \"/Volumes\"))\n"
    "\n; devices; a terminal only if it was made inside: the others are the user's own\n"
    "(allow file-read* file-write* file-ioctl (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\")\n"
    "  (literal \"/dev/ptmx\") (literal \"/dev/dtracehelper\"))\n"
    "(allow file-read* (literal \"/dev\") (literal \"/dev/random\") (literal \"/dev/urandom\") (subpath \"/dev/fd\"))\n"
    "(allow pseudo-tty)\n"
    "(allow file-read* file-write* file-ioctl\n"
    "  (require-all (regex \"^/dev/ttys[0-9]+$\") (extension \"com.apple.sandbox.pty\")))\n"
    "\n; what programs ask the kernel about the machine; not kern.proc*, which shows other programs and their variables\n"
    "(allow sysctl-read (sysctl-name \"hw.activecpu\" \"hw.byteorder\" \"hw.cachelinesize\" \"hw.cpufamily\" \"hw.cputype\"\n"
    "  \"hw.cpusubtype\" \"hw.logicalcpu\" \"hw.logicalcpu_max\" \"hw.machine\" \"hw.memsize\" \"hw.model\" \"hw.ncpu\"\n"
    "  \"hw.nperflevels\" \"hw.pagesize\" \"hw.pagesize_compat\" \"hw.physicalcpu\" \"hw.physicalcpu_max\" \"hw.packages\"\n"
    "  \"hw.tbfrequency\" \"hw.vectorunit\" \"kern.argmax\" \"kern.hostname\" \"kern.iossupportversion\" \"kern.maxfilesperproc\"\n"
    "  \"kern.maxproc\" \"kern.ngroups\" \"kern.osproductversion\" \"kern.osrelease\" \"kern.ostype\" \"kern.osvariant_status\"\n"
    "  \"kern.osversion\" \"kern.secure_kernel\" \"kern.usrstack64\" \"kern.version\" \"sysctl.proc_cputype\"\n"
    "  \"security.mac.lockdown_mode_state\" \"vm.loadavg\"))\n"
    "\n; services: names of users and groups, the folder for temporary files, notices of the C library, the log. Neither\n"
    "; securityd (keychain), launchservicesd (starts programs outside), the pasteboard nor trustd (fetches addresses that a\n"
    "; certificate names)\n"
    "(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\")\n"
    "  (global-name \"com.apple.system.opendirectoryd.membership\") (global-name \"com.apple.bsd.dirhelper\")\n"
    "  (global-name \"com.apple.system.notification_center\") (global-name \"com.apple.logd\")\n"
    "  (global-name \"com.apple.system.logger\"))\n"
    "(allow ipc-posix-shm-read-data (ipc-posix-name \"apple.shm.notification_center\"))\n"
    "\n; home and temporary files of the run\n"
    "(allow file-read* file-write* process-exec* file-map-executable (subpath (param \"BAWN_HOME\")) (subpath (param \"BAWN_TMP\")))\n";

static void add_paths(struct buf *out, const char *kind, const char *path) {
    buf_addf(out, " (%s ", kind);
    sbpl_quote(out, path);
    buf_addc(out, ')');
}

/* getcwd(3) and realpath(3) look at every folder on the way. */
static int add_ancestors(struct buf *out, const char *path) {
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        CLEANUP(freep) char *up = strndup(path, (size_t)(slash - path));

        if (!up)
            return -ENOMEM;
        add_paths(out, "literal", up);
    }
    return 0;
}

static int add_folder(struct buf *out, const char *path, bool writable) {
    CLEANUP(freep) char *real = sbpl_real_path(path);
    CLEANUP(buf_done) struct buf ways = BUF_INIT(SBPL_MAX);

    if (!real || add_ancestors(&ways, real) < 0)
        return -ENOMEM;
    if (ways.len)
        buf_addf(out, "(allow file-read-metadata%s)\n", buf_str(&ways));
    buf_addf(out, "(allow file-read* process-exec* file-map-executable%s", writable ? " file-write*" : "");
    add_paths(out, "subpath", real);
    buf_adds(out, ")\n");
    if (writable) { /* moved away, it would be free of the rules below */
        buf_adds(out, "(deny file-write-unlink file-write-mode file-write-owner");
        add_paths(out, "literal", real);
        buf_adds(out, ")\n");
    }
    return 0;
}

static int add_list(struct buf *out, const struct strv *list, bool writable) {
    int r = 0;

    for (size_t i = 0; list && r == 0 && i < list->len; i++)
        r = add_folder(out, list->v[i], writable);
    return r;
}

int sbpl_make(const struct sbpl_policy *p, struct buf *ret, struct err *err) {
    CLEANUP(freep) char *real = sbpl_real_path(p->workspace);
    int r;

    buf_adds(ret, "; Written by bawn. Not run on a Mac yet: docs/macos.md\n");
    buf_adds(ret, always);
    if (p->network)
        buf_adds(ret, "\n; the gate, and nothing else: it looks names up, too\n"
                      "(allow network-outbound (remote ip (param \"BAWN_GATE\")))\n"
                      "(allow system-socket)\n");
    buf_adds(ret, "\n; the workspace, and what is mounted\n");
    r = !real ? -ENOMEM : add_list(ret, p->readable, false);
    r = r < 0 ? r : add_list(ret, p->changeable, true);
    r = r < 0 ? r : add_folder(ret, p->workspace, p->writable);
    if (r < 0 || str_eq(real, "/"))
        return r < 0 ? err_oom(err) : err_set(err, -EINVAL, "the whole disk cannot be a workspace");
    buf_adds(ret, "\n; what the host would run or obey\n");
    r = sbpl_add_rules(p->protect, real, SBPL_PROTECT, ret, err);
    buf_adds(ret, "\n; hidden files\n");
    r = r < 0 ? r : sbpl_add_rules(p->hide, real, SBPL_HIDE, ret, err);
    buf_adds(ret, "\n; for the whole disk\n(deny file-write-setugid)\n");
    return r < 0 ? r : buf_ok(ret) ? 0 : err_oom(err);
}
