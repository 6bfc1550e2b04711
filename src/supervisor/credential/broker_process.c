/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a broker: started when the gate needs one, and again when it ended. */
#include "supervisor/credential/broker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "supervisor/credential/broker_priv.h"
#include "supervisor/credential/castock.h"
#include "supervisor/helper.h"

enum {
    PAUSE_FIRST_MS = 100, /* between two brokers for one gate */
    PAUSE_MOST_MS = 5000,
    LIVED_MS = 60 * 1000, /* after so long it is not in a loop of crashes */
    REAP_MS = 100,        /* while a vault runs: its messages are printed soon */
    LAST_WORDS_MS = 1000,
    MESSAGES_PER_TURN = 256
};

int brokerkeeper_new(const struct broker_opts *opts, struct brokerkeeper **ret, struct err *err) {
    struct brokerkeeper *b = calloc(1, sizeof *b);

    if (!b)
        return err_oom(err);
    *b = (struct brokerkeeper){.opts = *opts, .pid = -1, .sock = -1, .uses = -1, .pause_ms = PAUSE_FIRST_MS};
    *ret = b;
    return 0;
}

void brokerkeeper_free(struct brokerkeeper *b) {
    if (!b)
        return;
    brokerkeeper_end(b, true);
    brokerkeeper_end_vaults(b);
    closep(&b->uses);
    free(b);
}

bool brokerkeeper_needed(const struct brokerkeeper *b) {
    return (b->opts.ca && b->opts.ca->path) || b->opts.n_grants || b->opts.ssh;
}

bool brokerkeeper_runs(const struct brokerkeeper *b) {
    return b->pid > 0;
}

int brokerkeeper_pause(const struct brokerkeeper *b) {
    uint64_t now = clock_ms();

    return b->next_ms <= now ? 0 : (int)(b->next_ms - now);
}

/* The end ---------------------------------------------------------------------------------------------------------- */

/* 1: a message; 0: none now. */
static int receive_message(struct brokerkeeper *b, struct broker_msg *ret) {
    long n = sock_recv(b->sock, ret, sizeof *ret, NULL, NULL);

    if (n == -EAGAIN)
        return 0;
    if (n != (long)sizeof *ret)
        return n < 0 ? (int)n : n == 0 ? -EPIPE : -EBADMSG;
    return brokermsg_sane(ret) < 0 ? -EBADMSG : 1;
}

/* The broker counts equal uses together, and reports the rest when its socket is shut down: for the log. One that does not end
 * then is not waited for. */
static void take_last_words(struct brokerkeeper *b) {
    uint64_t now = clock_ms(), until = now + LAST_WORDS_MS;
    struct pollfd p = {.fd = b->sock, .events = POLLIN};
    struct broker_msg m;
    int r = 0;

    shutdown(b->sock, SHUT_WR);
    for (; r >= 0 && now < until; now = clock_ms()) {
        if (poll(&p, 1, (int)(until - now)) < 0 && errno != EINTR)
            return;
        r = receive_message(b, &m);
        if (r == 1 && m.type == BROKER_MSG_USED)
            r = brokerkeeper_take(b, &m);
    }
}

void brokerkeeper_end(struct brokerkeeper *b, bool gate_ended) {
    if (b->sock >= 0)
        take_last_words(b);
    if (b->pid > 0)
        process_end(b->pid);
    b->pid = -1;
    closep(&b->sock);
    if (gate_ended) {
        b->starts = 0;
        b->next_ms = 0;
        b->pause_ms = PAUSE_FIRST_MS;
    }
}

/* why NULL: it ended by itself. Requests that wait at the gate are refused; the next one asks for another broker. */
static void broker_lost(struct brokerkeeper *b, const char *why) {
    int status = process_end(b->pid);

    b->pid = -1;
    brokerkeeper_end(b, false);
    if (clock_ms() - b->started_ms >= LIVED_MS)
        b->reported = false;
    if (b->reported)
        return;
    b->reported = true;
    if (why)
        log_line("network: bawn-broker had to be ended, %s; another one is started when it is needed", why);
    else if (status >= 0 && WIFSIGNALED(status))
        log_line("network: bawn-broker was ended by signal %d; another one is started when it is needed", WTERMSIG(status));
    else
        log_line("network: bawn-broker ended; another one is started when it is needed");
}

/* The beginning ---------------------------------------------------------------------------------------------------- */

