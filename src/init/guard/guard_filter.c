/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls come to the guard. A call that is always allowed costs nothing: the kernel (5.11) finds that out when the filter
 * is installed and does not run it. Opening for reading is decided by the flags, which are in a register.
 *
 * Writing needs a descriptor that was opened for writing, so write, ftruncate, fallocate and mmap need not come here.
 * chown and utimes change no content and nothing that is run.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "init/guard/guard_run.h"
#include "init/guard/guard_sock.h"

#ifdef __x86_64__
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which AUDIT_ARCH_ is this?"
#endif

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

#define CWD FROM_CWD
#define K FROM_CONSTANT

static const struct guard_row rows[] = {
    {SYS_openat, guard_run_open, {0, 1, 2, 3}, .is_open = true},
#ifdef SYS_open /* and the other calls that newer architectures never had */
    {SYS_open, guard_run_open, {CWD, 0, 1, 2}, .is_open = true},
    {SYS_creat, guard_run_open, {CWD, 0, K, 1}, .constant = O_CREAT | O_WRONLY | O_TRUNC},
    {SYS_mkdir, guard_run_mkdir, {CWD, 0, 1}},
    {SYS_mknod, guard_run_mknod, {CWD, 0, 1, 2}},
    {SYS_symlink, guard_run_symlink, {0, CWD, 1}},
    {SYS_link, guard_run_link, {CWD, 0, CWD, 1, K}},
    {SYS_rename, guard_run_rename, {CWD, 0, CWD, 1, K}},
    {SYS_unlink, guard_run_unlink, {CWD, 0, K}},
    {SYS_rmdir, guard_run_unlink, {CWD, 0, K}, .constant = AT_REMOVEDIR},
    {SYS_chmod, guard_run_chmod, {CWD, 0, 1}},
#endif
#ifdef SYS_renameat
    {SYS_renameat, guard_run_rename, {0, 1, 2, 3, K}},
#endif
    {SYS_mkdirat, guard_run_mkdir, {0, 1, 2}},
    {SYS_mknodat, guard_run_mknod, {0, 1, 2, 3}},
    {SYS_symlinkat, guard_run_symlink, {0, 1, 2}},
    {SYS_linkat, guard_run_link, {0, 1, 2, 3, 4}},
    {SYS_renameat2, guard_run_rename, {0, 1, 2, 3, 4}},
    {SYS_unlinkat, guard_run_unlink, {0, 1, 2}},
    {SYS_truncate, guard_run_truncate, {CWD, 0, 1}},
    {SYS_fchmodat, guard_run_chmod, {0, 1, 2}},
    {SYS_fchmod, guard_run_fchmod, {0, 1}},
    {SYS_setxattr, guard_run_setxattr, {CWD, 0, 1, 2, 3, 4}},
    {SYS_lsetxattr, guard_run_setxattr, {CWD, 0, 1, 2, 3, 4}, .nofollow = true},
    {SYS_fsetxattr, guard_run_fsetxattr, {0, K, 1, 2, 3, 4}},
    {SYS_removexattr, guard_run_removexattr, {CWD, 0, 1}},
    {SYS_lremovexattr, guard_run_removexattr, {CWD, 0, 1}, .nofollow = true},
    {SYS_fremovexattr, guard_run_fremovexattr, {0, K, 1}},
    {SYS_umask, guard_run_umask, {0}},
    {SYS_bind, guard_sock_bind, {0, 1, 2}, .when = GUARD_SOCKETS}, /* before the next, which it takes the place of */
    {SYS_bind, guard_run_bind, {0, 1, 2}},
    {SYS_socket, guard_sock_make, {0, 1, 2}, .when = GUARD_SOCKETS},
    {SYS_connect, guard_sock_connect, {0, 1, 2}, .when = GUARD_SOCKETS},
    {SYS_listen, guard_sock_listen, {0, 1}, .when = GUARD_SOCKETS},
};

