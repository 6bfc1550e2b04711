/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles src/jail/fence/seccomp_policy.h into BPF tables: `seccomp-gen > seccomp_tables.h`. Runs on the build machine; the
 * output holds the tables of every architecture and is the same wherever it is made.
 *
 * Theory of operation. The numbers come from libseccomp, which knows those of every architecture. Its compiler is not used:
 * an allow-list cannot say "otherwise" or "all ioctls but these" in its rules, and it spends a comparison per call where
 * neighbouring numbers mostly share an answer (630 instructions; 264 this way). The length
 * counts at every start: the kernel compiles the program when it is installed, and runs it once for every number, to skip it later for
 * calls that are always allowed.
 *
 * A program is: check of the ABI; a binary tree over ranges of numbers, whose last jumps lead to the answers; the answers, each
 * once; then one block for each call whose arguments are checked. The answer for such a call is first made as `return TRACE|check`,
 * and replaced by a jump once it is known where its block is; jumps in BPF only go forward.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/fence/seccomp_policy.h"

enum {
    NAME_SIZE = 64,
    NUMBERS = 1024,   /* far above the newest call: the last range is that of the calls we do not know */
    RANGES_MAX = 256, /* half of a tree this large is the longest conditional jump */
    X32_BIT = 0x40000000,
    NUMBER_OFFSET = 0, /* in struct seccomp_data; the low halves of the arguments, both machines being little-endian */
    ARCH_OFFSET = 4,
    ARGS_OFFSET = 16,
    ARG_SIZE = 8
};

struct arch {
    uint32_t token, audit;
    const char *name; /* as in the compiler's macro __NAME__ */
};

struct variant {
    unsigned bit;
    const char *name, *macro;
};

struct range {
    uint32_t first, action;
};

struct program {
    struct sock_filter code[BPF_MAXINSNS];
    size_t n;
    struct { /* jumps of the tree to an answer, which has no place yet */
        size_t from;
        bool if_true;
        uint32_t action;
    } open[2 * RANGES_MAX];
    size_t n_open;
};

static const struct arch archs[] = {
    {SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, "x86_64"},
    {SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, "aarch64"},
};
static const struct variant variants[] = {{IN_YARD, "yard", "YARD"},       {IN_BARE, "bare", "BARE"},
                                          {IN_NET, "net", "NET"},          {IN_GUARD, "guard", "GUARD"},
                                          {IN_SHARED, "shared", "SHARED"}, {IN_NESTED, "nested", "NESTED"}};

NORETURN static void die(const char *what, const char *detail) {
    fprintf(stderr, "seccomp-gen: %s: %s\n", what, detail);
    exit(1);
}

/* Copies the next word of *names; false at the end. */
static bool next_name(const char **names, char word[static NAME_SIZE]) {
    size_t n;

    *names += strspn(*names, " ");
    n = strcspn(*names, " ");
    if (n == 0)
        return false;
    if (n >= NAME_SIZE)
        die("name too long", *names);
    memcpy(word, *names, n);
    word[n] = 0;
    *names += n;
    return true;
}

/* answers[number] = action for every name; 0 (kill) stands for "not listed", as no policy line says it. */
static void set_answers(uint32_t answers[NUMBERS], const struct arch *arch, const char *names, uint32_t action) {
    char name[NAME_SIZE];

    while (next_name(&names, name)) {
        int nr = seccomp_syscall_resolve_name_arch(arch->token, name);

        if (nr == __NR_SCMP_ERROR)
            die("unknown system call", name);
        if (nr < 0)
            continue; /* not on this architecture */
        if (nr >= NUMBERS - 1 || answers[nr] != 0)
            die(nr >= NUMBERS - 1 ? "number too large" : "listed twice", name);
        answers[nr] = action;
    }
}

static size_t find_ranges(const struct arch *arch, unsigned bit, struct range ranges[RANGES_MAX]) {
    uint32_t answers[NUMBERS] = {0};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(policy_lists); i++)
        if (policy_lists[i].variants & bit)
            set_answers(answers, arch, policy_lists[i].names, policy_lists[i].action);
    for (size_t i = 0; i < ARRAY_LEN(policy_checks); i++)
        if (policy_checks[i].variants & bit)
            set_answers(answers, arch, policy_checks[i].names, SECCOMP_RET_TRACE | (uint32_t)i);
    for (uint32_t nr = 0; nr < NUMBERS; nr++) {
        uint32_t action = answers[nr] ? answers[nr] : REFUSE(ENOSYS);

        if (n > 0 && ranges[n - 1].action == action)
            continue;
        if (n == RANGES_MAX)
            die("too many ranges", arch->name);
        ranges[n++] = (struct range){nr, action};
    }
    return n;
}

