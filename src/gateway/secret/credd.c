/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/credd.h"

#include "base/buf.h"
#include "base/str.h"
#include "gateway/net/inlet.h"
#include "os/fd.h"

struct credd {
    struct inlet *inlet;
    uint64_t opens_since; /* s */
    unsigned opens;
};

static bool may_open(struct credd *d, uint64_t now) {
    if (!d->opens || now - d->opens_since >= CREDD_OPENS_S) {
        d->opens_since = now;
        d->opens = 0;
    }
    return d->opens < CREDD_OPENS_MAX && ++d->opens;
}

/* In pieces as long as a field of the message; the last one says so. */
static void send_url(struct gate *g, const char *url) {
    struct gate_msg m = {.type = GATE_MSG_OPEN, .action = RULE_ALLOW};
    size_t left = strlen(url);

    while (left) {
        size_t n = MIN_OF(left, sizeof m.path - 1);

        memset(m.path, 0, sizeof m.path);
        memcpy(m.path, url, n);
        url += n;
        left -= n;
        m.value = left == 0;
        gate_send(g, &m);
    }
}

static void credd_message(struct inlet_client *c, const uint8_t *data, size_t len) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CREDD_ANSWER_MAX);
    CLEANUP(freep) char *url = NULL;
    struct gate *g = inlet_gate(c);

    credd_answer(&g->config, (const char *)data, len - 1, &out, &url);
    if (url && may_open(inlet_arg(c), gate_now_s(g)))
        send_url(g, url);
    else if (url) {
        buf_clear(&out);
        buf_adds(&out, "{\"ok\":false,\"error\":\"too many addresses to open; wait a minute\",\"code\":\"TOO_MANY\"}\n");
    }
    inlet_answer(c, buf_str(&out), out.len);
}

static long credd_frame(const uint8_t *data, size_t len) {
    const uint8_t *end = memchr(data, '\n', len);

    return end ? end - data + 1 : 0;
}

static const struct inlet_ops ops = {
    .message_max = CREDD_LINE_MAX + 1,
    .frame = credd_frame,
    .message = credd_message,
};

int credd_new(struct gate *g, int fd, struct credd **ret, struct err *err) {
    struct credd *d = calloc(1, sizeof *d);
    int r;

    if (!d) {
        closep(&fd);
        return err_oom(err);
    }
    r = inlet_new(g, fd, &ops, d, &d->inlet, err);
    if (r < 0) {
        free(d);
        return r;
    }
    *ret = d;
    return 0;
}

void credd_free(struct credd *d) {
    if (d)
        inlet_free(d->inlet);
    free(d);
}
