/*
 * bawn-broker --make DIR      makes a certificate authority and the trust stores that hold it (broker/folder.h)
 * bawn-broker --serve         3: socket (proto/brokermsg.h), 4: the folder of a CA; signs until the socket is closed
 *
 * A program of its own because it holds a key that the gate, which reads hostile bytes, must not have. Exit status: 0, or 125 with one
 * line on stderr.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "broker/folder.h"
#include "broker/lock.h"
#include "broker/serve.h"
#include "os/fd.h"

enum { FD_SOCKET = 3, FD_FOLDER = 4, FIRST_CLOSED = 5 };

static int make(const char *path, struct err *err) {
    struct trust_source from;

    umask(022);
    trust_find(getenv("SSL_CERT_FILE"), &from);
    return folder_make(path, &from, err);
}

static int serve(struct err *err) {
    CLEANUP(ca_done) struct ca ca = {0};
    int r = fd_close_from(FIRST_CLOSED);

    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    r = ca_read(FD_FOLDER, &ca, err);
    close(FD_FOLDER);
    r = r < 0 ? r : broker_lock(err);
    return r < 0 ? r : serve_loop(&ca, FD_SOCKET, err);
}

static int run(int argc, char **argv, struct err *err) {
    /* Before there is a key: not even root's debugger by accident, no core dump, and no configuration file of OpenSSL. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, -errno, "become not dumpable");
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return err_set(err, -EIO, "OpenSSL does not start");
    if (argc == 3 && str_eq(argv[1], "--make"))
        return make(argv[2], err);
    if (argc == 2 && str_eq(argv[1], "--serve"))
        return serve(err);
    return err_usage(err, "bawn-broker is started by bawn");
}

int main(int argc, char **argv) {
    struct err err = {0};
    int r = run(argc, argv, &err);

    if (r < 0)
        log_err(&err);
    /* No handlers at exit: the jail has no use for tidiness, and the key is gone. */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}
