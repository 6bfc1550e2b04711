/* SPDX-License-Identifier: Apache-2.0 */
/* What a running bawn-broker asks for, and what it says was used. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "supervisor/credential/broker_priv.h"
#include "supervisor/credential/ssh_outside.h"
#include "supervisor/credential/vault_spawn.h"

enum { TOUCH_PAUSE_MS = 10 * 1000, VAULT_END_MS = 5000, REAP_MS = 10 };

/* Vaults ----------------------------------------------------------------------------------------------------------- */

/* Through us: the terminal may be in raw mode. */
static void pass_message(struct brokerkeeper *b, const struct vault_child *v) {
    char text[BROKER_LINE_MAX];
    ssize_t n = fd_read_some(v->messages, text, sizeof text - 1);
    const char *line = text;

    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    line += str_starts(text, "bawn: ") ? strlen("bawn: ") : 0;
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

void brokerkeeper_reap(struct brokerkeeper *b) {
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

void brokerkeeper_end_vaults(struct brokerkeeper *b) {
    uint64_t until = clock_ms() + VAULT_END_MS;

    brokerkeeper_reap(b);
    while (has_delicate(b) && clock_ms() < until) {
        poll(NULL, 0, REAP_MS);
        brokerkeeper_reap(b);
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

/* sock and messages: its ends. */
static int spawn_vault(struct brokerkeeper *b, struct vault_child *v, bool fresh, int sock, int messages, struct err *err) {
    const struct vault_job job = {.verb = "--get",
                                  .name = b->opts.grants[v->index].c.name,
                                  .of = &b->opts.grants[v->index].c,
                                  .fresh = fresh,
                                  .sock = sock,
                                  .messages = messages,
                                  .environ_ = b->opts.environ_};

    return vault_start(&job, &v->pid, err);
}

/* *ret: the broker's end. */
static int start_vault(struct brokerkeeper *b, struct vault_child v, bool fresh, int *ret, struct err *err) {
    CLEANUP(closep) int ours = -1, theirs = -1, messages = -1, their_messages = -1;
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return err_sys(err, r, "start bawn-vault");
    ours = pair[0];
    theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "start bawn-vault");
    messages = pair[0];
    their_messages = pair[1];
    r = spawn_vault(b, &v, fresh, theirs, their_messages, err);
    if (r < 0)
        return r;
    v.messages = TAKE_FD(messages);
    b->vaults[b->n_vaults++] = v;
    *ret = TAKE_FD(ours);
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
    return brokerkeeper_send(b, &answer, sock);
}

/* The user's ssh-agent --------------------------------------------------------------------------------------------- */

static int on_want_agent(struct brokerkeeper *b) {
    int fd = -1, r = b->opts.ssh ? ssh_outside_connect(b->opts.environ_, &fd) : -EACCES;

    return brokerkeeper_send(b, &(struct broker_msg){.type = BROKER_MSG_AGENT, .value = -r}, fd);
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
static void touch(struct brokerkeeper *b, uint32_t index) {
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
        touch(b, m->index);
    b->opts.used(b->opts.arg, m, is_ssh ? NULL : &b->opts.grants[m->index]);
    return 0;
}

int brokerkeeper_take(struct brokerkeeper *b, const struct broker_msg *m) {
    switch ((enum broker_msg_type)m->type) {
    case BROKER_MSG_WANT_VALUE:
        return on_want_vault(b, m);
    case BROKER_MSG_WANT_AGENT:
        return on_want_agent(b);
    case BROKER_MSG_USED:
        return on_used(b, m);
    case BROKER_MSG_CONFIG:
    case BROKER_MSG_VAULT:
    case BROKER_MSG_AGENT:
    case BROKER_MSG_RENEW:
    case BROKER_MSG_TYPES:
        break;
    }
    return -EBADMSG;
}
