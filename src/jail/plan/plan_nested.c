/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container engine inside: podman as an ordinary user, with settings that fit the walls around it.
 *
 *   One id     The sandbox has one id, and a user namespace below it can map no other. Owners in layers are ignored. Inside it has another
 *              number than outside: podman first copies /proc/self/uid_map into its namespace, and where that succeeds it is not
 *              root in there and loses its capabilities (seen with 4.3).
 *   /proc      The kernel mounts a new one only where the old one is whole, and parts of ours are covered. Containers get a bind mount
 *              of ours instead, with what covers it, and so its process namespace.
 *   Network    That of the sandbox: pulls and containers use the gate. The filter lets no other network namespace be made.
 *   cgroups    None below the sandbox's own, whose limits hold for all containers together.
 *   Storage    "vfs": plain copies in the home, no file system to mount.
 */
#include "jail/plan/plan.h"

static const char containers_conf[] = "[containers]\n"
                                      "cgroups = \"disabled\"\n"
                                      "cgroupns = \"host\"\n"
                                      "netns = \"host\"\n"
                                      "pidns = \"private\"\n" /* for podman; see the runtime below */
                                      "ipcns = \"private\"\n"
                                      "utsns = \"private\"\n"
                                      "userns = \"host\"\n"
                                      "keyring = false\n"
                                      "default_sysctls = []\n"
                                      "log_driver = \"k8s-file\"\n"
                                      "[engine]\n"
                                      "cgroup_manager = \"cgroupfs\"\n"
                                      "events_logger = \"file\"\n"
                                      "runtime = \"crun\"\n"
                                      "[engine.runtimes]\n"
                                      "crun = [\"" PLAN_NESTED_BIN "/crun\"]\n";

/* Without control groups podman insists on a process namespace, and a process namespace on a /proc of its own. The runtime is given the
 * sandbox's instead of both. */
static const char runtime[] =
    "#!/bin/sh\n"
    "for a in \"$@\"; do\n"
    "    [ \"$before\" != --bundle ] || bundle=$a\n"
    "    [ \"$a\" != create ] || create=1\n"
    "    before=$a\n"
    "done\n"
    "[ -z \"$create\" ] || [ -z \"$bundle\" ] || sed -i -E -e 's#\\{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\",\"options\":\\[[^]]*\\]"
    "\\}#{\"destination\":\"/proc\",\"type\":\"bind\",\"source\":\"/proc\",\"options\":[\"rbind\",\"nosuid\",\"noexec\",\"nodev\"]}#' "
    "-e 's#\\{\"type\":\"pid\"\\},?##' -e 's#,\\]#]#' \"$bundle/config.json\" || exit 1\n"
    "exec /usr/bin/crun \"$@\"\n";

static const char storage_conf[] = "[storage]\ndriver = \"vfs\"\n[storage.options.vfs]\nignore_chown_errors = \"true\"\n";

static const char registries_conf[] = "unqualified-search-registries = [\"docker.io\"]\nshort-name-mode = \"permissive\"\n";

static const char policy_json[] = "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n";

static const struct step nested_steps[] = {
    {STEP_DIR, "/etc/containers"},
    {STEP_DIR, "/sys/fs/cgroup"}, /* podman asks what kind it is */
    {STEP_FILE, "/etc/containers/containers.conf", containers_conf, .mode = 0644},
    {STEP_FILE, "/etc/containers/storage.conf", storage_conf, .mode = 0644},
    {STEP_FILE, "/etc/containers/registries.conf", registries_conf, .mode = 0644},
    {STEP_FILE, "/etc/containers/policy.json", policy_json, .mode = 0644},
    {STEP_DIR, PLAN_NESTED_BIN},
    {STEP_FILE, PLAN_NESTED_BIN "/crun", runtime, .mode = 0755},
    {STEP_SYMLINK, PLAN_NESTED_BIN "/docker", "/usr/bin/podman"},
};

void plan_nested_ids(struct plan_ids *ids) {
    enum { ID = 1000, OTHER = 1001 };

    ids->inside_uid = ids->host_uid == ID ? OTHER : ID;
    ids->inside_gid = ids->host_gid == ID ? OTHER : ID;
}

void plan_make_nested(struct plan *p) {
    for (size_t i = 0; i < ARRAY_LEN(nested_steps); i++)
        plan_add(p, nested_steps[i]);
}
