/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh-agent inside, its outer half. Requests wait in line, and one after the other goes to the user's agent:
 *
 *     list    ask for its keys                      -> those that are chosen
 *     sign    judge -> ask for its keys -> is it one of the chosen? -> judge again, as policy may be another one by now -> sign
 *
 * The keys are asked for each time: what the user adds to or takes from the agent counts at once. The connection stays open, and
 * is asked for again when it broke; a request that an old connection could not take is tried once more on a new one.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "broker/ssh/ssh_choice.h"
#include "broker/ssh/ssh_judge.h"
#include "os/clock.h"
#include "os/fd.h"
#include "proto/ssh_agent.h"

enum { JOBS_MAX = 256, LENGTH = 4, SSH_LINK_MAX = SSH_AGENT_MESSAGE_MAX + LENGTH };

/* The connection to the user's agent: one message out, one back, never waiting. The agent may hang, or ask its user first. */
struct ssh_link {
    int fd; /* -1: none */
    struct buf out;
    size_t sent;
    uint8_t *in; /* SSH_LINK_MAX bytes, once there is a connection */
    size_t in_len;
};

/* Takes fd, also on failure. */
static int ssh_link_init(struct ssh_link *l, int fd) {
    *l = (struct ssh_link){.fd = fd, .out = BUF_INIT(SSH_LINK_MAX), .in = malloc(SSH_LINK_MAX)};
    if (l->in)
        return 0;
    closep(&l->fd);
    return -ENOMEM;
}

static void ssh_link_done(struct ssh_link *l) {
    closep(&l->fd);
    buf_done(&l->out);
    free(l->in);
    *l = (struct ssh_link){.fd = -1};
}

/* By sendmsg and recvmsg, which the jail has for its other sockets. 0: full, or empty. */
static long link_write(struct ssh_link *l) {
    struct iovec iov = {.iov_base = l->out.data + l->sent, .iov_len = l->out.len - l->sent};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n;
}

