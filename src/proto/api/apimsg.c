/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks messages between bawnd and bawn-front. */
#include "proto/api/apimsg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"

static_assert(API_FDS_MAX <= (int)SOCK_FDS_MAX, "what the socket takes");

struct api_header {
    uint32_t magic;
    uint16_t kind, flags;
    uint64_t request, peer;
    uint32_t value, len;
};
static_assert(sizeof(struct api_header) == API_HEADER, "as spec/api-protocol.md has it");

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

/* What each kind may have besides a body. */
static const struct kind_rule {
    bool from_core, request, peer;
    uint16_t flags;
    uint8_t min_fds, max_fds;
    uint32_t max_len;
} rules[] = {
    [API_START] = {true, .max_fds = 4, .max_len = API_INLINE_MAX},
    [API_CONNECTION] = {true, .peer = true, .min_fds = 1, .max_fds = 1},
    [API_ANSWER] = {true, .request = true,
                    .flags = API_FLAG_MEMFD | API_FLAG_PART | API_FLAG_STREAM | API_FLAG_EVENTS | API_FLAG_TERMINAL |
                             API_FLAG_JSON | API_FLAG_EXEC,
                    .max_fds = 2, .max_len = API_BODY_MAX},
    [API_UPLOAD] = {true, .request = true, .min_fds = 1, .max_fds = 1},
    [API_OUTCOME] = {true, .request = true, .max_len = API_INLINE_MAX},
    [API_LAST] = {true, .request = true, .max_len = 8},
    [API_DRAIN] = {true},
    [API_REQUEST] = {.request = true, .peer = true, .flags = API_FLAG_MEMFD, .max_len = API_BODY_MAX},
    [API_CANCEL] = {.request = true},
    [API_GONE] = {.peer = true},
};

void api_msg_done(struct api_msg *m) {
    fd_close_all(m->fds, m->n_fds);
    free(m->body);
    *m = (struct api_msg){0};
}

static int make_memfd(const struct api_msg *m, struct err *err) {
    CLEANUP(closep) int fd = memfd_create("bawn-api", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0)
        return err_sys(err, -errno, "make a body of %zu bytes", m->len);
    r = fd_write_all(fd, m->body, m->len);
    if (r < 0)
        return err_sys(err, r, "write a body of %zu bytes", m->len);
    if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return err_sys(err, -errno, "seal a body");
    return TAKE_FD(fd);
}

int api_msg_pack(const struct api_msg *m, char *packet, size_t *ret_len, int *ret_memfd, struct err *err) {
    bool large = m->len > API_INLINE_MAX;
    struct api_header h = {.magic = API_MAGIC,
                           .kind = m->kind,
                           .flags = (uint16_t)(m->flags | (large ? API_FLAG_MEMFD : 0)),
                           .request = m->request,
                           .peer = m->peer,
                           .value = m->value,
                           .len = (uint32_t)m->len};
    int fd = -1;

    if (m->len > API_BODY_MAX)
        return err_set(err, -E2BIG, "a body of %zu bytes is too large", m->len);
    if (large)
        fd = make_memfd(m, err);
    if (large && fd < 0)
        return fd;
    memcpy(packet, &h, sizeof h);
    if (!large && m->len)
        memcpy(packet + sizeof h, m->body, m->len);
    *ret_len = sizeof h + (large ? 0 : m->len);
    *ret_memfd = fd;
    return 0;
}

int api_msg_send(int sock, const struct api_msg *m, struct err *err) {
    char packet[API_HEADER + API_INLINE_MAX];
    CLEANUP(closep) int memfd = -1;
    int fds[API_FDS_MAX + 1];
    size_t len, n = 0;
    int r = api_msg_pack(m, packet, &len, &memfd, err);

    if (r < 0)
        return r;
    if (memfd >= 0)
        fds[n++] = memfd;
    if (m->n_fds > API_FDS_MAX - n)
        return err_set(err, -EINVAL, "too many descriptors");
    for (size_t i = 0; i < m->n_fds; i++)
        fds[n++] = m->fds[i];
    r = sock_send(sock, packet, len, fds, n);
    return r < 0 ? err_sys(err, r, "send a message") : 0;
}

/* It cannot change any more, so reading it once is reading it as it is. */
static int read_memfd(int fd, char *to, size_t len) {
    int seals = fcntl(fd, F_GET_SEALS);
    ssize_t n;

    /* Not by fstat(2), which newer C libraries call with a path: the front's jail does not have that. */
    if (seals < 0 || (seals & SEALS) != SEALS || lseek(fd, 0, SEEK_END) != (off_t)len)
        return -EBADMSG;
    n = fd_pread_full(fd, to, len, 0);
    return n == (ssize_t)len ? 0 : -EBADMSG;
}

