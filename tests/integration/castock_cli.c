/*
 * A supervisor that does nothing but have a CA: castock_cli STATE. Takes one, prints its path, then obeys lines on stdin:
 *     broker    starts bawn-broker and prints its pid
 *     leaf HOST SPKI-IN-HEX    prints the answer's status and its data in hex
 *     bench N   takes and gives back N times, prints microseconds for one take
 * At the end of stdin it gives the CA back. $BAWN_BROKER is the path of bawn-broker.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/brokermsg.h"
#include "supervisor/castock.h"

/* In the place of the one that looks beside bawn. */
int engine_helper(const char *name UNUSED, char *ret_path UNUSED, size_t size UNUSED) {
    return open(getenv("BAWN_BROKER"), O_RDONLY | O_CLOEXEC);
}

static void take(const char *state, struct castock *c) {
    struct err err = {0};

    if (castock_take(state, true, c, &err) < 0) {
        log_err(&err);
        exit(1);
    }
}

static void leaf(int sock, const char *host, const char *hex) {
    struct broker_request q = {.type = BROKER_LEAF, .id = 5};
    struct broker_answer a;

    snprintf(q.host, sizeof q.host, "%s", host);
    for (; hex[2 * q.len] && hex[2 * q.len + 1]; q.len++)
        sscanf(hex + 2 * q.len, "%2hhx", &q.data[q.len]);
    if (sock_send(sock, &q, sizeof q, NULL, 0) < 0 || sock_recv(sock, &a, sizeof a, NULL, NULL) != sizeof a || a.id != q.id)
        exit(1);
    printf("%d ", a.status);
    for (uint32_t i = 0; i < a.len; i++)
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
    struct err err = {0};
    int sock = -1, pid = -1, n;
    struct castock c;

    if (argc != 2)
        return 64;
    take(argv[1], &c);
    printf("%s\n", c.path);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (str_starts(line, "broker")) {
            if (castock_broker(&c, &sock, &pid, &err) < 0)
                log_err(&err);
            printf("%d\n", pid);
        } else if (sscanf(line, "leaf %511s %4095s", host, hex) == 2) {
            leaf(sock, host, hex);
        } else if (sscanf(line, "bench %d", &n) == 1) {
            bench(argv[1], n);
        }
        fflush(stdout);
    }
    closep(&sock);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    castock_done(&c);
    return 0;
}
