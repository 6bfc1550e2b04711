/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies: text to read and to copy. Pure; nothing here runs anything. */
#include <errno.h>

#include "base/buf.h"
#include "base/str.h"
#include "ops/doctor/doctor.h"

enum { MAX_USERNS = 15000 };

static bool caused_by(const struct doctor_facts *f, enum userns_cause cause) {
    return native_userns_cause(&f->native) == cause;
}

static bool in_container(const struct doctor_facts *f) {
    return f->native.container != CONTAINER_NO;
}

/* A setting now and after the next boot. */
static void add_sysctl(struct buf *out, const char *name, unsigned value) {
    buf_addf(out, "  sudo sysctl -w %s=%u\n", name, value);
    buf_addf(out, "  echo '%s = %u' | sudo tee /etc/sysctl.d/60-bawn.conf      # after the next boot too\n", name, value);
}

#define APPARMOR_BLANK "@BAWN@"
extern const char builtin_apparmor[]; /* made by tools/embed.py */

/* A path as AppArmor reads it between quotes: its wildcards and variables escaped. */
static void add_apparmor_path(struct buf *out, const char *path) {
    for (; *path; path++) {
        if (strchr("\"\\*?[]{}^@", *path))
            buf_addc(out, '\\');
        buf_addc(out, *path);
    }
}

/* packaging/apparmor/bawn.in, for this program. */
static void add_apparmor_profile(struct buf *out, const char *program) {
    const char *path = strstr(builtin_apparmor, APPARMOR_BLANK);

    buf_add(out, builtin_apparmor, (size_t)(path - builtin_apparmor));
    add_apparmor_path(out, program);
    buf_adds(out, path + strlen(APPARMOR_BLANK));
}

static void fix_apparmor(const struct doctor_facts *f, struct buf *out) {
    if (f->apparmor_file)
        buf_addf(
            out,
            "There is a profile at /etc/apparmor.d/bawn, but this program runs without it: it is not loaded, or it is for another "
            "path than\n%s. This one is:\n\n",
            f->self);
    else
        buf_adds(
            out,
            "Ubuntu lets only programs with an AppArmor profile use user namespaces. 'sudo make install' installs one. This one\n"
            "is for bawn and bawnd at this path:\n\n");
    buf_adds(out, "sudo tee /etc/apparmor.d/bawn <<'EOF'\n"); /* in column 0, or the shell would not find its end */
    add_apparmor_profile(out, f->self);
    buf_adds(out, "EOF\n"
                  "sudo apparmor_parser -r /etc/apparmor.d/bawn\n");
    if (f->self_by_others)
        buf_adds(
            out,
            "\nWARNING: users other than root can replace that file, and its replacement gets user namespaces, too. Install Bawn\n"
            "into /usr/local (as root) first, and run doctor from there.\n");
    if (f->apt)
        buf_adds(out, "\nIf apparmor_parser is missing: sudo apt-get install apparmor\n");
    buf_adds(out, "\nFor every program, which is weaker (not recommended):\n");
    add_sysctl(out, "kernel.apparmor_restrict_unprivileged_userns", 0);
}

static void fix_clone_switch(const struct doctor_facts *f UNUSED, struct buf *out) {
    add_sysctl(out, "kernel.unprivileged_userns_clone", 1);
}

static void fix_max(const struct doctor_facts *f, struct buf *out) {
    if (in_container(f))
        buf_adds(out, "On the host, outside of the container:\n");
    add_sysctl(out, "user.max_user_namespaces", MAX_USERNS);
}

static bool needs_container_options(const struct doctor_facts *f) {
    return caused_by(f, USERNS_CONTAINER) || (in_container(f) && f->native.launch < 0 && caused_by(f, USERNS_FINE));
}

static const char docker_options[] =
    "  docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ...\n";
static const char podman_options[] = "  podman run --security-opt seccomp=unconfined --security-opt unmask=ALL ...\n";
static const char kubernetes_options[] = "In the pod, for this container:\n"
                                         "  securityContext:\n"
                                         "    seccompProfile: {type: Unconfined}\n"
                                         "    appArmorProfile: {type: Unconfined}\n"
                                         "    procMount: Unmasked      # needs hostUsers: false\n";
static const char lxc_options[] = "  lxc config set CONTAINER security.nesting true && lxc restart CONTAINER\n";

static void fix_container_options(const struct doctor_facts *f, struct buf *out) {
    static const char *const options[CONTAINER_COUNT] = {
        [CONTAINER_DOCKER] = docker_options,
        [CONTAINER_PODMAN] = podman_options,
        [CONTAINER_KUBERNETES] = kubernetes_options,
        [CONTAINER_LXC] = lxc_options,
    };
    const char *known = options[f->native.container];

    buf_adds(out, "The container refuses what the full rung is made of. It has to be started with:\n\n");
    buf_adds(out, known ? known : docker_options);
    if (!known)
        buf_adds(out, podman_options);
    buf_adds(out,
             "\nWARNING: this takes the container's own filter away from everything in it. Where the container itself is a wall\n"
             "that counts, run Bawn on the host, or stay on the landlock rung.\n");
}

