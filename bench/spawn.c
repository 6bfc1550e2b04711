/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times commands against each other: spawn, run, wait.
 *
 *     spawn --rounds 300 -- raw /bin/true :: bwrap bwrap --unshare-all ... /bin/true
 *     spawn --parallel 16 --block 2s --rounds 4 -- raw /bin/true :: bwrap ...
 *     spawn -- kept socket:/run/user/0/bawn/box/x.sock /bin/true          (by the exec socket of a kept sandbox)
 *     spawn -- bwrap '10</some/file' bwrap --file 10 /etc/passwd ...     (the command starts with the file open as 10)
 *     spawn -- pool env:XDG_RUNTIME_DIR=/some/dir bawn run -- /bin/true  (the command has this variable, and the others do not)
 *
 * The machine is noisy and gets slower and faster over seconds, so nothing is measured in one piece: every round runs
 * every command once, in an order that is shuffled anew (with a fixed order the same command would always pay for what
 * its predecessor left behind: network namespaces are torn down after the process that had them is gone).
 * A command that fails even once is reported as failed, with what it wrote to stderr, and never as a fast one.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/str.h"
#include "socket.h"

extern char **environ;

enum {
    COMMANDS_MAX = 64,
    PARALLEL_MAX = 1024,
    ROUNDS_MAX = 100000,
    OPENS_MAX = 16,
    VARIABLES_MAX = 64,
    OPEN_FD_MIN = 10, /* out of the way of our own descriptors */
    OPEN_FD_MAX = 99,
    WARMUPS = 2,
    ROUNDS_MIN_PER_COMMAND = 5, /* also for a peer whose budget is used up: a median needs a few */
    STDERR_KEPT = 600
};

#define SERIAL_MARK "@ID@" /* replaced in an argument by a number that is new for every start: runc and crun want one */

struct opened {
    int fd;
    const char *path;
};

struct command {
    const char *name;
    struct opened opens[OPENS_MAX];
    size_t n_opens;
    char **argv;
    char *variable;     /* NAME=value for this command only; NULL: none */
    const char *socket; /* instead of starting argv here: the socket of a kept sandbox */
    char **mark;        /* the slot of argv whose text holds SERIAL_MARK; NULL: none */
    const char *mark_text;
    double *samples; /* microseconds, or commands per second */
    size_t n_samples;
    size_t stride; /* takes part in every stride-th round */
    bool failed;
    int status;
    char said[STDERR_KEPT + 1];
};

struct bench {
    struct command commands[COMMANDS_MAX];
    size_t n_commands;
    const char *user, *directory;
    uint64_t rounds, parallel, block_ms, budget_ms, gap_ms;
    uint64_t random, serial;
    int null_fd, stderr_fd;
    char serial_text[256];
    char *variables[VARIABLES_MAX + 2];
};

enum opt_id { OPT_USER = 1, OPT_CHDIR, OPT_ROUNDS, OPT_PARALLEL, OPT_BLOCK, OPT_BUDGET, OPT_GAP };

