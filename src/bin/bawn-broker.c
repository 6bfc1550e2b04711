/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-broker --make DIR [LIKE]      makes a certificate authority and the trust stores that hold it (broker/ca/folder.h)
 * bawn-broker --serve         3: socket to a gate, 4: the folder of a CA, 5: socket to the supervisor (proto/brokermsg.h)
 *
 * A program of its own because it holds a key and the user's credentials, which the gate, which reads hostile bytes, must not have. It
 * ends when one of its sockets is closed. Exit status: 0, or 125 with one line on stderr.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "broker/broker_jail.h"
#include "broker/ca/folder.h"
#include "broker/serve.h"
#include "os/fd.h"

enum { FIRST_CLOSED = BROKER_FD_SUPERVISOR + 1, LATER_NICE = 10 };

static int make(const char *path, const char *like, struct err *err) {
    struct trust_source from;

    umask(022);
    if (like) /* for a later run: this one goes first */
        (void)!nice(LATER_NICE);
    trust_find(getenv("SSL_CERT_FILE"), &from);
    return folder_make(path, like, &from, err);
}

/* Where there is no CA, /dev/null stands in its place. */
static int read_authority(struct ca *ret, struct err *err) {
    struct stat st;
    int r = 0;

    if (fstat(BROKER_FD_CA, &st) < 0)
        return err_sys(err, -errno, "read the certificate authority");
    if (S_ISDIR(st.st_mode))
        r = ca_read(BROKER_FD_CA, ret, err);
    else if (!S_ISCHR(st.st_mode))
        r = err_set(err, -ENOTDIR, "the certificate authority is not a folder");
    close(BROKER_FD_CA);
    return r;
}

/* One that hangs must not keep values waiting in here. */
static int limit_sending(int sock, struct err *err) {
    const struct timeval t = {.tv_sec = BROKER_SEND_S};

    return setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0 ? err_sys(err, -errno, "set up a socket") : 0;
}

static int serve(struct err *err) {
    CLEANUP(broker_done) struct broker b = {.gate = -1, .supervisor = -1};
    CLEANUP(ca_done) struct ca ca = {0};
    int r = fd_close_from(FIRST_CLOSED);

    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    r = read_authority(&ca, err);
    r = r < 0 ? r : limit_sending(BROKER_FD_GATE, err);
    r = r < 0 ? r : limit_sending(BROKER_FD_SUPERVISOR, err);
    r = r < 0 ? r : broker_lock(err);
    if (r < 0)
        return r;
    r = broker_init(&b, &ca, BROKER_FD_GATE, BROKER_FD_SUPERVISOR);
    return r < 0 ? err_sys(err, r, "start bawn-broker") : serve_loop(&b, err);
}

static int run_broker(int argc, char **argv, struct err *err) {
    /* Before there is a key: not even root's debugger by accident, no core dump, and no configuration file of OpenSSL. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, -errno, "become not dumpable");
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return err_set(err, -EIO, "OpenSSL does not start");
    if ((argc == 3 || argc == 4) && str_eq(argv[1], "--make"))
        return make(argv[2], argv[3], err);
    if (argc == 2 && str_eq(argv[1], "--serve"))
        return serve(err);
    return err_usage(err, "bawn-broker is started by bawn");
}

int main(int argc, char **argv) {
    struct err err = {0};
    int r = run_broker(argc, argv, &err);

    if (r < 0)
        log_err(&err);
    /* No handlers at exit: the jail has no use for tidiness, and the key is gone. */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}