static void emit(struct program *p, struct sock_filter ins) {
    if (p->n == BPF_MAXINSNS)
        die("program too long", "more than the kernel takes");
    p->code[p->n++] = ins;
}

static void emit_load(struct program *p, uint32_t offset) {
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void emit_return(struct program *p, uint32_t action) {
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void emit_jump(struct program *p, uint16_t op, uint32_t k, size_t if_true, size_t if_false) {
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k, (uint8_t)if_true, (uint8_t)if_false));
}

/* Leaves the number in the accumulator. */
static void emit_abi_check(struct program *p, const struct arch *arch) {
    emit_load(p, ARCH_OFFSET);
    emit_jump(p, BPF_JEQ, arch->audit, 1, 0);
    emit_return(p, SECCOMP_RET_KILL_PROCESS);
    emit_load(p, NUMBER_OFFSET);
    if (arch->audit != AUDIT_ARCH_X86_64)
        return;
    /* x32 shares the architecture of x86_64. -1 is no x32 call: a tracer writes it to skip a call (strace --inject). */
    emit_jump(p, BPF_JGE, X32_BIT, 0, 2);
    emit_jump(p, BPF_JEQ, UINT32_MAX, 1, 0);
    emit_return(p, SECCOMP_RET_KILL_PROCESS);
}

static void jump_later(struct program *p, size_t from, bool if_true, uint32_t action) {
    p->open[p->n_open].from = from;
    p->open[p->n_open].if_true = if_true;
    p->open[p->n_open++].action = action;
}

static void jump_here(struct program *p, size_t from, bool if_true) {
    size_t distance = p->n - from - 1;

    if (distance > UINT8_MAX)
        die("jump too long", "the tree needs returns in between");
    *(if_true ? &p->code[from].jt : &p->code[from].jf) = (uint8_t)distance;
}

/* Of two or more ranges; one alone is no code, but a jump to its answer. */
static void emit_tree(struct program *p, const struct range *ranges, size_t n) {
    size_t node = p->n, half = n / 2;

    emit_jump(p, BPF_JGE, ranges[half].first, 0, 0);
    if (half == 1)
        jump_later(p, node, false, ranges[0].action);
    else
        emit_tree(p, ranges, half);
    jump_here(p, node, true);
    if (n - half == 1)
        jump_later(p, node, true, ranges[half].action);
    else
        emit_tree(p, ranges + half, n - half);
}

/* Each answer once, behind the tree. */
static void emit_answers(struct program *p) {
    size_t first = p->n;

    for (size_t i = 0; i < p->n_open; i++) {
        size_t at = first;

        while (at < p->n && p->code[at].k != p->open[i].action)
            at++;
        if (at == p->n)
            emit_return(p, p->open[i].action);
    }
    for (size_t i = 0, end = p->n; i < p->n_open; i++)
        for (p->n = first; p->n < end; p->n++)
            if (p->code[p->n].k == p->open[i].action)
                jump_here(p, p->open[i].from, p->open[i].if_true);
}

static size_t tests_in(const struct policy_rule *rule) {
    size_t n = 0;

    while (n < POLICY_TESTS_MAX && rule->when[n].op != OP_NONE)
        n++;
    return n;
}

static size_t test_size(const struct policy_test *t) {
    return t->mask == UINT32_MAX ? 2 : 3;
}

static uint32_t arg_offset(unsigned arg) {
    return ARGS_OFFSET + ARG_SIZE * (arg & ~(unsigned)UPPER_HALF) + (arg & UPPER_HALF ? ARG_SIZE / 2 : 0);
}

/* A test that fails jumps behind the rule's return. */
static void emit_rule(struct program *p, const struct policy_rule *rule) {
    size_t n = tests_in(rule), out = 1;

    for (size_t i = 0; i < n; i++)
        out += test_size(&rule->when[i]);
    for (size_t i = 0; i < n; i++) {
        const struct policy_test *t = &rule->when[i];

        out -= test_size(t);
        emit_load(p, arg_offset(t->arg));
        if (t->mask != UINT32_MAX)
            emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
        emit_jump(p, BPF_JEQ, t->value, t->op == OP_EQ ? 0 : out, t->op == OP_EQ ? out : 0);
    }
    emit_return(p, rule->action);
}