static long link_read(struct ssh_link *l) {
    struct iovec iov = {.iov_base = l->in + l->in_len, .iov_len = SSH_LINK_MAX - l->in_len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n ? n : -ECONNRESET;
}

/* A message without its length. The last one's answer has been taken. -ENOMEM */
static int ssh_link_send(struct ssh_link *l, uint8_t type, struct ssh_bytes payload) {
    buf_clear(&l->out);
    l->sent = l->in_len = 0;
    ssh_put_u32(&l->out, (uint32_t)payload.len + 1);
    buf_addc(&l->out, (char)type);
    if (payload.len)
        buf_add(&l->out, payload.p, payload.len);
    return buf_ok(&l->out) ? 0 : -ENOMEM;
}

/* Does what can be done. 1: an answer is here, without its length in *ret, until the next call; 0: not yet; -errno: it is gone,
 * or spoke without being asked. */
static int ssh_link_turn(struct ssh_link *l, struct ssh_bytes *ret) {
    bool asked = l->out.len > 0;
    long n = l->sent < l->out.len ? link_write(l) : 0;

    if (n < 0)
        return (int)n;
    l->sent += (size_t)n;
    n = link_read(l);
    if (n < 0)
        return (int)n;
    if (n > 0 && (!asked || l->sent < l->out.len))
        return -EBADMSG;
    l->in_len += (size_t)n;
    n = ssh_agent_frame(l->in, l->in_len);
    if (n < 0 || (n > 0 && (size_t)n != l->in_len))
        return -EBADMSG;
    if (n == 0)
        return 0;
    *ret = (struct ssh_bytes){l->in + LENGTH, (size_t)n - LENGTH};
    buf_clear(&l->out);
    l->sent = l->in_len = 0;
    return 1;
}

enum phase { WAITING, LISTING, SIGNING };

struct ssh_job {
    struct ssh_job *next;
    uint32_t id;
    bool sign, again; /* again: its first connection broke */
    struct ssh_guess guess;
    size_t bind_len, len;
    uint8_t data[]; /* bind, then the payload of SIGN_REQUEST */
};

struct ssh_relay {
    struct ssh_link link;
    enum phase phase; /* of the first job */
    bool wanted;      /* the supervisor was asked for a connection */
    bool used;        /* the connection has answered before */
    struct ssh_job *jobs;
    size_t n;
    uint64_t deadline; /* ms; of the first job */
};

int ssh_new(struct broker *b) {
    b->ssh = calloc(1, sizeof *b->ssh);
    if (!b->ssh)
        return -ENOMEM;
    b->ssh->link.fd = -1;
    return 0;
}

void ssh_free(struct broker *b) {
    struct ssh_job *j;

    while (b->ssh && (j = b->ssh->jobs)) {
        b->ssh->jobs = j->next;
        free(j);
    }
    if (b->ssh)
        ssh_link_done(&b->ssh->link);
    free(TAKE_PTR(b->ssh));
}

static struct ssh_bytes job_bind(const struct ssh_job *j) {
    return (struct ssh_bytes){j->data, j->bind_len};
}

static struct ssh_bytes job_payload(const struct ssh_job *j) {
    return (struct ssh_bytes){j->data + j->bind_len, j->len - j->bind_len};
}

/* Into the log: who was signed for, or why not. */
static void report_signature(struct broker *b, const struct ssh_sign *sign, const struct ssh_verdict *v, int status) {
    struct broker_msg m = {.type = BROKER_MSG_USED, .index = UINT32_MAX, .value = status, .port = v->port, .count = 1};
    char fingerprint[SSH_FINGERPRINT_SIZE];

    ssh_fingerprint(sign->key, fingerprint);
    snprintf(m.text, sizeof m.text, "%s%s%s", fingerprint, v->why ? " " : "", v->why ? v->why : "");
    snprintf(m.host, sizeof m.host, "%s", v->host);
    snprintf(m.method, sizeof m.method, "%s", v->what);
    broker_msg_send(b, &m);
}

static int judge_signature(struct broker *b, struct ssh_bytes bind, struct ssh_bytes payload, const struct ssh_guess *guess,
                           struct ssh_sign *ret_sign, struct ssh_verdict *ret) {
    int r = ssh_sign_parse(payload, ret_sign);

    if (r < 0)
        return r;
    r = ssh_judge(b, bind, ret_sign, guess, ret);
    if (r < 0)
        report_signature(b, ret_sign, ret, r);
    return r;
}

/* The first job is over. */
static void job_end(struct broker *b, int status, struct ssh_bytes data) {
    struct ssh_relay *s = b->ssh;
    struct ssh_job *j = s->jobs;

    s->jobs = j->next;
    s->n--;
    s->phase = WAITING;
    broker_answer_send(b, j->id, status, data.p, data.len);
    free(j);
}

static void all_end(struct broker *b, int status) {
    while (b->ssh->jobs)
        job_end(b, status, (struct ssh_bytes){0});
}

static void begin_job(struct broker *b) {
    struct ssh_relay *s = b->ssh;

    if (!s->jobs || s->phase != WAITING)
        return;
    if (s->link.fd < 0) {
        if (!s->wanted) {
            s->deadline = clock_ms() + BROKER_SSH_TIMEOUT_MS;
            s->wanted = true;
            broker_msg_send(b, &(struct broker_msg){.type = BROKER_MSG_WANT_AGENT});
        }
        return;
    }
    s->deadline = clock_ms() + BROKER_SSH_TIMEOUT_MS;
    s->phase = LISTING;
    if (ssh_link_send(&s->link, SSH_AGENTC_REQUEST_IDENTITIES, (struct ssh_bytes){0}) < 0)
        all_end(b, -ENOMEM);
}

static void enqueue(struct broker *b, uint32_t id, bool sign, struct ssh_bytes bind, struct ssh_bytes payload,
                    const struct ssh_guess *guess) {
    struct ssh_relay *s = b->ssh;
    struct ssh_job *j = s->n < JOBS_MAX ? calloc(1, sizeof *j + bind.len + payload.len) : NULL, **at;

    if (!j) {
        broker_answer_send(b, id, -EBUSY, NULL, 0);
        return;
    }
    j->id = id;
    j->sign = sign;
    j->guess = *guess;
    j->bind_len = bind.len;
    j->len = bind.len + payload.len;
    if (bind.len)
        memcpy(j->data, bind.p, bind.len);
    if (payload.len)
        memcpy(j->data + bind.len, payload.p, payload.len);
    for (at = &s->jobs; *at; at = &(*at)->next)
        ;
    *at = j;
    s->n++;
    begin_job(b);
}

void ssh_keys(struct broker *b, const struct broker_request *req, const uint8_t *data UNUSED) {
    if (!b->config.ssh || req->len)
        broker_answer_send(b, req->id, -EACCES, NULL, 0);
    else
        enqueue(b, req->id, false, (struct ssh_bytes){0}, (struct ssh_bytes){0}, &(struct ssh_guess){0});
}

void ssh_sign(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    struct ssh_guess guess = {.port = req->port <= UINT16_MAX ? (uint16_t)req->port : 0};
    struct broker_part parts[2];
    struct ssh_bytes bind, payload;
    struct ssh_verdict v;
    struct ssh_sign sign;
    int r = broker_parts_read(data, req->len, parts, ARRAY_LEN(parts));

    memcpy(guess.host, req->host, strnlen(req->host, BROKER_HOST_MAX));
    if (r == 0) {
        bind = (struct ssh_bytes){(const uint8_t *)parts[0].p, parts[0].len};
        payload = (struct ssh_bytes){(const uint8_t *)parts[1].p, parts[1].len};
        r = judge_signature(b, bind, payload, &guess, &sign, &v);
    }
    if (r < 0)
        broker_answer_send(b, req->id, -EACCES, NULL, 0);
    else
        enqueue(b, req->id, true, bind, payload, &guess);
}

/* The keys came, and one of them is to sign. */
static int go_on(struct broker *b, struct ssh_job *j, struct ssh_bytes msg) {
    struct ssh_relay *s = b->ssh;
    struct ssh_verdict v;
    struct ssh_sign sign;
    int r = judge_signature(b, job_bind(j), job_payload(j), &j->guess, &sign, &v);

    if (r < 0)
        return -EACCES;
    r = ssh_choice_has(b->config.ssh_keys ? b->config.ssh_keys : "", msg.p, msg.len, sign.key);
    if (r == 0) {
        v.why = "it is not one of the chosen keys";
        report_signature(b, &sign, &v, -EACCES);
        return -EACCES;
    }
    s->phase = SIGNING;
    return r < 0 ? r : ssh_link_send(&s->link, SSH_AGENTC_SIGN_REQUEST, job_payload(j));
}

static void take_keys(struct broker *b, struct ssh_bytes msg) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(SSH_AGENT_MESSAGE_MAX);
    struct ssh_job *j = b->ssh->jobs;
    int r;

    if (j->sign) {
        r = go_on(b, j, msg);
        if (r < 0)
            job_end(b, r, (struct ssh_bytes){0});
        return;
    }
    r = b->config.ssh ? ssh_choice_filter(b->config.ssh_keys ? b->config.ssh_keys : "", msg.p, msg.len, &out) : -EACCES;
    job_end(b, r, r < 0 ? (struct ssh_bytes){0} : (struct ssh_bytes){(const uint8_t *)out.data, out.len});
}

