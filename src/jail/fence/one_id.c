/* SPDX-License-Identifier: Apache-2.0 */
/* Builds and loads the filter of a sandbox with one id. */
#include "jail/fence/one_id.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

enum { SETID_BITS = 06000, NO_MODE = 6, PROGRAM_MAX = 128 };

/* mode: the argument whose set-id bits count; NO_MODE: every call. */
struct one_id_row {
    int nr;
    unsigned mode;
};

static const struct one_id_row rows[] = {
#ifdef SYS_chown /* and the other calls that newer architectures never had */
    {SYS_chown, NO_MODE},    {SYS_lchown, NO_MODE},   {SYS_chmod, 1},
#endif
    {SYS_fchown, NO_MODE},   {SYS_fchownat, NO_MODE}, {SYS_setuid, NO_MODE},    {SYS_setgid, NO_MODE},
    {SYS_setreuid, NO_MODE}, {SYS_setregid, NO_MODE}, {SYS_setresuid, NO_MODE}, {SYS_setresgid, NO_MODE},
    {SYS_setfsuid, NO_MODE}, {SYS_setfsgid, NO_MODE}, {SYS_setgroups, NO_MODE}, {SYS_fchmod, 1},
    {SYS_fchmodat, 2},
};

struct one_id_program {
    struct sock_filter code[PROGRAM_MAX];
    size_t n;
};

static void emit(struct one_id_program *p, struct sock_filter ins) {
    p->code[p->n++] = ins;
}

/* Both architectures are little-endian: the lower half comes first. */
static uint32_t argument(unsigned i) {
    return (uint32_t)(offsetof(struct seccomp_data, args) + i * sizeof(uint64_t));
}

static void emit_row(struct one_id_program *p, const struct one_id_row *row) {
    const struct sock_filter done = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO);
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

    if (row->mode == NO_MODE) {
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)row->nr, 0, 1));
        emit(p, done);
        return;
    }
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)row->nr, 0, 4));
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(row->mode)));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SETID_BITS, 0, 1));
    emit(p, done);
    emit(p, allow);
}

int one_id_install(bool many, struct err *err) {
    struct one_id_program p = {.n = 0};
    struct sock_fprog prog = {.filter = p.code};

    static_assert(ARRAY_LEN(rows) * 5 + 2 <= PROGRAM_MAX, "room for all rows");
    emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!many || rows[i].mode != NO_MODE)
            emit_row(&p, &rows[i]);
    emit(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    prog.len = (unsigned short)p.n;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? err_sys(err, -errno, "install the filter for one id")
                                                                       : 0;
}