enum { CHANGES = O_ACCMODE | O_CREAT | O_TRUNC | 020000000 /* __O_TMPFILE */ };

static bool is_wanted(const struct guard_row *row, unsigned kinds) {
    return (row->when ? row->when : GUARD_FILES) & kinds;
}

const struct guard_row *guard_row(int nr, unsigned kinds) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].nr == nr && is_wanted(&rows[i], kinds))
            return &rows[i];
    return NULL;
}

/* What is done with a call: a place in the program. */
enum label { ALLOW, NOTIFY, REFUSE, OPEN, OPENAT, UMASK, PRCTL, LABELS };

/* Of all numbers from `first` on, up to the next range. */
struct range {
    uint32_t first;
    enum label to;
};

enum { SPECIAL = 3, RANGES_MAX = 2 * (ARRAY_LEN(rows) + SPECIAL) + 1, REST_MAX = 40 };
static_assert(RANGES_MAX + REST_MAX <= GUARD_FILTER_MAX, "room for the filter");
static_assert(GUARD_FILTER_MAX < UINT8_MAX, "every jump reaches every label");

struct program {
    struct sock_filter *code;
    size_t n;
    struct { /* jumps whose label has no place yet */
        size_t at;
        bool if_true;
        enum label to;
    } open[RANGES_MAX * 2];
    size_t n_open;
};

static void emit(struct program *p, struct sock_filter ins) {
    p->code[p->n++] = ins;
}

static void load(struct program *p, size_t offset) {
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void answer(struct program *p, uint32_t action) {
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Skips n instructions unless what is loaded equals k (BPF_JEQ) or has a bit of k (BPF_JSET). */
static void skip_unless(struct program *p, uint16_t op, uint32_t k, unsigned n) {
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k, 0, (uint8_t)n));
}

static size_t low_half(unsigned arg) { /* both architectures are little-endian */
    return offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
}

/* -- which call goes where ---------------------------------------------------------------------------------------------- */

static void insert(struct range *calls, size_t n, uint32_t nr, enum label to) {
    for (; n > 0 && calls[n - 1].first > nr; n--)
        calls[n] = calls[n - 1];
    calls[n] = (struct range){nr, to};
}

static enum label label_of(const struct guard_row *row) {
    return row->nr == SYS_openat ? OPENAT : row->is_open ? OPEN : row->nr == SYS_umask ? UMASK : NOTIFY;
}

/* By number: those that are not simply allowed. */
static size_t sort_calls(unsigned kinds, struct range ret[static ARRAY_LEN(rows) + SPECIAL]) {
    static const struct range special[SPECIAL] = {
        {SYS_prctl, PRCTL}, {SYS_landlock_create_ruleset, REFUSE}, {SYS_landlock_restrict_self, REFUSE}};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (&rows[i] == guard_row(rows[i].nr, kinds))
            insert(ret, n++, (uint32_t)rows[i].nr, label_of(&rows[i]));
    for (size_t i = 0; i < SPECIAL; i++)
        insert(ret, n++, special[i].first, special[i].to);
    return n;
}

static size_t add_range(struct range *ranges, size_t n, uint32_t first, enum label to) {
    if (n > 0 && ranges[n - 1].first == first) /* the gap before it was empty */
        n--;
    if (n > 0 && ranges[n - 1].to == to)
        return n;
    ranges[n] = (struct range){first, to};
    return n + 1;
}

static size_t find_ranges(unsigned kinds, struct range ret[static RANGES_MAX]) {
    struct range calls[ARRAY_LEN(rows) + SPECIAL];
    size_t n_calls = sort_calls(kinds, calls), n = add_range(ret, 0, 0, ALLOW);

    for (size_t i = 0; i < n_calls; i++) {
        n = add_range(ret, n, calls[i].first, calls[i].to);
        n = add_range(ret, n, calls[i].first + 1, ALLOW);
    }
    return n;
}

/* -- the program -------------------------------------------------------------------------------------------------------- */

