/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What root of the guest does before bawn-enter: a shell script, because a shell, mount(8), unshare(1) and pivot_root(8) are what every Linux
 * image has. It ends at the first thing that fails, and what it says is the message of the run.
 *
 * Should: nothing of the guest be seen but its system, read-only; every private area be new; no way out of the network namespace.
 * Mustn't: follow a link of the image out of the new root; leave the old root mounted; go on after a failure.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/guest/guest.h"

/* The first half runs twice: as it is started, and in the namespaces. */
static const char head[] = "#!/bin/sh\n"
                           "# Written by bawn for one run.\n"
                           "set -eu\n"
                           "PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
                           "export PATH\n"
                           "exec 3>&1 1>&2\n" /* the link is on standard output: nothing else may write there */
                           "if [ \"${1-}\" != inside ]; then\n"
                           "    exec unshare --mount --pid --net --ipc --uts --fork --kill-child=KILL -- sh \"$0\" inside >&3\n"
                           "fi\n"
                           "mount --make-rprivate /\n"
                           "N=/run/bawn-new\n"
                           "mkdir -p $N\n"
                           "mount -t tmpfs -o mode=755,size=64m tmpfs $N\n"
                           "mkdir $N/upper $N/work $N/root\n"
                           "mount -t overlay -o lowerdir=/,upperdir=$N/upper,workdir=$N/work overlay $N/root\n"
                           "R=$N/root\n"
                           /* A link at the end of a name would lead elsewhere. */
                           "place() {\n"
                           "    if [ -L \"$R$1\" ]; then rm -f \"$R$1\"; fi\n"
                           "    if [ \"$2\" = dir ]; then mkdir -p \"$R$1\"; return; fi\n"
                           "    mkdir -p \"$(dirname \"$R$1\")\"\n"
                           "    [ -e \"$R$1\" ] || : > \"$R$1\"\n"
                           "}\n"
                           "private() {\n" /* name size */
                           "    place \"$1\" dir\n"
                           "    mount -t tmpfs -o \"nosuid,nodev,mode=755,size=$2\" tmpfs \"$R$1\"\n"
                           "}\n"
                           "put() {\n" /* from to ro|rw */
                           "    if [ -d \"$1\" ]; then place \"$2\" dir; else place \"$2\" file; fi\n"
                           "    mount --bind \"$1\" \"$R$2\"\n"
                           "    mount -o \"remount,bind,nosuid,nodev,$3\" \"$R$2\"\n"
                           "}\n"
                           /* The overlay has the root file system alone. */
                           "for d in /usr /opt /nix; do\n"
                           "    if mountpoint -q $d; then put $d $d ro; fi\n"
                           "done\n"
                           "for d in /home /root /run /mnt /media /sys /dev; do private $d 4m; done\n"
                           "for d in null zero full random urandom tty; do\n"
                           "    : > $R/dev/$d\n"
                           "    mount --bind /dev/$d $R/dev/$d\n"
                           "done\n"
                           "mkdir $R/dev/pts $R/dev/shm\n"
                           "mount -t devpts -o newinstance,nosuid,noexec,ptmxmode=666,mode=620 devpts $R/dev/pts\n"
                           "ln -s pts/ptmx $R/dev/ptmx\n"
                           "ln -s /proc/self/fd $R/dev/fd\n"
                           "for d in in:0 out:1 err:2; do ln -s /proc/self/fd/${d#*:} $R/dev/std${d%:*}; done\n"
                           "place /proc dir\n"
                           "mount -t proc -o nosuid,nodev,noexec proc $R/proc\n"
                           "for d in sys sysrq-trigger irq bus fs; do\n"
                           "    [ ! -e $R/proc/$d ] || { mount --bind $R/proc/$d $R/proc/$d; "
                           "mount -o remount,bind,nosuid,nodev,noexec,ro $R/proc/$d; }\n"
                           "done\n"
                           "for d in kcore keys latency_stats timer_list sched_debug; do\n"
                           "    [ ! -e $R/proc/$d ] || mount --bind /dev/null $R/proc/$d\n"
                           "done\n";

static const char tail[] = "mkdir -p $R/.old\n"
                           "cd $R\n"
                           "pivot_root . .old\n"
                           "cd /\n"
                           "umount -l /.old\n"
                           "rmdir /.old\n"
                           "mount -o remount,bind,ro /\n";

static void add_put(struct buf *b, const char *from, const char *to, bool writable) {
    buf_adds(b, "put ");
    buf_add_shell(b, from);
    buf_addc(b, ' ');
    buf_add_shell(b, to);
    buf_adds(b, writable ? " rw\n" : " ro\n");
}

static void add_ours(struct buf *b, const struct guest_shares *s, const char *folder, const char *sub, const char *to) {
    CLEANUP(freep) char *here = str_dupf("%s/%s", folder, sub), *there = here ? guest_path(s, here) : NULL;

    b->failed |= !there;
    if (there)
        add_put(b, there, to, false);
}

static int add_mounts(struct buf *b, const struct container_plan *c, const struct guest_shares *s, struct err *err) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        CLEANUP(freep) char *there = guest_path(s, c->mounts[i].from);

        if (!there)
            return err_set(err, -EINVAL, "'%s' is not shared with the machine", c->mounts[i].from);
        add_put(b, there, c->mounts[i].to, c->mounts[i].writable);
    }
    return 0;
}

static void add_enter(struct buf *b, const struct plan *p, const struct container_plan *c) {
    buf_addf(b, "exec " CONTAINER_ENTER " %u %u %s - " CONTAINER_LINK "/bawn-init", p->ids.inside_uid, p->ids.inside_gid,
             p->network ? "network" : "loopback");
    for (size_t i = 0; i < c->n_privates; i++) {
        buf_addf(b, " %o:", (unsigned)c->privates[i].mode);
        buf_add_shell(b, c->privates[i].path);
    }
    buf_adds(b, " >&3 3>&-\n");
}

int guest_script_make(const struct plan *p, const struct container_plan *c, const struct guest_shares *s, const char *folder,
                      struct buf *ret, struct err *err) {
    int r;

    buf_adds(ret, head);
    buf_adds(ret, "hostname ");
    buf_add_shell(ret, p->hostname);
    buf_adds(ret, "\n");
    if (!p->network) /* else bawn-enter does it */
        buf_adds(ret, "ip link set lo up || true\n");
    for (size_t i = 0; i < c->n_privates; i++)
        if (c->privates[i].tmpfs) {
            buf_adds(ret, "private ");
            buf_add_shell(ret, c->privates[i].path);
            buf_addf(ret, " %" PRIu64 "\n", p->private_size);
        }
    add_ours(ret, s, folder, "link", CONTAINER_LINK);
    add_ours(ret, s, folder, "run", CONTAINER_RUN);
    r = add_mounts(ret, c, s, err);
    if (r < 0)
        return r;
    buf_adds(ret, tail);
    add_enter(ret, p, c);
    return buf_ok(ret) ? 0 : err_oom(err);
}
