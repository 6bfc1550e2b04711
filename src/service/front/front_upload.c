/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that are bytes: written to a descriptor of bawnd, as fast as that takes them. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "service/front/front.h"

void front_upload_begin(struct front_exchange *x, int fd) {
    if (x->upload >= 0 || x->answered || x->gone || x->route->body != API_BODY_BYTES ||
        fcntl(fd, F_SETFL, O_WRONLY | O_NONBLOCK) < 0) {
        close(fd);
        return;
    }
    x->upload = fd;
    front_exchange_resume(x);
}

static void on_room(void *arg, uint32_t events) {
    struct front_exchange *x = arg;

    (void)events;
    front_watch_stop(&x->front->loop, &x->upload_watch);
    front_exchange_resume(x);
}

size_t front_upload_write(struct front_exchange *x, const char *data, size_t len) {
    ssize_t n = x->upload >= 0 ? write(x->upload, data, len) : -1;

    if (n >= 0)
        return (size_t)n;
    if (x->upload >= 0 && errno == EINTR)
        return 0;
    if (x->upload >= 0 && errno == EAGAIN &&
        front_watch_start(&x->front->loop, &x->upload_watch, x->upload, EPOLLOUT, on_room, x) == 0) {
        front_exchange_suspend(x);
        return 0;
    }
    /* It is not read any more: the answer says why, and comes when the client has sent all. */
    x->discard = true;
    return len;
}

void front_upload_end(struct front_exchange *x) {
    front_watch_stop(&x->front->loop, &x->upload_watch);
    close(TAKE_FD(x->upload));
}
