/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a broker: started when the gate needs one, and again when it ended. */
#include "supervisor/credential/broker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "supervisor/credential/castock.h"
#include "supervisor/credential/ssh_outside.h"
#include "supervisor/credential/vault_spawn.h"
#include "supervisor/helper.h"

enum {
    PAUSE_FIRST_MS = 100, /* between two brokers for one gate */
    PAUSE_MOST_MS = 5000,
    LIVED_MS = 60 * 1000, /* after so long it is not in a loop of crashes */
    REAP_MS = 100,        /* while a vault runs: its messages are printed soon */
    LAST_WORDS_MS = 1000,
    MESSAGES_PER_TURN = 256,
    TOUCH_PAUSE_MS = 10 * 1000,
    VAULT_END_MS = 5000,
    END_NAP_MS = 10
};

enum { LINE_MAX_BYTES = 400, VAULTS_MAX = GRANTS_MAX };

struct vault_child {
    pid_t pid;
    int messages; /* its stderr */
    uint32_t index;
};

struct brokerkeeper {
    struct broker_opts opts;
    pid_t pid; /* -1: none runs */
    int sock;
    unsigned starts; /* for this gate */
    uint64_t started_ms, next_ms;
    unsigned pause_ms;   /* after the next start */
    bool reported;       /* that one ended badly */
    bool vault_reported; /* that no vault can be started */

    struct vault_child vaults[VAULTS_MAX];
    size_t n_vaults;
    char said[LINE_MAX_BYTES]; /* the last message of one: a client that tries again and again must not fill the screen */
    int uses;                  /* the folder secret-use; -1: not open */
    bool uses_failed;
    uint64_t touched_ms[GRANTS_MAX]; /* 0: not yet */
};

/* Takes fd (-1: none). It reads at once, or it is stuck or taken over: few messages go there. Negative: it has to be given up. */
static int send_broker(struct brokerkeeper *b, const struct broker_msg *m, int fd) {
    CLEANUP(closep) int owned = fd;

    return sock_send(b->sock, m, sizeof *m, &owned, owned >= 0 ? 1 : 0);
}

/* Vaults ----------------------------------------------------------------------------------------------------------- */

/* Through us: the terminal may be in raw mode. */
static void pass_message(struct brokerkeeper *b, const struct vault_child *v) {
    char text[LINE_MAX_BYTES];
    const char *line = helper_message(v->messages, text, sizeof text);

    if (!line[0] || str_eq(text, b->said))
        return;
    log_line("%s", line);
    memcpy(b->said, text, sizeof text);
}

static void forget_vault(struct brokerkeeper *b, size_t i) {
    pass_message(b, &b->vaults[i]);
    close(b->vaults[i].messages);
    b->vaults[i] = b->vaults[--b->n_vaults];
}

static void reap_vaults(struct brokerkeeper *b) {
    for (size_t i = 0; i < b->n_vaults;)
        if (waitpid(b->vaults[i].pid, NULL, WNOHANG) == 0)
            i++;
        else
            forget_vault(b, i);
}

/* One that refreshes tokens: ended in the middle, it would lose the new refresh token, and with it the login. */
static bool has_delicate(const struct brokerkeeper *b) {
    for (size_t i = 0; i < b->n_vaults; i++)
        if (b->opts.grants[b->vaults[i].index].c.token_url)
            return true;
    return false;
}

static void end_vaults(struct brokerkeeper *b) {
    uint64_t until = clock_ms() + VAULT_END_MS;

    reap_vaults(b);
    while (has_delicate(b) && clock_ms() < until) {
        poll(NULL, 0, END_NAP_MS);
        reap_vaults(b);
    }
    while (b->n_vaults) {
        process_end(b->vaults[0].pid);
        forget_vault(b, 0);
    }
}

static bool has_vault(const struct brokerkeeper *b, uint32_t index) {
    for (size_t i = 0; i < b->n_vaults; i++)
        if (b->vaults[i].index == index)
            return true;
    return false;
}