static void fix_filter(const struct doctor_facts *f UNUSED, struct buf *out) {
    buf_adds(out,
             "This process was started with a system call filter around it (grep Seccomp /proc/self/status), which cannot be\n"
             "taken off. Start Bawn from an ordinary shell; for a systemd service:\n"
             "  systemctl edit UNIT      # [Service] RestrictNamespaces=no and an empty SystemCallFilter=\n");
}

static void fix_network(const struct doctor_facts *f UNUSED, struct buf *out) {
    buf_adds(out, "User namespaces can be made here, and no network namespaces in them. Either none are allowed:\n");
    add_sysctl(out, "user.max_net_namespaces", 15000);
    buf_adds(out,
             "or a system call filter refuses them (grep Seccomp /proc/self/status), as with RestrictNamespaces= of a systemd\n"
             "service: start Bawn outside of it.\n");
}

static bool needs_search(const struct doctor_facts *f) {
    return caused_by(f, USERNS_UNKNOWN) ||
           (f->native.launch < 0 && caused_by(f, USERNS_FINE) && !in_container(f) && f->native.launch != -ENOSYS);
}

static void fix_search(const struct doctor_facts *f UNUSED, struct buf *out) {
    buf_adds(out, "No switch of this kernel explains it. Look for what is around this process, and start Bawn outside of it:\n"
                  "  sudo ls -di / /proc/1/root/.        # two different numbers: this is a chroot\n"
                  "  findmnt -R /proc                    # anything mounted below: a covered /proc, as in containers\n"
                  "  sudo dmesg | tail                   # a security module names what it denied\n");
}

static bool needs_engine(const struct doctor_facts *f) {
    return f->better != NULL;
}

static void fix_engine(const struct doctor_facts *f, struct buf *out) {
    buf_addf(out,
             "%s is available, and its containers enforce more than Bawn alone can here; the workspace is a copy there:\n"
             "  bawn run --engine %s -- COMMAND\n"
             "For every run, in ~/.config/bawn/config.json:\n"
             "  {\"sandbox\": {\"engine\": \"%s\"}}\n",
             f->better, f->better, f->better);
}

static bool needs_kernel(const struct doctor_facts *f) {
    return caused_by(f, USERNS_KERNEL) || f->native.launch == -ENOSYS || doctor_older_than(f, 5, 12) || f->native.seccomp < 0 ||
           f->native.memfd < 0;
}

static void fix_kernel(const struct doctor_facts *f, struct buf *out) {
    buf_adds(out, "Boot Linux 5.12 or newer (6.12 for every fence), built with:\n"
                  "  CONFIG_USER_NS=y CONFIG_SECCOMP_FILTER=y CONFIG_SECURITY_LANDLOCK=y\n");
    if (f->apt && str_starts(f->distro, "ubuntu"))
        buf_adds(out, "  sudo apt-get install linux-generic-hwe-$(lsb_release -rs)\n");
    else if (f->apt && str_starts(f->distro, "debian"))
        buf_adds(
            out,
            "  sudo apt-get install -t $(. /etc/os-release; echo $VERSION_CODENAME)-backports linux-image-$(dpkg --print-architecture)\n");
}

static bool needs_landlock(const struct doctor_facts *f) {
    return f->native.landlock_abi < 1 && !doctor_older_than(f, 5, 13);
}

static void fix_landlock(const struct doctor_facts *f, struct buf *out) {
    if (strstr(f->lsm, "landlock")) {
        buf_adds(out, "The kernel has Landlock switched on, but something around this process (a container's filter) denies it.\n"
                      "Update the container engine, or run Bawn outside of it.\n");
        return;
    }
    buf_adds(out, "Add landlock to the security modules that are started at boot. In /etc/default/grub:\n"
                  "  GRUB_CMDLINE_LINUX=\"... lsm=landlock,");
    buf_add_printable(out, f->lsm[0] ? f->lsm : "$(cat /sys/kernel/security/lsm)");
    buf_adds(out, "\"\nthen:\n  sudo update-grub && sudo reboot\n"
                  "If it is still missing, the kernel was built without CONFIG_SECURITY_LANDLOCK.\n");
}

static bool needs_limits(const struct doctor_facts *f) {
    return f->native.cgroup.why != NULL;
}

static void fix_delegation(struct buf *out) {
    buf_adds(out,
             "Let systemd hand the controllers to users:\n\n"
             "  sudo mkdir -p /etc/systemd/system/user@.service.d\n"
             "  printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf\n"
             "  sudo systemctl daemon-reload\n\n"
             "and log in again.\n");
}