/* Neighbouring values are one range. What is in none of them goes on behind, where the rules will be. */
static void emit_values(struct program *p, const struct policy_values *values) {
    const uint32_t other = SECCOMP_RET_TRACE;
    struct range ranges[RANGES_MAX] = {{0, other}};
    size_t n = 1, answers;

    for (size_t i = 0; i < values->n; i++) {
        if ((i > 0 && values->v[i] <= values->v[i - 1]) || n + 2 > RANGES_MAX)
            die("values not in ascending order, or too many", "");
        if (ranges[n - 1].first == values->v[i] && ranges[n - 1].action == other)
            n--;
        if (n == 0 || ranges[n - 1].action == other)
            ranges[n++] = (struct range){values->v[i], ALLOW};
        ranges[n++] = (struct range){values->v[i] + 1, other};
    }
    emit_load(p, arg_offset(values->arg));
    p->n_open = 0;
    emit_tree(p, ranges, n);
    answers = p->n;
    emit_answers(p);
    for (size_t i = answers; i < p->n; i++)
        if (p->code[i].k == other)
            p->code[i] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(p->n - i - 1));
}

/* Appends the checks and returns where they begin. */
static size_t emit_check(struct program *p, const struct policy_check *check) {
    size_t start = p->n;

    for (size_t i = 0; i < ARRAY_LEN(policy_values); i++)
        if (strcmp(policy_values[i].name, check->names) == 0)
            emit_values(p, &policy_values[i]);
    for (size_t i = 0; i < POLICY_RULES_MAX; i++) {
        emit_rule(p, &check->rules[i]);
        if (tests_in(&check->rules[i]) == 0)
            return start;
    }
    die("no rule without tests at the end", check->names);
}

static void resolve_checks(struct program *p) {
    size_t tree_end = p->n, start[ARRAY_LEN(policy_checks)] = {0};

    for (size_t i = 0; i < tree_end; i++) {
        struct sock_filter *ins = &p->code[i];
        uint32_t check = ins->k & SECCOMP_RET_DATA;

        if (ins->code != (BPF_RET | BPF_K) || (ins->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_TRACE)
            continue;
        if (start[check] == 0)
            start[check] = emit_check(p, &policy_checks[check]);
        *ins = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(start[check] - i - 1));
    }
}

static void print_table(const struct arch *arch, const struct variant *variant) {
    struct range ranges[RANGES_MAX];
    struct program p = {.n = 0};

    emit_abi_check(&p, arch);
    emit_tree(&p, ranges, find_ranges(arch, variant->bit, ranges));
    emit_answers(&p);
    resolve_checks(&p);
    printf("static const struct sock_filter seccomp_%s_%s[] = {\n", variant->name, arch->name);
    for (size_t i = 0; i < p.n; i++)
        printf("    {0x%02x, %u, %u, 0x%08x},\n", p.code[i].code, p.code[i].jt, p.code[i].jf, p.code[i].k);
    printf("};\n");
}

static void print_arch(const struct arch *arch) {
    printf("\n#if defined __%s__ || defined SECCOMP_TABLES_ALL\n", arch->name);
    for (size_t v = 0; v < ARRAY_LEN(variants); v++)
        print_table(arch, &variants[v]);
    printf("#endif\n#ifdef __%s__\n", arch->name);
    for (size_t v = 0; v < ARRAY_LEN(variants); v++)
        printf("#define SECCOMP_TABLE_%s seccomp_%s_%s\n", variants[v].macro, variants[v].name, arch->name);
    printf("#endif\n");
}

int main(void) {
    printf("/* Made by tools/seccomp-gen from src/jail/fence/seccomp_policy.h. */\n#pragma once\n\n#include <linux/filter.h>\n");
    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        print_arch(&archs[a]);
    printf("\n#ifndef SECCOMP_TABLE_YARD\n"
           "#error \"no system call table for this architecture; add it to tools/seccomp-gen.c\"\n#endif\n");
    if (fflush(stdout) != 0 || ferror(stdout))
        die("write", strerror(errno));
    return 0;
}
