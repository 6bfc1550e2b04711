/* SPDX-License-Identifier: Apache-2.0 */
/* A login of the user's browser on behalf of a program inside. */
#include "supervisor/credential/login.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "supervisor/credential/vault_spawn.h"
#include "supervisor/helper.h"

enum { ANSWER_MS = 10 * 1000, MESSAGES_MAX = 2000, REQUEST_MAX = 8 * 1024 };

void login_end(struct login *l) {
    if (l->pid > 0)
        process_end(l->pid);
    closep(&l->sock);
    closep(&l->messages);
    *l = (struct login)LOGIN_INIT;
}

static int begin_login(struct login *l, char *const *environ_, struct err *err) {
    CLEANUP(helper_ends_done) struct helper_ends e = HELPER_ENDS_INIT;
    struct vault_job job = {.verb = "--authorize", .name = l->what.grant->c.name, .of = &l->what.grant->c, .environ_ = environ_};
    int r = vault_start_talking(&job, &e, &l->pid, err);

    l->sock = TAKE_FD(e.sock);
    l->messages = TAKE_FD(e.messages);
    return r;
}

int login_start(struct login *l, const struct opener_login *what, char *const *environ_, struct err *err) {
    int r;

    login_end(l);
    l->what = *what;
    r = begin_login(l, environ_, err);
    if (r < 0) {
        login_refuse(l, what);
        return r;
    }
    l->state = LOGIN_VAULT;
    return 0;
}

void login_refuse(struct login *l, const struct opener_login *what) {
    const struct opener_login copy = *what; /* may be l's own */

    login_end(l);
    l->what = copy;
    l->state = LOGIN_CONNECT;
}

/* The vault -------------------------------------------------------------------------------------------------------- */

/* Through us: the terminal may be in raw mode. */
static void pass_messages(const struct login *l) {
    char text[MESSAGES_MAX], *line = text;
    ssize_t n = fd_read_some(l->messages, text, sizeof text - 1);

    text[MAX_OF(n, 0)] = 0;
    while (*line) {
        size_t len = strcspn(line, "\n");
        bool more = line[len] != 0;

        line[len] = 0;
        log_line("%s", line + (str_starts(line, "bawn: ") ? strlen("bawn: ") : 0));
        line += len + more;
    }
}

/* Its socket is closed by its end, so it is not waited for. */
static void vault_over(struct login *l, bool by_itself) {
    int status = by_itself ? process_wait(l->pid) : process_end(l->pid);

    l->ok = status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    l->pid = -1;
    pass_messages(l);
    closep(&l->sock);
    closep(&l->messages);
    l->state = LOGIN_CONNECT;
}

/* One message is the address; then comes the end. Anything else is not what was agreed on. */
static bool vault_read(struct login *l, const struct opener *o) {
    char url[OPENER_URL_MAX];
    long n = sock_recv(l->sock, url, sizeof url - 1, NULL, NULL);

    if (n == -EAGAIN)
        return false;
    if (n > 0 && !l->opened) {
        url[n] = 0;
        l->opened = true;
        opener_open(o, l->what.grant, url);
        return false;
    }
    vault_over(l, n == 0);
    return true;
}

/* The program inside ----------------------------------------------------------------------------------------------- */

static void add_encoded(struct buf *b, const char *s) {
    for (; *s; s++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", *s))
            buf_addc(b, *s);
        else
            buf_addf(b, "%%%02X", (unsigned char)*s);
}

/* As a browser would send it. The code is the placeholder: the gate knows it when it is redeemed, and it is good for nothing else. */
static void write_request(const struct login *l, struct buf *b) {
    buf_addf(b, "GET %s%s", l->what.path, strchr(l->what.path, '?') ? "&" : "?");
    buf_adds(b, l->ok ? "code=" : "error=");
    add_encoded(b, l->ok ? l->what.grant->placeholder : "access_denied");
    if (l->what.state[0]) {
        buf_adds(b, "&state=");
        add_encoded(b, l->what.state);
    }
    buf_addf(b, " HTTP/1.1\r\nHost: localhost:%u\r\nAccept: */*\r\nConnection: close\r\n\r\n", l->what.port);
}

static void send_request(struct login *l) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(REQUEST_MAX);
    ssize_t n;

    write_request(l, &b);
    n = buf_ok(&b) ? send(l->sock, buf_str(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != (ssize_t)b.len)
        login_end(l);
    else
        l->state = LOGIN_SENT;
}

static void drop_answer(struct login *l) {
    char some[4096];
    ssize_t n = recv(l->sock, some, sizeof some, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        login_end(l);
}

void login_inside(struct login *l, int fd) {
    CLEANUP(closep) int owned = fd;

    if (l->state != LOGIN_CONNECT)
        return;
    if (owned < 0) {
        log_line("the program in the sandbox does not wait for its login to %s any more", l->what.grant->c.name);
        login_end(l);
        return;
    }
    l->sock = TAKE_FD(owned);
    l->state = LOGIN_SEND;
    l->until_ms = clock_ms() + ANSWER_MS;
}

/* In the loop ------------------------------------------------------------------------------------------------------ */

size_t login_poll(const struct login *l, struct pollfd *out) {
    if (l->sock < 0)
        return 0;
    *out = (struct pollfd){.fd = l->sock, .events = l->state == LOGIN_SEND ? POLLOUT : POLLIN};
    return 1;
}

int login_timeout(const struct login *l) {
    return l->state == LOGIN_SEND || l->state == LOGIN_SENT ? clock_left_ms(l->until_ms) : -1;
}

bool login_handle(struct login *l, const struct opener *o) {
    if (l->state == LOGIN_VAULT)
        return vault_read(l, o);
    if (l->state == LOGIN_SEND)
        send_request(l);
    else if (l->state == LOGIN_SENT)
        drop_answer(l);
    if ((l->state == LOGIN_SEND || l->state == LOGIN_SENT) && clock_ms() >= l->until_ms)
        login_end(l);
    return false;
}