static int check_header(const struct api_header *h, size_t packet, size_t n_fds, bool from_core) {
    const struct kind_rule *rule = h->kind < ARRAY_LEN(rules) ? &rules[h->kind] : NULL;
    bool large = h->flags & API_FLAG_MEMFD;

    if (h->magic != API_MAGIC || !rule || (!rule->request && !rule->peer && h->kind != API_START && h->kind != API_DRAIN))
        return -EBADMSG;
    if (rule->from_core != from_core || h->flags & ~rule->flags || (rule->request ? h->request == 0 : h->request != 0))
        return -EBADMSG;
    if (!rule->peer && h->peer != 0)
        return -EBADMSG;
    if (h->len > rule->max_len || (large ? h->len <= API_INLINE_MAX || packet != API_HEADER : packet - API_HEADER != h->len))
        return -EBADMSG;
    if (n_fds < large || n_fds - large < rule->min_fds || n_fds - large > rule->max_fds)
        return -EBADMSG;
    return 0;
}

/* A flag of an ANSWER says what its descriptor is: one of them, and the descriptor with it. */
static int check_answer(const struct api_header *h, size_t n_fds) {
    unsigned what =
        h->flags & (API_FLAG_PART | API_FLAG_STREAM | API_FLAG_EVENTS | API_FLAG_TERMINAL | API_FLAG_JSON | API_FLAG_EXEC);
    size_t own = n_fds - (h->flags & API_FLAG_MEMFD ? 1 : 0);

    if (h->kind != API_ANSWER)
        return 0;
    if (h->value < 200 || h->value > 599 || what & (what - 1) || own != (what == API_FLAG_EXEC ? 2u : what ? 1u : 0u))
        return -EBADMSG;
    if ((h->flags & API_FLAG_PART && h->len != 16) || (h->flags & (API_FLAG_EVENTS | API_FLAG_EXEC) && h->len != 8))
        return -EBADMSG;
    return 0;
}

int api_msg_unpack(const char *packet, size_t len, const int *fds, size_t n_fds, bool from_core, struct api_msg *ret,
                   struct err *err) {
    CLEANUP(freep) char *body = NULL;
    struct api_header h;
    size_t own;
    int r = -EBADMSG;

    if (len >= sizeof h && n_fds <= API_FDS_MAX) {
        memcpy(&h, packet, sizeof h);
        r = check_header(&h, len, n_fds, from_core);
        r = r < 0 ? r : check_answer(&h, n_fds);
    }
    if (r == 0) {
        body = malloc((size_t)h.len + 1);
        r = !body ? -ENOMEM : 0;
    }
    if (r == 0 && h.flags & API_FLAG_MEMFD)
        r = read_memfd(fds[0], body, h.len);
    else if (r == 0 && h.len)
        memcpy(body, packet + sizeof h, h.len);
    if (r < 0) {
        fd_close_all(fds, n_fds);
        return err_set(err, r, "a message that is not one of spec/api-protocol.md");
    }
    body[h.len] = 0;
    own = h.flags & API_FLAG_MEMFD ? 1 : 0;
    fd_close_all(fds, own);
    *ret = (struct api_msg){.kind = h.kind,
                            .flags = (uint16_t)(h.flags & ~API_FLAG_MEMFD),
                            .request = h.request,
                            .peer = h.peer,
                            .value = h.value,
                            .body = TAKE_PTR(body),
                            .len = h.len,
                            .n_fds = n_fds - own};
    memcpy(ret->fds, fds + own, ret->n_fds * sizeof(int));
    return 1;
}

int api_msg_recv(int sock, bool from_core, struct api_msg *ret, struct err *err) {
    char packet[API_HEADER + API_INLINE_MAX];
    size_t n_fds = API_FDS_MAX;
    int fds[API_FDS_MAX];
    long n = sock_recv(sock, packet, sizeof packet, fds, &n_fds);

    if (n <= 0)
        return n < 0 && n != -EAGAIN ? err_sys(err, (int)n, "receive a message") : (int)n;
    return api_msg_unpack(packet, (size_t)n, fds, n_fds, from_core, ret, err);
}

bool api_msg_u64(const struct api_msg *m, size_t i, uint64_t *ret) {
    if (m->len / sizeof *ret <= i)
        return false;
    memcpy(ret, m->body + i * sizeof *ret, sizeof *ret);
    return true;
}

const char *api_msg_text(const struct api_msg *m, size_t i) {
    const char *s = m->body, *end = m->body + m->len;

    for (; i > 0 && s && s < end; i--) {
        const char *nul = memchr(s, 0, (size_t)(end - s));

        s = nul ? nul + 1 : end;
    }
    return s && s < end ? s : "";
}
