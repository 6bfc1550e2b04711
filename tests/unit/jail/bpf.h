/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter for filters of system calls: what the kernel would answer. Included after cmocka.h. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/macros.h"

static bool bpf_jumps(uint16_t op, uint32_t a, uint32_t k) {
    switch (op) {
    case BPF_JEQ:
        return a == k;
    case BPF_JGT:
        return a > k;
    case BPF_JGE:
        return a >= k;
    case BPF_JSET:
        return a & k;
    }
    fail_msg("unknown jump 0x%x", op);
    return false;
}

/* Classic BPF, as much of it as our filters may have. */
static uint32_t bpf_run(const char *name, const struct sock_filter *code, size_t n, const struct seccomp_data *data) {
    uint32_t a = 0;

    for (size_t pc = 0; pc < n; pc++) {
        const struct sock_filter *i = &code[pc];

        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            assert_int_equal(i->code, BPF_LD | BPF_W | BPF_ABS);
            assert_true(i->k % 4 == 0 && i->k + 4 <= sizeof *data);
            memcpy(&a, (const char *)data + i->k, 4);
            break;
        case BPF_ALU:
            assert_int_equal(i->code, BPF_ALU | BPF_AND | BPF_K);
            a &= i->k;
            break;
        case BPF_JMP:
            pc += BPF_OP(i->code) == BPF_JA ? i->k : bpf_jumps(BPF_OP(i->code), a, i->k) ? i->jt : i->jf;
            break;
        case BPF_RET:
            assert_int_equal(i->code, BPF_RET | BPF_K);
            return i->k;
        default:
            fail_msg("unknown instruction 0x%x at %zu of %s", i->code, pc, name);
        }
    }
    fail_msg("%s runs off its end", name);
    return 0;
}
