/* SPDX-License-Identifier: Apache-2.0 */
/* The user's ssh-agent and known hosts. */
#include "supervisor/credential/ssh_outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "os/fd.h"

static const char machine_file[] = "/etc/ssh/ssh_known_hosts";

void ssh_outside_done(struct ssh_outside *o) {
    free(o->keys);
    free(o->known_hosts);
    *o = (struct ssh_outside){0};
}

int ssh_outside_connect(char *const *environ_, int *ret) {
    const char *path = paths_getenv(environ_, "SSH_AUTH_SOCK");
    CLEANUP(closep) int fd = -1;
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (!path)
        return -ENOENT;
    if (strlen(path) >= sizeof a.sun_path)
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    *ret = TAKE_FD(fd);
    return 0;
}

static int find_agent(const struct settings *s, char *const *environ_, bool *ret, struct err *err) {
    bool is_set = paths_getenv(environ_, "SSH_AUTH_SOCK");
    CLEANUP(closep) int fd = -1;
    int r = ssh_outside_connect(environ_, &fd);

    if (r < 0 && s->ssh.agent == SSH_AGENT_ON)
        return is_set ? err_sys(err, r, "no ssh-agent: the one of SSH_AUTH_SOCK does not answer")
                      : err_set(err, r, "no ssh-agent: SSH_AUTH_SOCK is not set");
    *ret = r == 0;
    return 0;
}

/* One that is missing, or no file, counts as none. One that is too large is reported, because hosts are missing then. */
static void add_known_hosts(struct buf *out, const char *path) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    CLEANUP(buf_done) struct buf text = BUF_INIT(SSH_KNOWN_HOSTS_MAX + 1);
    struct err err = {0};

    if (fd < 0)
        return;
    if (paths_read_fd(fd, path, SSH_KNOWN_HOSTS_MAX, &text, &err) < 0 || memchr(buf_str(&text), 0, text.len)) {
        log_line("'%s' is not used: %s", path, err.msg[0] ? err.msg : "it is no text");
        return;
    }
    buf_add(out, buf_str(&text), text.len);
    if (text.len && text.data[text.len - 1] != '\n')
        buf_addc(out, '\n');
}

static int find_known_hosts(const char *home, char **ret, struct err *err) {
    CLEANUP(freep) char *own = home ? str_dupf("%s/.ssh/known_hosts", home) : NULL;
    CLEANUP(buf_done) struct buf all = BUF_INIT(SSH_KNOWN_HOSTS_MAX);

    if (home && !own)
        return err_oom(err);
    if (own)
        add_known_hosts(&all, own);
    add_known_hosts(&all, machine_file);
    if (!buf_ok(&all)) {
        log_line("known_hosts of you and of this machine have more than %d bytes together: ssh knows no host inside",
                 SSH_KNOWN_HOSTS_MAX);
        return 0;
    }
    *ret = all.len ? buf_take(&all) : NULL;
    return 0;
}

/* Lines, as the broker reads them. A choice of none is no agent: no line would mean all. */
static int choose_keys(const struct settings *s, struct ssh_outside *o, struct err *err) {
    CLEANUP(buf_done) struct buf lines = BUF_INIT(SSH_KEYS_TEXT_MAX);

    if (s->ssh.keys.all || !o->agent)
        return 0;
    for (size_t i = 0; i < s->ssh.keys.names.len; i++)
        buf_addf(&lines, "%s\n", s->ssh.keys.names.v[i]);
    if (!buf_ok(&lines))
        return err_usage(err, "the names of ssh keys have more than %d bytes together", SSH_KEYS_TEXT_MAX);
    o->agent = lines.len > 0;
    o->keys = buf_take(&lines);
    return o->keys ? 0 : err_oom(err);
}

int ssh_outside_find(const struct settings *s, const char *home, char *const *environ_, struct ssh_outside *ret,
                     struct err *err) {
    CLEANUP(ssh_outside_done) struct ssh_outside o = {0};
    int r;

    if (s->ssh.agent == SSH_AGENT_OFF)
        return 0;
    r = find_agent(s, environ_, &o.agent, err);
    r = r < 0 ? r : choose_keys(s, &o, err);
    r = r < 0 ? r : find_known_hosts(home, &o.known_hosts, err);
    if (r < 0)
        return r;
    *ret = TAKE(o, (struct ssh_outside){0});
    return 0;
}