/* *ret: the broker's end. */
static int start_vault(struct brokerkeeper *b, struct vault_child v, bool fresh, int *ret, struct err *err) {
    CLEANUP(helper_ends_done) struct helper_ends e = HELPER_ENDS_INIT;
    const struct credential *c = &b->opts.grants[v.index].c;
    struct vault_job job = {.verb = "--get", .name = c->name, .of = c, .fresh = fresh, .environ_ = b->opts.environ_};
    int r = vault_start_talking(&job, &e, &v.pid, err);

    if (r < 0)
        return r;
    v.messages = TAKE_FD(e.messages);
    b->vaults[b->n_vaults++] = v;
    *ret = TAKE_FD(e.sock);
    return 0;
}

static int on_want_vault(struct brokerkeeper *b, const struct broker_msg *m) {
    struct broker_msg answer = {.type = BROKER_MSG_VAULT, .index = m->index};
    struct err err = {0};
    int sock = -1, r = -EBUSY;

    if (m->index >= b->opts.n_grants)
        return -EBADMSG;
    if (!has_vault(b, m->index))
        r = start_vault(b, (struct vault_child){.index = m->index}, m->value == 1, &sock, &err);
    if (r < 0 && err.msg[0] && !b->vault_reported) {
        b->vault_reported = true;
        log_err(&err);
    }
    answer.value = r < 0 ? -r : 0;
    return send_broker(b, &answer, sock);
}

/* The user's ssh-agent --------------------------------------------------------------------------------------------- */

static int on_want_agent(struct brokerkeeper *b) {
    int fd = -1, r = b->opts.ssh ? ssh_outside_connect(b->opts.environ_, &fd) : -EACCES;

    return send_broker(b, &(struct broker_msg){.type = BROKER_MSG_AGENT, .value = -r}, fd);
}

/* Used ------------------------------------------------------------------------------------------------------------- */

static int open_uses(struct brokerkeeper *b) {
    CLEANUP(freep) char *path = b->opts.state ? str_dupf("%s/secret-use", b->opts.state) : NULL;
    struct err err = {0};

    if (b->uses < 0 && path && !b->uses_failed && paths_make_dirs(path, &err) == 0)
        b->uses = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    b->uses_failed = b->uses < 0;
    return b->uses;
}

/* For `bawn secret ls`: its time is that of the last use. The name has no slash: credential_name_ok(). */
static void touch_use(struct brokerkeeper *b, uint32_t index) {
    uint64_t now = clock_ms();
    CLEANUP(closep) int fd = -1;

    if ((b->touched_ms[index] && now - b->touched_ms[index] < TOUCH_PAUSE_MS) || open_uses(b) < 0)
        return;
    b->touched_ms[index] = now;
    fd = openat(b->uses, b->opts.grants[index].c.name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0)
        futimens(fd, NULL);
}

static int on_used(struct brokerkeeper *b, const struct broker_msg *m) {
    bool is_ssh = m->index == UINT32_MAX;

    if (!is_ssh && m->index >= b->opts.n_grants)
        return -EBADMSG;
    if (!is_ssh && m->value == 0)
        touch_use(b, m->index);
    b->opts.used(b->opts.arg, m, is_ssh ? NULL : &b->opts.grants[m->index]);
    return 0;
}

/* One message that has passed brokermsg_sane(). Negative: the broker has to be given up. */
static int take_request(struct brokerkeeper *b, const struct broker_msg *m) {
    switch (m->type) {
    case BROKER_MSG_WANT_VALUE:
        return on_want_vault(b, m);
    case BROKER_MSG_WANT_AGENT:
        return on_want_agent(b);
    case BROKER_MSG_USED:
        return on_used(b, m);
    default:
        return -EBADMSG;
    }
}

/* The keeper of brokers ------------------------------------------------------------------------------------------------ */

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
    end_vaults(b);
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
    return MAX_OF(clock_left_ms(b->next_ms), 0);
}

/* The end ---------------------------------------------------------------------------------------------------------- */

/* 1: a message; 0: none now. */
static int receive_message(struct brokerkeeper *b, struct broker_msg *ret) {
    int r = helper_recv(b->sock, ret, sizeof *ret);

    return r == 1 && brokermsg_sane(ret) < 0 ? -EBADMSG : r;
}

