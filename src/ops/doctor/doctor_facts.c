/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the host. Only reads, opens and closes; what has to be tried for real is native_look()'s. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/str.h"
#include "ops/doctor/doctor.h"
#include "ops/run/run_nested.h"
#include "ops/run/run_prepare.h"
#include "os/fd.h"
#include "os/file.h"

/* musl and older headers may lack the numbers. */
enum { NR_MOUNT_SETATTR = 442, NR_CLOSE_RANGE = 436, NR_CLONE3 = 435, NR_PIDFD_OPEN = 434, NR_FSOPEN = 430, NR_OPENAT2 = 437 };
enum { SMALL_FILE = 4096, SUBID_MAX = 256 * 1024 };

/* A call that does nothing: 0 if the kernel has it, whatever it thinks of the arguments. EPERM may be a filter's. */
static int there(long result) {
    if (result >= 0) {
        close((int)result);
        return 0;
    }
    return errno == ENOSYS ? -ENOSYS : 0;
}

static void look_at_calls(struct doctor_facts *f) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};

    f->calls[CALL_OPENAT2] = there(syscall(NR_OPENAT2, AT_FDCWD, "/", &how, sizeof how));
    f->calls[CALL_CLONE3] = there(syscall(NR_CLONE3, NULL, 0));
    f->calls[CALL_CLOSE_RANGE] = syscall(NR_CLOSE_RANGE, ~0u, ~0u, 0) < 0 ? -errno : 0;
    f->calls[CALL_PIDFD] = there(syscall(NR_PIDFD_OPEN, getpid(), 0));
    f->calls[CALL_MOUNT_API] = there(syscall(NR_FSOPEN, "tmpfs", 1));
    f->calls[CALL_MOUNT_SETATTR] = there(syscall(NR_MOUNT_SETATTR, -1, "", 0, NULL, 0));
}

static void look_at_kernel(struct doctor_facts *f) {
    struct utsname u;

    if (uname(&u) < 0)
        return;
    snprintf(f->release, sizeof f->release, "%s", u.release);
    if (sscanf(u.release, "%u.%u", &f->major, &f->minor) != 2)
        f->major = f->minor = 0;
    file_line(AT_FDCWD, "/sys/kernel/security/lsm", f->lsm, sizeof f->lsm);
}

/* The value of NAME= in the text of os-release, without quotes. */
static void release_value(const char *text, const char *name, char *out, size_t size) {
    size_t len = strlen(name);

    out[0] = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *value = line + len + 1;

        if (strncmp(line, name, len) != 0 || line[len] != '=')
            continue;
        value += *value == '"';
        snprintf(out, size, "%.*s", (int)strcspn(value, "\"\n"), value);
    }
}

static void look_at_distro(struct doctor_facts *f) {
    char text[SMALL_FILE], id[32], version[24];

    f->apt = access("/usr/bin/apt-get", X_OK) == 0;
    f->systemd = access("/run/systemd/system", F_OK) == 0;
    if (fd_read_file_at(AT_FDCWD, "/etc/os-release", text, sizeof text) <= 0)
        return;
    release_value(text, "ID", id, sizeof id);
    release_value(text, "VERSION_ID", version, sizeof version);
    snprintf(f->distro, sizeof f->distro, "%s%s%s", id, *version ? " " : "", version);
}

/* An AppArmor profile for a program that others can replace would be theirs too. */
static bool others_may_replace(const char *path) {
    char part[PATH_MAX];
    struct stat st;

    snprintf(part, sizeof part, "%s", path);
    for (;;) {
        char *slash = strrchr(part, '/');

        if (stat(*part ? part : "/", &st) < 0 || st.st_uid != 0 || (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX)))
            return true;
        if (!slash)
            return false;
        *slash = 0;
    }
}

static void look_at_self(struct doctor_facts *f) {
    ssize_t n = readlink("/proc/self/exe", f->self, sizeof f->self - 1);

    f->self[n > 0 ? n : 0] = 0;
    f->self_by_others = f->self[0] && others_may_replace(f->self);
    f->apparmor_file = access("/etc/apparmor.d/bawn", F_OK) == 0;
}

