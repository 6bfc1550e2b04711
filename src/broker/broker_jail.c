/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-broker may still do once it serves. */
#include "broker/broker_jail.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "jail/fence/cell.h"

/*
 * Sockets that it has or is given, memory (mlock: values stay out of the swap), time, random numbers, the size and bytes of a memfd;
 * and one line of complaint on stderr. Nothing opens, connects or starts.
 */
static const uint32_t allowed[] = {
    CELL_CALLS_OF_ITSELF,
    __NR_recvmsg,
    __NR_sendmsg,
    __NR_recvfrom,
    __NR_sendto,
    __NR_read,
    __NR_write,
    __NR_close,
    __NR_lseek,
    __NR_pread64,
    __NR_ppoll,
    __NR_mlock,
    __NR_munlock,
#ifdef __NR_poll
    __NR_poll,
#endif
#ifdef __NR_time
    __NR_time,
#endif
};

static const struct sock_filter arguments[] = {CELL_BEGIN, CELL_NO_NEW_CODE};

static const struct cell_limit limits[] = {
    CELL_MEMORY(BROKER_MEMORY_MAX),
    {RLIMIT_NOFILE, BROKER_FILES_MAX, BROKER_FILES_MAX},
    {RLIMIT_CORE, 0, 0},
    {RLIMIT_NPROC, 0, 0},
    {RLIMIT_FSIZE, 0, 0},
};

int broker_lock(struct err *err) {
    const struct cell_plan plan = {.filter = CELL_FILTER("bawn-broker", arguments, allowed),
                                   .ids_first = BROKER_IDS_FIRST,
                                   .id_plain = BROKER_ID_PLAIN,
                                   .limits = limits,
                                   .n_limits = ARRAY_LEN(limits),
                                   .deny_tcp = true};

    return cell_lock(&plan, err);
}