static void jump_later(struct program *p, size_t at, bool if_true, enum label to) {
    p->open[p->n_open].at = at;
    p->open[p->n_open].if_true = if_true;
    p->open[p->n_open++].to = to;
}

/* Binary search over two or more ranges; a single one is no code, but a jump to its label. */
static void emit_tree(struct program *p, const struct range *r, size_t n) { /* NOLINT(misc-no-recursion): log2(n) deep */
    size_t half = n / 2, at = p->n;

    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r[half].first, 0, 0));
    if (half == 1)
        jump_later(p, at, false, r[0].to);
    else
        emit_tree(p, r, half);
    p->code[at].jt = (uint8_t)(p->n - at - 1);
    if (n - half == 1)
        jump_later(p, at, true, r[half].to);
    else
        emit_tree(p, r + half, n - half);
}

static void place(struct program *p, enum label l) {
    for (size_t i = 0; i < p->n_open; i++)
        if (p->open[i].to == l) {
            struct sock_filter *ins = &p->code[p->open[i].at];

            *(p->open[i].if_true ? &ins->jt : &ins->jf) = (uint8_t)(p->n - p->open[i].at - 1);
        }
}

static void emit_open(struct program *p, unsigned flags) {
    load(p, low_half(flags));
    skip_unless(p, BPF_JSET, O_PATH, 1);
    answer(p, SECCOMP_RET_ALLOW);
    skip_unless(p, BPF_JSET, CHANGES, 1);
    answer(p, SECCOMP_RET_USER_NOTIF);
    answer(p, SECCOMP_RET_ALLOW);
}

/* umask with the first mask changes nothing that we would not know. */
static void emit_umask(struct program *p, mode_t mask) {
    load(p, low_half(0));
    emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0777));
    skip_unless(p, BPF_JEQ, mask & 0777, 1);
    answer(p, SECCOMP_RET_ALLOW);
    answer(p, SECCOMP_RET_USER_NOTIF);
}

/* The guard could not read the memory of a process that is not dumpable. Saying so would only make programs give up. */
static void emit_dumpable(struct program *p) {
    load(p, low_half(0));
    skip_unless(p, BPF_JEQ, PR_SET_DUMPABLE, 3);
    load(p, low_half(1));
    skip_unless(p, BPF_JEQ, 0, 1);
    answer(p, SECCOMP_RET_ERRNO | 0);
    answer(p, SECCOMP_RET_ALLOW);
}

static void emit_label(struct program *p, enum label l, mode_t umask_) {
    place(p, l);
    switch (l) {
    case ALLOW:
        answer(p, SECCOMP_RET_ALLOW);
        break;
    case NOTIFY:
        answer(p, SECCOMP_RET_USER_NOTIF);
        break;
    case REFUSE: /* a Landlock domain made inside would not hold for what the guard does for its processes: better none than one that leaks */
        answer(p, SECCOMP_RET_ERRNO | EOPNOTSUPP);
        break;
    case OPEN:
    case OPENAT:
        emit_open(p, l == OPEN ? 1 : 2);
        break;
    case UMASK:
        emit_umask(p, umask_);
        break;
    case PRCTL:
        emit_dumpable(p);
        break;
    case LABELS:
        break;
    }
}

/*
 * Short, and quick to find any answer: installing it is a good part of what the start of a command costs, for the kernel compiles it, and runs
 * it once for every number. Other ABIs are ended by the filter that every command has (jail/fence/seccomp_policy.h); here they are only not mistaken
 * for ours.
 */
size_t guard_filter_make(mode_t umask_, unsigned kinds, struct sock_filter code[static GUARD_FILTER_MAX]) {
    struct program p = {.code = code};
    struct range ranges[RANGES_MAX];
    size_t n = find_ranges(kinds, ranges);

    load(&p, offsetof(struct seccomp_data, arch));
    emit(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
    answer(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
    emit_tree(&p, ranges, n);
    for (enum label l = ALLOW; l < LABELS; l++)
        emit_label(&p, l, umask_);
    return p.n;
}