static const struct opt opts[] = {
    {OPT_USER, 'u', "user", "NAME", "become this user first", NULL},
    {OPT_CHDIR, 'C', "chdir", "DIR", "start the commands there", "@dir"},
    {OPT_ROUNDS, 'r', "rounds", "N", "rounds, each with every command", NULL},
    {OPT_PARALLEL, 'p', "parallel", "N", "measure commands per second, this many at a time", NULL},
    {OPT_BLOCK, 'b', "block", "TIME", "with --parallel: how long each command runs per round", NULL},
    {OPT_BUDGET, 't', "budget", "TIME", "slow commands sit rounds out to stay within this", NULL},
    {OPT_GAP, 'g', "gap", "TIME", "rest between two measurements", NULL},
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void rest(uint64_t ms) {
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    if (ms > 0)
        nanosleep(&t, NULL);
}

static uint64_t next_random(struct bench *b) {
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static void shuffle(struct bench *b, size_t *order) {
    for (size_t i = 0; i < b->n_commands; i++)
        order[i] = i;
    for (size_t i = b->n_commands; i > 1; i--) {
        size_t j = next_random(b) % i, t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

static int command_prepare(struct bench *b, struct command *c, struct err *err) {
    if (!c->mark)
        return 0;
    const char *at = strstr(c->mark_text, SERIAL_MARK);
    int n = snprintf(b->serial_text, sizeof(b->serial_text), "%.*s%d-%llu%s", (int)(at - c->mark_text), c->mark_text,
                     (int)getpid(), (unsigned long long)b->serial++, at + strlen(SERIAL_MARK));
    if (n < 0 || (size_t)n >= sizeof(b->serial_text))
        return err_set(err, -ENAMETOOLONG, "the argument '%s' is too long", c->mark_text);
    *c->mark = b->serial_text;
    return 0;
}

static char **command_environ(struct bench *b, struct command *c) {
    size_t n = 0;
    for (char **e = environ; *e && n < VARIABLES_MAX; e++)
        b->variables[n++] = *e;
    b->variables[n++] = c->variable;
    b->variables[n] = NULL;
    return b->variables;
}

static int command_start(struct bench *b, struct command *c, pid_t *ret_pid, struct err *err) {
    posix_spawn_file_actions_t fa;
    int r = posix_spawn_file_actions_init(&fa);
    if (r != 0)
        return err_sys(err, -r, "prepare a start");
    r = posix_spawn_file_actions_adddup2(&fa, b->null_fd, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&fa, b->null_fd, 1);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&fa, b->stderr_fd, 2);
    for (size_t i = 0; r == 0 && i < c->n_opens; i++)
        r = posix_spawn_file_actions_addopen(&fa, c->opens[i].fd, c->opens[i].path, O_RDONLY, 0);
    if (r == 0)
        r = posix_spawnp(ret_pid, c->argv[0], &fa, NULL, c->argv, c->variable ? command_environ(b, c) : environ);
    posix_spawn_file_actions_destroy(&fa);
    return r == 0 ? 0 : err_sys(err, -r, "start '%s'", c->argv[0]);
}

static void command_failed(struct bench *b, struct command *c, int status) {
    if (c->failed)
        return;
    c->failed = true;
    c->status = status;
    ssize_t n = pread(b->stderr_fd, c->said, STDERR_KEPT, 0);
    c->said[MAX_OF(n, 0)] = '\0';
}

static int exit_status(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

static int stderr_forget(struct bench *b, struct err *err) {
    return ftruncate(b->stderr_fd, 0) == 0 ? 0 : err_sys(err, -errno, "empty the log of errors");
}

static int command_once(struct bench *b, struct command *c, double *ret_us, struct err *err) {
    pid_t pid;
    int status, r = command_prepare(b, c, err);
    if (r < 0 || (r = stderr_forget(b, err)) < 0)
        return r;
    double start = now_us();
    if (c->socket) {
        r = socket_exec(c->socket, c->argv, b->stderr_fd, &status, err);
        *ret_us = now_us() - start;
        if (r >= 0 && status != 0)
            command_failed(b, c, status);
        return r;
    }
    r = command_start(b, c, &pid, err);
    if (r < 0)
        return r;
    if (waitpid(pid, &status, 0) < 0)
        return err_sys(err, -errno, "wait for '%s'", c->name);
    *ret_us = now_us() - start;
    if (exit_status(status) != 0)
        command_failed(b, c, exit_status(status));
    return 0;
}

/* Keeps b->parallel commands going until the block is over, then waits for the rest; that wait counts too. */
static int command_block(struct bench *b, struct command *c, double *ret_per_second, struct err *err) {
    uint64_t running = 0, done = 0;
    int r = stderr_forget(b, err);
    double start = now_us(), end = start + (double)b->block_ms * 1e3;
    while (r >= 0 && (running > 0 || now_us() < end)) {
        pid_t pid;
        if (running < b->parallel && now_us() < end && !c->failed) {
            r = command_prepare(b, c, err);
            if (r >= 0)
                r = command_start(b, c, &pid, err);
            running += r >= 0;
            continue;
        }
        int status;
        if (running == 0)
            break;
        if (waitpid(-1, &status, 0) < 0)
            return err_sys(err, -errno, "wait for '%s'", c->name);
        running--;
        done++;
        if (exit_status(status) != 0)
            command_failed(b, c, exit_status(status));
    }
    *ret_per_second = (double)done * 1e6 / (now_us() - start);
    return r;
}

static int bench_sample(struct bench *b, struct command *c, bool keep, double *ret, struct err *err) {
    double v = 0;
    int r = b->parallel > 0 && keep ? command_block(b, c, &v, err) : command_once(b, c, &v, err);
    if (r < 0)
        return r;
    if (keep && !c->failed)
        c->samples[c->n_samples++] = v;
    if (ret)
        *ret = v;
    return 0;
}

/* Fills the caches, and finds out which commands are too slow to take part in every round. */
static int bench_warm_up(struct bench *b, struct err *err) {
    for (size_t i = 0; i < b->n_commands; i++) {
        struct command *c = &b->commands[i];
        double us = 0;
        for (int k = 0; k < WARMUPS && !c->failed; k++) {
            int r = bench_sample(b, c, false, &us, err);
            if (r < 0)
                return r;
        }
        double total = us * (double)b->rounds, budget = (double)b->budget_ms * 1e3;
        if (b->parallel == 0 && budget > 0 && total > budget)
            c->stride = MIN_OF((size_t)(total / budget) + 1, MAX_OF(b->rounds / ROUNDS_MIN_PER_COMMAND, 1));
    }
    return 0;
}

static int bench_run(struct bench *b, struct err *err) {
    size_t order[COMMANDS_MAX];
    int r = bench_warm_up(b, err);
    for (uint64_t round = 0; r >= 0 && round < b->rounds; round++) {
        shuffle(b, order);
        for (size_t i = 0; r >= 0 && i < b->n_commands; i++) {
            struct command *c = &b->commands[order[i]];
            if (c->failed || round % c->stride != 0)
                continue;
            rest(b->gap_ms);
            r = bench_sample(b, c, true, NULL, err);
        }
    }
    return r;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, size_t n, double p) {
    double at = p * (double)(n - 1);
    size_t low = (size_t)at, high = MIN_OF(low + 1, n - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - (double)low);
}

static void print_string(const char *s) {
    putchar('"');
    for (; *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\')
            printf("\\%c", ch);
        else if (ch < 0x20 || ch >= 0x7f)
            printf("\\u%04x", ch); /* bytes above ASCII come out as Latin-1: readable enough for a message */
        else
            putchar(ch);
    }
    putchar('"');
}

static void print_samples(struct command *c) {
    printf(", \"samples\": [");
    for (size_t i = 0; i < c->n_samples; i++)
        printf("%s%.1f", i > 0 ? ", " : "", c->samples[i]);
    qsort(c->samples, c->n_samples, sizeof(c->samples[0]), by_value);
    printf("], \"n\": %zu, \"p10\": %.1f, \"median\": %.1f, \"p90\": %.1f", c->n_samples,
           percentile(c->samples, c->n_samples, 0.1), percentile(c->samples, c->n_samples, 0.5),
           percentile(c->samples, c->n_samples, 0.9));
}

static void bench_print(struct bench *b) {
    printf("{\"unit\": \"%s\", \"commands\": [", b->parallel > 0 ? "per second" : "us");
    for (size_t i = 0; i < b->n_commands; i++) {
        struct command *c = &b->commands[i];
        printf("%s\n{\"name\": ", i > 0 ? "," : "");
        print_string(c->name);
        if (c->failed) {
            printf(", \"failed\": {\"status\": %d, \"stderr\": ", c->status);
            print_string(c->said);
            putchar('}');
        } else {
            print_samples(c);
        }
        putchar('}');
    }
    printf("\n]}\n");
}

static int bench_become(const char *name, struct err *err) {
    struct passwd *pw = getpwnam(name);
    if (!pw)
        return err_usage(err, "there is no user '%s'", name);
    if (setgroups(0, NULL) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
        return err_sys(err, -errno, "become '%s'", name);
    if (setenv("USER", name, 1) < 0 || setenv("LOGNAME", name, 1) < 0)
        return err_oom(err);
    return 0;
}

/* "FD<PATH" in front of the program. Returns 1 if this word was one, 0 if the program begins here. */
static int command_add_open(struct command *c, char *word, struct err *err) {
    char *path = strchr(word, '<');
    uint64_t fd;
    if (!path || word[strspn(word, "0123456789")] != '<')
        return 0;
    if (c->n_opens == OPENS_MAX)
        return err_usage(err, "'%s' wants more than %d files", c->name, OPENS_MAX);
    *path++ = '\0';
    int r = parse_u64(word, OPEN_FD_MIN, OPEN_FD_MAX, &fd, err);
    if (r < 0)
        return r;
    c->opens[c->n_opens++] = (struct opened){.fd = (int)fd, .path = path};
    return 1;
}

static int bench_add_command(struct bench *b, char **words, struct err *err) {
    int r = 1;
    if (!words[0])
        return err_usage(err, "a command needs a name and a program");
    if (b->n_commands == COMMANDS_MAX)
        return err_usage(err, "more than %d commands", COMMANDS_MAX);
    struct command *c = &b->commands[b->n_commands];
    *c = (struct command){.name = words[0], .argv = words + 1, .stride = 1};
    while (r > 0 && *c->argv) {
        r = command_add_open(c, *c->argv, err);
        c->argv += r > 0;
    }
    if (r < 0)
        return r;
    if (*c->argv && str_starts(*c->argv, "env:"))
        c->variable = *c->argv++ + strlen("env:");
    if (*c->argv && str_starts(*c->argv, "socket:")) {
        c->socket = *c->argv++ + strlen("socket:");
        if (b->parallel > 0)
            return err_usage(err, "'%s': a socket is not measured with --parallel", c->name);
    }
    if (!*c->argv)
        return err_usage(err, "'%s' names no program", c->name);
    c->samples = calloc(b->rounds, sizeof(c->samples[0]));
    if (!c->samples)
        return err_oom(err);
    for (char **w = c->argv; *w; w++)
        if (strstr(*w, SERIAL_MARK)) {
            c->mark = w;
            c->mark_text = *w;
        }
    b->n_commands++;
    return 0;
}

/* "NAME ARG... :: NAME ARG..."; the words are used in place. */
static int bench_add_commands(struct bench *b, char **words, struct err *err) {
    char **first = words;
    for (char **w = words;; w++) {
        bool last = !*w;
        if (!last && strcmp(*w, "::") != 0)
            continue;
        *w = NULL;
        int r = bench_add_command(b, first, err);
        if (r < 0 || last)
            return r;
        first = w + 1;
    }
}

static int bench_option(struct bench *b, const struct opt_iter *it, struct err *err) {
    switch ((enum opt_id)it->id) {
    case OPT_USER:
        b->user = it->value;
        return 0;
    case OPT_CHDIR:
        b->directory = it->value;
        return 0;
    case OPT_ROUNDS:
        return parse_u64(it->value, 1, ROUNDS_MAX, &b->rounds, err);
    case OPT_PARALLEL:
        return parse_u64(it->value, 1, PARALLEL_MAX, &b->parallel, err);
    case OPT_BLOCK:
        return parse_duration(it->value, &b->block_ms, err);
    case OPT_BUDGET:
        return parse_duration(it->value, &b->budget_ms, err);
    case OPT_GAP:
        return parse_duration(it->value, &b->gap_ms, err);
    }
    BUG("an option without a case");
}

static int bench_open(struct bench *b, struct err *err) {
    b->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (b->null_fd < 0)
        return err_sys(err, -errno, "open '/dev/null'");
    b->stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    if (b->stderr_fd < 0 || fcntl(b->stderr_fd, F_SETFL, O_APPEND) < 0)
        return err_sys(err, -errno, "make a log of errors");
    if (b->user) {
        int r = bench_become(b->user, err);
        if (r < 0)
            return r;
    }
    if (b->directory && chdir(b->directory) < 0)
        return err_sys(err, -errno, "change to '%s'", b->directory);
    return 0;
}

static void bench_done(struct bench *b) {
    for (size_t i = 0; i < b->n_commands; i++)
        free(b->commands[i].samples);
    if (b->null_fd >= 0)
        close(b->null_fd);
    if (b->stderr_fd >= 0)
        close(b->stderr_fd);
}

int main(int argc, char **argv) {
    CLEANUP(bench_done)
    struct bench b = {.rounds = 100, .block_ms = 1000, .random = 0x9e3779b97f4a7c15, .null_fd = -1, .stderr_fd = -1};
    struct err err = {0};
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;
    while ((r = opt_next(&it, &err)) > 0) {
        r = bench_option(&b, &it, &err);
        if (r < 0)
            break;
    }
    if (r >= 0)
        r = bench_add_commands(&b, argv + it.pos, &err);
    if (r >= 0)
        r = bench_open(&b, &err);
    if (r >= 0)
        r = bench_run(&b, &err);
    if (r < 0) {
        fprintf(stderr, "spawn: %s\n", err.msg);
        return err_exit_status(&err);
    }
    bench_print(&b);
    return 0;
}