/* The broker counts equal uses together, and reports the rest when its socket is shut down: for the log. One that does not end
 * then is not waited for. */
static void take_last_words(struct brokerkeeper *b) {
    uint64_t until = clock_ms() + LAST_WORDS_MS;
    struct pollfd p = {.fd = b->sock, .events = POLLIN};
    struct broker_msg m;
    int r = 0, left;

    shutdown(b->sock, SHUT_WR);
    while (r >= 0 && (left = clock_left_ms(until)) > 0) {
        if (poll(&p, 1, left) < 0 && errno != EINTR)
            return;
        r = receive_message(b, &m);
        if (r == 1 && m.type == BROKER_MSG_USED)
            r = take_request(b, &m);
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
    char how[HELPER_END_SIZE];
    int status = process_end(b->pid);

    b->pid = -1;
    brokerkeeper_end(b, false);
    if (clock_ms() - b->started_ms >= LIVED_MS)
        b->reported = false;
    if (b->reported)
        return;
    b->reported = true;
    log_line("network: bawn-broker %s; another one is started when it is needed", helper_how_ended(status, why, how));
}

/* The beginning ---------------------------------------------------------------------------------------------------- */

static int make_pair(int *ret_ours, int *ret_theirs) {
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return r;
    *ret_ours = pair[0];
    *ret_theirs = pair[1];
    return 0;
}

static int start_broker(struct brokerkeeper *b, int *ret_gate, struct err *err) {
    CLEANUP(closep) int gate = -1, their_gate = -1, ours = -1, theirs = -1, ca = -1;
    const char *ca_path = b->opts.ca ? b->opts.ca->path : NULL; /* without one its descriptor is /dev/null */
    struct helper h = {.name = "bawn-broker",
                       .program = b->opts.program,
                       .argv = (char *[]){"bawn-broker", "--serve", NULL},
                       .envp = (char *[]){NULL},
                       .n_fds = BROKER_FD_SUPERVISOR + 1,
                       .cgroup = b->opts.cgroup};
    int r = make_pair(&gate, &their_gate);

    r = r < 0 ? r : make_pair(&ours, &theirs);
    if (r == 0 && fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r < 0)
        return err_sys(err, r, "start bawn-broker");
    if (ca_path && (ca = open(ca_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return err_sys(err, -errno, "open the certificate authority");
    h.fds[STDIN_FILENO] = h.fds[STDOUT_FILENO] = -1;
    h.fds[STDERR_FILENO] = STDERR_FILENO;
    h.fds[BROKER_FD_GATE] = their_gate;
    h.fds[BROKER_FD_CA] = ca;
    h.fds[BROKER_FD_SUPERVISOR] = theirs;
    r = helper_start(&h, &b->pid, err);
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

void brokerkeeper_config(struct brokerkeeper *b, int config) {
    CLEANUP(closep) int owned = config;

    if (b->pid > 0 && send_broker(b, &(struct broker_msg){.type = BROKER_MSG_CONFIG}, TAKE_FD(owned)) < 0)
        broker_lost(b, "it did not listen");
}

static void tell_broker(struct brokerkeeper *b, enum broker_msg_type type, uint32_t index) {
    if (b->pid > 0 && send_broker(b, &(struct broker_msg){.type = type, .index = index}, -1) < 0)
        broker_lost(b, "it did not listen");
}

void brokerkeeper_fetch(struct brokerkeeper *b, uint32_t index) {
    tell_broker(b, BROKER_MSG_FETCH, index);
}

void brokerkeeper_renew(struct brokerkeeper *b, const struct grant *grant) {
    tell_broker(b, BROKER_MSG_RENEW, (uint32_t)(grant - b->opts.grants));
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

    reap_vaults(b);
    for (int i = 0; b->pid > 0 && i < MESSAGES_PER_TURN; i++) {
        r = receive_message(b, &m);
        if (r == 0)
            return;
        r = r < 0 ? r : take_request(b, &m);
        if (r < 0)
            broker_lost(b, r == -EBADMSG ? "it did not keep to the protocol" : r == -EAGAIN ? "it did not listen" : NULL);
    }
}