static void fix_session(const struct doctor_facts *f, struct buf *out) {
    buf_adds(out, "Give this user a session of systemd, which can hand out control groups:\n\n");
    if (f->apt)
        buf_adds(out, "  sudo apt-get install dbus-user-session\n");
    buf_adds(out, "  sudo loginctl enable-linger ");
    buf_add_shell(out, f->user);
    buf_addf(out, "\n  export XDG_RUNTIME_DIR=/run/user/%u\n\n", f->uid);
    fix_delegation(out);
}

static void fix_limits(const struct doctor_facts *f, struct buf *out) {
    const struct cgroup_host *h = &f->native.cgroup;

    if (in_container(f) && h->kind == CGROUP_NONE)
        buf_adds(out, "The container's cgroups are read-only. Give limits to the container itself:\n"
                      "  docker run --cpus=2 --memory=4g --pids-limit=512 ...\n");
    else if (h->kind == CGROUP_SYSTEMD)
        fix_delegation(out);
    else if (h->kind == CGROUP_NONE && f->systemd && f->uid != 0)
        fix_session(f, out);
    else
        buf_addf(out, "  %s\n", h->remedy ? h->remedy : "have root delegate a control group to this user");
}

static bool needs_programs(const struct doctor_facts *f) {
    return f->native.init < 0 || (f->native.cgroup.kind == CGROUP_SYSTEMD && f->native.scope < 0);
}

static void fix_programs(const struct doctor_facts *f, struct buf *out) {
    buf_addf(out, "%s must be executable beside ", f->native.init < 0 ? "bawn-init" : "bawn-scope");
    buf_add_printable(out, f->self);
    buf_adds(out, " or in ../libexec/bawn. From the source:\n");
    if (f->apt && f->native.init == 0)
        buf_adds(out, "  sudo apt-get install libsystemd-dev\n");
    buf_adds(out, "  make && sudo make install\n");
}

static bool needs_owner(const struct doctor_facts *f) {
    return f->native.launch == 0 && f->native.idmap < 0 && f->workspace == 0 && !caused_by(f, USERNS_IDS);
}

static void fix_owner(const struct doctor_facts *f, struct buf *out) {
    buf_adds(
        out,
        "The file system of the current directory cannot map owners. As the one who owns the files:\n  sudo -u \"$(stat -c %U ");
    buf_add_shell(out, f->workspace_path);
    buf_adds(out, ")\" bawn run -- COMMAND\n");
}

static void fix_user(const struct doctor_facts *f, struct buf *out) {
    buf_adds(out,
             "Root's sandboxes run with an unprivileged id, which root cannot take here. An ordinary user needs none of this:\n"
             "  useradd -m dev && su dev -c 'bawn doctor'\n");
    if (in_container(f))
        buf_adds(out, "or in the container's recipe:\n  RUN useradd -m dev\n  USER dev\n");
}

static bool wants_subids(const struct doctor_facts *f) {
    return f->uid != 0 && !(f->subuid && f->subgid);
}

static void fix_subids(const struct doctor_facts *f, struct buf *out) {
    buf_adds(out, "Only for --system-ids many, and for podman without root:\n");
    if (f->apt)
        buf_adds(out, "  sudo apt-get install uidmap\n");
    buf_adds(out, "  sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ");
    buf_add_shell(out, f->user);
    buf_adds(out, "      # a range that /etc/subuid does not have yet\n");
}

const struct fix fixes[] = {
    {"apparmor-profile", "let bawn use user namespaces (AppArmor profile)", false, USERNS_APPARMOR, NULL, fix_apparmor},
    {"sysctl-userns-clone", "switch user namespaces on for users", false, USERNS_CLONE, NULL, fix_clone_switch},
    {"sysctl-max-userns", "allow user namespaces", false, USERNS_MAX, NULL, fix_max},
    {"network-namespaces", "allow network namespaces", false, USERNS_NETWORK, NULL, fix_network},
    {"container-options", "let the container have sandboxes", false, 0, needs_container_options, fix_container_options},
    {"engine", "another engine", false, 0, needs_engine, fix_engine},
    {"filter", "leave the system call filter around this process", false, USERNS_FILTER, NULL, fix_filter},
    {"search", "find out what refuses", false, 0, needs_search, fix_search},
    {"kernel", "a newer kernel", false, 0, needs_kernel, fix_kernel},
    {"landlock", "switch Landlock on", false, 0, needs_landlock, fix_landlock},
    {"cgroup", "limits by control groups", false, 0, needs_limits, fix_limits},
    {"programs", "the missing program of Bawn", false, 0, needs_programs, fix_programs},
    {"owner", "run as the owner of the files", false, 0, needs_owner, fix_owner},
    {"user", "run as an ordinary user", false, USERNS_IDS, NULL, fix_user},
    {"subid", "subordinate ids", true, 0, wants_subids, fix_subids},
};
const size_t n_fixes = ARRAY_LEN(fixes);

bool fix_needed(const struct fix *x, const struct doctor_facts *f) {
    return x->needs ? x->needs(f) : caused_by(f, x->cause);
}
