/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor that does nothing but have a CA: castock_cli STATE. Takes one, prints its path, then obeys lines on stdin:
 *     broker    starts bawn-broker and prints its pid
 *     leaf HOST SPKI-IN-HEX    prints the answer's status and its data in hex
 *     bench N   takes and gives back N times, prints microseconds for one take
 * At the end of stdin it gives the CA back. $BAWN_BROKER is the path of bawn-broker, $BAWN_CONFIG a file with its configuration.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine.h"
#include "jail/cgroup/cgroup.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/brokermsg.h"
#include "supervisor/credential/castock.h"
#include "supervisor/helper.h"

/* In the place of the one that looks beside bawn. */
int engine_helper(const char *name UNUSED, char *ret_path UNUSED, size_t size UNUSED) {
    return open(getenv("BAWN_BROKER"), O_RDONLY | O_CLOEXEC);
}

/* A stock's helpers are in no sandbox's control group. */
int cgroup_charge(const struct cgroup *cg UNUSED) {
    return -ENOSYS;
}

static void take(const char *state, struct castock *c) {
    struct err err = {0};

    if (castock_take(state, true, c, &err) < 0) {
        log_err(&err);
        exit(1);
    }
}

/* Its sockets to us: the gate's end, and the supervisor's. */
struct sockets {
    int gate, supervisor;
};

static void start(struct castock *c, struct sockets *s, int *pid) {
    struct broker_msg m = {.type = BROKER_MSG_CONFIG};
    int gate[2], supervisor[2], config = open(getenv("BAWN_CONFIG"), O_RDONLY | O_CLOEXEC);
    int ca = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err = {0};

    if (sock_pair(gate) < 0 || sock_pair(supervisor) < 0 ||
        helper_start(&(struct helper){.name = "bawn-broker",
                                      .argv = (char *[]){"bawn-broker", "--serve", NULL},
                                      .envp = (char *[]){NULL},
                                      .fds = {-1, -1, 2, gate[1], ca, supervisor[1]},
                                      .n_fds = 6},
                     pid, &err) < 0 ||
        sock_send(supervisor[0], &m, sizeof m, &config, 1) < 0) {
        log_err(&err);
        exit(1);
    }
    castock_use(c);
    close(gate[1]);
    close(supervisor[1]);
    close(ca);
    close(config);
    *s = (struct sockets){gate[0], supervisor[0]};
}

static void leaf(int sock, const char *host, const char *hex) {
    struct {
        struct broker_request head;
        uint8_t data[4096];
    } q = {.head = {.type = BROKER_LEAF, .id = 5, .port = 443}};
    struct {
        struct broker_answer head;
        uint8_t data[4096];
    } a;

    snprintf(q.head.host, sizeof q.head.host, "%s", host);
    for (; hex[2 * q.head.len] && hex[2 * q.head.len + 1]; q.head.len++)
        sscanf(hex + 2 * q.head.len, "%2hhx", &q.data[q.head.len]);
    if (sock_send(sock, &q, sizeof q.head + q.head.len, NULL, 0) < 0 ||
        sock_recv(sock, &a, sizeof a, NULL, NULL) < (long)sizeof a.head || a.head.id != q.head.id)
        exit(1);
    printf("%d ", a.head.status);
    for (uint32_t i = 0; i < a.head.len; i++)
        printf("%02x", a.data[i]);
    printf("\n");
}

static void bench(const char *state, int n) {
    struct timespec from, to;
    struct castock c;
    double sum = 0;

    for (int i = 0; i < n; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        take(state, &c);
        clock_gettime(CLOCK_MONOTONIC, &to);
        sum += (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
        castock_done(&c);
    }
    printf("%.1f\n", sum / n);
}

int main(int argc, char **argv) {
    char line[8192], host[512], hex[4096];
    struct sockets s = {-1, -1};
    int pid = -1, n;
    struct castock c;

    if (argc != 2)
        return 64;
    take(argv[1], &c);
    printf("%s\n", c.path);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (str_starts(line, "broker")) {
            start(&c, &s, &pid);
            printf("%d\n", pid);
        } else if (sscanf(line, "leaf %511s %4095s", host, hex) == 2) {
            leaf(s.gate, host, hex);
        } else if (sscanf(line, "bench %d", &n) == 1) {
            bench(argv[1], n);
        }
        fflush(stdout);
    }
    closep(&s.gate);
    closep(&s.supervisor);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    castock_done(&c);
    return 0;
}
