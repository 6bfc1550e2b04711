/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-gate: the only way from a sandbox to the network. Started by the supervisor with exactly the descriptors of
 * proto/gatemsg.h; theory of operation in gateway/gate.h. It locks itself in before it reads the first byte of any client. Exit
 * status: 0 when the supervisor ended it or is gone, 125 with one line on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/ca/trust_source.h"
#include "gateway/gate.h"
#include "gateway/gate_jail.h"
#include "os/fd.h"

static int born_socket(int fd) {
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

static void find_born(struct gate_born *born) {
    born->control = born_socket(GATE_FD_CONTROL);
    born->tcp[0] = born_socket(GATE_FD_TCP4);
    born->tcp[1] = born_socket(GATE_FD_TCP6);
    born->udp[0] = born_socket(GATE_FD_UDP4);
    born->udp[1] = born_socket(GATE_FD_UDP6);
    for (int i = 0; i < GATE_PUBLISH_MAX; i++)
        born->publish[i] = born_socket(GATE_FD_PUBLISH + i);
    for (int i = 0; i < GATE_NAMED_MAX; i++)
        born->named[i] = born_socket(GATE_FD_NAMED + i);
    born->ssh = born_socket(GATE_FD_SSH);
    born->credential = born_socket(GATE_FD_CREDENTIAL);
    for (size_t i = 0; i < GATE_TRUST_MAX; i++)
        born->trust[i] = -1;
}

/* What is there and is no meter was given by mistake: without a limit nothing may leave. */
static int map_meter(struct gate_born *born, struct err *err) {
    struct stat st;
    int r;

    born->meter = NULL;
    if (fstat(GATE_FD_METER, &st) < 0 || S_ISCHR(st.st_mode))
        return 0;
    r = meter_map(GATE_FD_METER, &born->meter);
    close(GATE_FD_METER);
    return r < 0 ? err_sys(err, r, "read what may leave") : 0;
}

static void open_trust(struct gate_born *born) {
    struct trust_source source;

    trust_find(getenv("SSL_CERT_FILE"), &source);
    if (source.bundle[0])
        born->trust[0] = open(source.bundle, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static int serve(struct err *err) {
    struct gate_born born;
    struct gate gate;
    int r;

    find_born(&born);
    if (born.control < 0)
        return err_usage(err, "bawn-gate is started by bawn, when a sandbox first uses the network");
    r = fd_close_from(GATE_FDS_MAX);
    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    r = map_meter(&born, err); /* before anything is opened: that could take the meter's place */
    if (r < 0)
        return r;
    open_trust(&born);
    r = gate_lock(&born.files, err);
    r = r < 0 ? r : gate_init(&gate, &born, err);
    if (r < 0)
        return r;
    r = gate_serve(&gate);
    return r < 0 ? err_sys(err, r, "serve the sandbox's network") : 0;
}

int main(void) {
    struct err err = {0};
    int r = serve(&err);

    if (r < 0)
        log_err(&err);
    /* No handlers at exit: libraries would tidy up what the kernel tidies up faster. */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}
