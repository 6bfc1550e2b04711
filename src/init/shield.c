/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Over a byte link the kernel inside may not be Linux, and gVisor does not protect PID 1 from the signals of its own namespace: kill -9 1 would
 * end the sandbox. So commands have a second filter, which knows PID 1 and its link's thread by their numbers.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/init.h"
#include "link/far.h"

#define ARGUMENT(n) ((uint32_t)(offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t)))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define GO_IF(value, yes) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (yes), 0)
#define SAY(what) BPF_STMT(BPF_RET | BPF_K, (what))

/* A process group of PID 1's could be joined over its terminal, and then be signalled as a whole. */
int shield_install(struct err *err) {
    struct sock_filter code[] = {
        LOAD((uint32_t)offsetof(struct seccomp_data, nr)),
        GO_IF(SYS_kill, 7),
        GO_IF(SYS_tkill, 6),
        GO_IF(SYS_tgkill, 5),
        GO_IF(SYS_rt_sigqueueinfo, 4),
        GO_IF(SYS_rt_tgsigqueueinfo, 3),
        GO_IF(SYS_pidfd_open, 2),
        GO_IF(SYS_setpgid, 3),
        SAY(SECCOMP_RET_ALLOW),
        LOAD(ARGUMENT(0)),
        BPF_STMT(BPF_JMP | BPF_JA, 1),
        LOAD(ARGUMENT(1)),
        GO_IF(1, 2),
        GO_IF(far_thread(), 1),
        SAY(SECCOMP_RET_ALLOW),
        SAY(SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? err_sys(err, -errno, "shield PID 1 from signals") : 0;
}