/* A line "NAME:..." or "UID:..." in /etc/subuid. */
static bool has_subids(const char *path, const char *user, unsigned uid) {
    CLEANUP(freep) char *text = malloc(SUBID_MAX);
    char number[16];

    snprintf(number, sizeof number, "%u", uid);
    if (!text || fd_read_file_at(AT_FDCWD, path, text, SUBID_MAX) <= 0)
        return false;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t len = strcspn(line, ":\n");

        if (line[len] == ':' &&
            ((strlen(user) == len && memcmp(line, user, len) == 0) || (strlen(number) == len && memcmp(line, number, len) == 0)))
            return true;
    }
    return false;
}

static int can_open(int fd) {
    int r = fd < 0 ? -errno : 0;

    closep(&fd);
    return r;
}

static void look_at_devices(struct doctor_facts *f) {
    struct sysinfo info;
    uint64_t scope;

    f->pty = can_open(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    f->kvm = can_open(open("/dev/kvm", O_RDWR | O_CLOEXEC));
    if (sysinfo(&info) == 0)
        f->swap = (uint64_t)info.totalswap * info.mem_unit;
    f->ptrace_scope = file_number(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", NULL, &scope) == 0 && scope <= 3
                          ? (int64_t)scope
                          : SWITCH_ABSENT;
}

/* By the very code that would refuse the run. The user's name is a by-product. */
static void look_at_workspace(struct doctor_facts *f) {
    char name[] = "true", *command[] = {name, NULL};
    const struct run_request request = {.argv = command, .argc = 1, .dry_run = true};
    CLEANUP(plan_done) struct plan plan = {0};
    CLEANUP(run_prepared_done) struct run_prepared p = {0};
    int r = run_prepare(&request, &p, &f->workspace_err);

    r = r < 0 ? r : plan_make(&p.settings, &p.facts, &p.input, RUNG_FULL, &plan, &f->workspace_err);
    f->workspace = r < 0 ? r : 0;
    snprintf(f->workspace_path, sizeof f->workspace_path, "%s", p.facts.workspace ? p.facts.workspace : ".");
    if (p.facts.user)
        snprintf(f->user, sizeof f->user, "%s", p.facts.user);
}

/* Only where it matters: docker and podman may be slow, and leave traces in the user's home. */
static void look_for_better(struct doctor_facts *f) {
    struct engine_state rungs[RUNG_COUNT];
    const struct engine_ops *better;

    native_judge(&f->native, rungs);
    better = rung_has_root(native_best(rungs)) ? NULL : engine_better(rungs[RUNG_LANDLOCK].keeps);
    f->better = better ? better->name : NULL;
}

void doctor_look(struct doctor_facts *ret) {
    *ret = (struct doctor_facts){.uid = (unsigned)getuid()};
    snprintf(ret->user, sizeof ret->user, "%u", ret->uid);
    look_at_kernel(ret);
    look_at_distro(ret);
    look_at_self(ret);
    look_at_calls(ret);
    look_at_devices(ret);
    look_at_workspace(ret);
    ret->subuid = has_subids("/etc/subuid", ret->user, ret->uid);
    ret->subgid = has_subids("/etc/subgid", ret->user, ret->uid);
    native_look(&ret->native);
    ret->nested_missing = run_nested_missing();
    look_for_better(ret);
}

/* The native engine has been tried already. A second time would cost another attempt, and might differ. */
static struct doctor_engine look_at_engine(const struct doctor_facts *f, const struct engine_ops *ops) {
    struct doctor_engine e = {.ops = ops};

    if (ops != &engine_native) {
        e.n = ops->probe(e.states, e.names, DOCTOR_RUNGS_MAX);
        return e;
    }
    native_judge(&f->native, e.states);
    for (e.n = 0; e.n < RUNG_COUNT; e.n++)
        e.names[e.n] = rung_names[e.n];
    return e;
}

size_t doctor_engines(const struct doctor_facts *f, bool all, struct doctor_engine ret[static DOCTOR_ENGINES_MAX]) {
    size_t n = 0;

    for (size_t i = 0; i < n_engines && n < DOCTOR_ENGINES_MAX; i++)
        if (!engines[i]->for_tests && (all || !engines[i]->asks_others))
            ret[n++] = look_at_engine(f, engines[i]);
    return n;
}
