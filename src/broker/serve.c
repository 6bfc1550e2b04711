#include "broker/serve.h"

#include <errno.h>

#include "base/err.h"
#include "os/sock.h"

static int answer_leaf(const struct ca *ca, const struct broker_request *req, struct broker_answer *a) {
    struct host host;
    size_t len;
    int r = host_parse(req->host, strnlen(req->host, sizeof req->host), &host, NULL);

    r = r < 0 ? r : ca_leaf(ca, &host, req->data, req->len, a->data, sizeof a->data, &len);
    if (r == 0)
        a->len = (uint32_t)len;
    return r;
}

/* Whatever is not here does not exist. */
static const struct {
    uint32_t type;
    int (*answer)(const struct ca *ca, const struct broker_request *req, struct broker_answer *a);
} requests[] = {{BROKER_LEAF, answer_leaf}};

int serve_answer(const struct ca *ca, const struct broker_request *req, size_t len, struct broker_answer *ret) {
    struct broker_answer a = {0};

    if (len != sizeof *req || req->len > sizeof req->data || strnlen(req->host, sizeof req->host) > BROKER_HOST_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        if (requests[i].type != req->type)
            continue;
        a.id = req->id;
        a.status = requests[i].answer(ca, req, &a);
        *ret = a;
        return 0;
    }
    return -EBADMSG;
}

int serve_loop(const struct ca *ca, int sock, struct err *err) {
    struct broker_request req;
    struct broker_answer answer;

    for (;;) {
        long n = sock_recv(sock, &req, sizeof req, NULL, NULL);
        int r = n <= 0 ? (int)n : serve_answer(ca, &req, (size_t)n, &answer);

        if (n == 0 || n == -ECONNRESET)
            return 0;
        r = r < 0 ? r : sock_send(sock, &answer, sizeof answer, NULL, 0);
        if (r == -EPIPE || r == -ECONNRESET)
            return 0;
        if (r < 0)
            return err_sys(err, r, "answer the gate");
    }
}