static int open_ca(const struct brokerkeeper *b, int *ret, struct err *err) {
    if (!b->opts.ca || !b->opts.ca->path)
        return 0; /* becomes /dev/null */
    *ret = open(b->opts.ca->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(err, -errno, "open the certificate authority") : 0;
}

static int spawn(struct brokerkeeper *b, int gate, int supervisor, struct err *err) {
    CLEANUP(closep) int ca = -1;
    struct helper h = {.name = "bawn-broker",
                       .program = b->opts.program,
                       .argv = (char *[]){"bawn-broker", "--serve", NULL},
                       .envp = (char *[]){NULL},
                       .n_fds = BROKER_FD_SUPERVISOR + 1,
                       .cgroup = b->opts.cgroup};
    int r = open_ca(b, &ca, err);

    if (r < 0)
        return r;
    h.fds[STDIN_FILENO] = h.fds[STDOUT_FILENO] = -1;
    h.fds[STDERR_FILENO] = STDERR_FILENO;
    h.fds[BROKER_FD_GATE] = gate;
    h.fds[BROKER_FD_CA] = ca;
    h.fds[BROKER_FD_SUPERVISOR] = supervisor;
    return helper_start(&h, &b->pid, err);
}

static int start_broker(struct brokerkeeper *b, int *ret_gate, struct err *err) {
    CLEANUP(closep) int gate = -1, their_gate = -1, ours = -1, theirs = -1;
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return err_sys(err, r, "start bawn-broker");
    gate = pair[0];
    their_gate = pair[1];
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "start bawn-broker");
    ours = pair[0];
    theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, -errno, "start bawn-broker");
    r = spawn(b, their_gate, theirs, err);
    if (r < 0)
        return r;
    b->sock = TAKE_FD(ours);
    *ret_gate = TAKE_FD(gate);
    return 0;
}

int brokerkeeper_start(struct brokerkeeper *b, int config, int *ret_sock, struct err *err) {
    CLEANUP(closep) int owned = config, gate = -1;
    int r;

    if (clock_ms() - b->started_ms >= LIVED_MS) {
        b->starts = 0;
        b->pause_ms = PAUSE_FIRST_MS;
    }
    if (b->starts >= BROKERKEEPER_STARTS_MAX)
        return -EDQUOT;
    if (brokerkeeper_pause(b) > 0)
        return -EAGAIN;
    brokerkeeper_end(b, false);
    b->starts++;
    b->started_ms = clock_ms();
    b->next_ms = b->started_ms + b->pause_ms;
    b->pause_ms = MIN_OF(2 * b->pause_ms, (unsigned)PAUSE_MOST_MS);
    r = start_broker(b, &gate, err);
    if (r < 0)
        return r;
    if (b->opts.ca && b->opts.ca->path)
        castock_use(b->opts.ca);
    brokerkeeper_config(b, TAKE_FD(owned));
    if (b->pid < 0)
        return err_set(err, -EPIPE, "bawn-broker ended at once");
    *ret_sock = TAKE_FD(gate);
    return 0;
}

/* In the loop ------------------------------------------------------------------------------------------------------ */

/* It reads at once or is not itself any more: few messages go there. */
int brokerkeeper_send(struct brokerkeeper *b, const struct broker_msg *m, int fd) {
    CLEANUP(closep) int owned = fd;

    return sock_send(b->sock, m, sizeof *m, &owned, owned >= 0 ? 1 : 0);
}

void brokerkeeper_config(struct brokerkeeper *b, int config) {
    CLEANUP(closep) int owned = config;

    if (b->pid > 0 && brokerkeeper_send(b, &(struct broker_msg){.type = BROKER_MSG_CONFIG}, TAKE_FD(owned)) < 0)
        broker_lost(b, "it did not listen");
}

void brokerkeeper_renew(struct brokerkeeper *b, const struct grant *grant) {
    const struct broker_msg m = {.type = BROKER_MSG_RENEW, .index = (uint32_t)(grant - b->opts.grants)};

    if (b->pid > 0 && brokerkeeper_send(b, &m, -1) < 0)
        broker_lost(b, "it did not listen");
}

size_t brokerkeeper_poll(const struct brokerkeeper *b, struct pollfd *out) {
    if (b->pid < 0)
        return 0;
    *out = (struct pollfd){.fd = b->sock, .events = POLLIN};
    return 1;
}

int brokerkeeper_timeout(const struct brokerkeeper *b) {
    return b->n_vaults ? REAP_MS : -1;
}

void brokerkeeper_handle(struct brokerkeeper *b) {
    struct broker_msg m;
    int r = 0;

    brokerkeeper_reap(b);
    for (int i = 0; b->pid > 0 && i < MESSAGES_PER_TURN; i++) {
        r = receive_message(b, &m);
        if (r == 0)
            return;
        r = r < 0 ? r : brokerkeeper_take(b, &m);
        if (r < 0)
            broker_lost(b, r == -EBADMSG ? "it did not keep to the protocol" : r == -EAGAIN ? "it did not listen" : NULL);
    }
}