static void take_signature(struct broker *b, struct ssh_bytes msg) {
    struct ssh_reader r = ssh_reader_of(msg.p, msg.len);
    struct ssh_job *j = b->ssh->jobs;
    uint8_t type = ssh_get_u8(&r);
    struct ssh_bytes signature = ssh_get_string(&r);
    struct ssh_verdict v;
    struct ssh_sign sign;

    /* Its human was asked for consent and said no, the key is locked, ... */
    if (type != SSH_AGENT_SIGN_RESPONSE || !ssh_end(&r) || !signature.len) {
        job_end(b, -ENOKEY, (struct ssh_bytes){0});
        return;
    }
    if (judge_signature(b, job_bind(j), job_payload(j), &j->guess, &sign, &v) < 0) {
        job_end(b, -EACCES, (struct ssh_bytes){0});
        return;
    }
    report_signature(b, &sign, &v, 0);
    job_end(b, 0, msg);
}

/* It may only be old: the user's agent was started anew. */
static void link_lost(struct broker *b) {
    struct ssh_relay *s = b->ssh;
    bool old = s->used;

    ssh_link_done(&s->link);
    s->used = false;
    if (s->phase == WAITING)
        return;
    if (!old || s->jobs->again) {
        job_end(b, -ENOKEY, (struct ssh_bytes){0});
        return;
    }
    s->jobs->again = true;
    s->phase = WAITING;
}

void ssh_agent_fd(struct broker *b, int fd_or_error) {
    struct ssh_relay *s = b->ssh;
    int fd = fd_or_error;

    if (!s->wanted || s->link.fd >= 0) {
        closep(&fd);
        return;
    }
    s->wanted = false;
    if (fd < 0 || ssh_link_init(&s->link, fd) < 0)
        all_end(b, -ENOKEY);
    else
        begin_job(b);
}

/* Waiting requests are judged again before the answer. Nothing here points into the configuration. */
void ssh_configured(struct broker *b) {
    if (b->config.ssh)
        return;
    ssh_link_done(&b->ssh->link);
    b->ssh->wanted = b->ssh->used = false;
    all_end(b, -EACCES);
}

void ssh_poll_fill(struct broker *b, struct pollfd *ret) {
    const struct ssh_link *l = &b->ssh->link;

    *ret = (struct pollfd){.fd = l->fd, .events = (short)(POLLIN | (l->sent < l->out.len ? POLLOUT : 0))};
}

int ssh_timeout_ms(const struct broker *b) {
    return b->ssh->jobs ? clock_left_ms(b->ssh->deadline) : -1;
}

void ssh_poll_done(struct broker *b, short revents) {
    struct ssh_relay *s = b->ssh;
    struct ssh_bytes msg = {0};
    int r = revents && s->link.fd >= 0 ? ssh_link_turn(&s->link, &msg) : 0;

    if (r < 0)
        link_lost(b);
    else if (r > 0) {
        s->used = true;
        if (s->phase == LISTING)
            take_keys(b, msg);
        else
            take_signature(b, msg);
    }
    if (s->jobs && s->deadline <= clock_ms()) { /* an agent that hangs for one hangs for all */
        ssh_link_done(&s->link);
        s->wanted = s->used = false;
        all_end(b, -ETIMEDOUT);
    }
    begin_job(b);
}
