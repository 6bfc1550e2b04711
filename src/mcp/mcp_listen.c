/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn mcp --http` begins with: an address of this machine, a token, and bawn-front. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "mcp/mcp_http.h"
#include "mcp/rpc.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/sock.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"
#include "proto/api/mcproute.h"
#include "supervisor/helper.h"

enum { BACKLOG = 64, ADDRESS_MAX = 64 };

/* -- the address --------------------------------------------------------------------------------------------------------- */

struct mcp_address {
    struct sockaddr_storage sock;
    socklen_t len;
    bool v6;
};

static bool parse_address(const char *text, struct mcp_address *ret) {
    struct sockaddr_in *v4 = (void *)&ret->sock;
    struct sockaddr_in6 *v6 = (void *)&ret->sock;
    const char *colon = strrchr(text, ':');
    size_t skip = text[0] == '[';
    char host[ADDRESS_MAX];
    uint64_t port;

    if (!colon || colon == text || (size_t)(colon - text) >= sizeof host || parse_u64(colon + 1, 0, 65535, &port, NULL) < 0)
        return false;
    ret->v6 = skip && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)((size_t)(colon - text) - skip - ret->v6), text + skip);
    ret->len = ret->v6 ? sizeof *v6 : sizeof *v4;
    if (ret->v6) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
}

static bool is_loopback(const struct mcp_address *a) {
    const struct sockaddr_in *v4 = (const void *)&a->sock;
    const struct sockaddr_in6 *v6 = (const void *)&a->sock;

    return a->v6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) : ntohl(v4->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static char *url_of(int fd, bool is_v6) {
    struct sockaddr_storage sock = {0};
    const struct sockaddr_in *v4 = (const void *)&sock;
    const struct sockaddr_in6 *v6 = (const void *)&sock;
    socklen_t len = sizeof sock;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(fd, (struct sockaddr *)&sock, &len) < 0 ||
        !inet_ntop(sock.ss_family, is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, host, sizeof host))
        return NULL;
    return str_dupf("http://%s%s%s:%u" MCP_PATH, is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                    ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
}

int mcp_listen(const char *address, int *ret, char **ret_url, struct err *err) {
    struct mcp_address a = {.len = 0};
    CLEANUP(closep) int fd = -1;
    char *url;

    if (!parse_address(address, &a))
        return err_usage(err, "--http: '%s' is no address with a port, e.g. 127.0.0.1:7071", address);
    if (!is_loopback(&a))
        return err_usage(err, "--http: '%s' is not a loopback address; there is no TLS here, use an ssh tunnel or bawnd",
                         address);
    fd = socket(a.sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
        bind(fd, (struct sockaddr *)&a.sock, a.len) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(err, -errno, "listen at '%s'", address);
    url = url_of(fd, a.v6);
    if (!url)
        return err_oom(err);
    *ret = TAKE_FD(fd);
    *ret_url = url;
    return 0;
}

/* -- the token ----------------------------------------------------------------------------------------------------------- */

/* Others must not have been able to read it, or to choose it. */
static int read_token(const char *path, char ret[static TOKEN_SIZE], struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    unsigned char hash[SHA256_LEN];
    char text[TOKEN_SIZE + 2] = "";
    struct stat st;
    ssize_t n;
    bool good;

    if (fd < 0)
        return errno == ENOENT ? -ENOENT : err_sys(err, -errno, "open '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
        return err_set(err, -EPERM, "'%s' must be a file of yours that no one else can read (chmod 600)", path);
    n = fd_read_full(fd, text, sizeof text - 1);
    text[strcspn(text, "\n")] = 0;
    good = n > 0 && token_hash(text, strlen(text), hash);
    if (good)
        memcpy(ret, text, TOKEN_SIZE);
    explicit_bzero(text, sizeof text);
    return good ? 0 : err_set(err, -EINVAL, "'%s' has no token of bawn; remove it, and a new one is made", path);
}

static int write_token(const char *path, const char *token, struct err *err) {
    char line[TOKEN_SIZE + 1];
    int r;

    snprintf(line, sizeof line, "%s\n", token);
    r = file_create_at(AT_FDCWD, path, S_IRUSR | S_IWUSR, line, strlen(line));
    explicit_bzero(line, sizeof line);
    return r < 0 ? err_sys(err, r, "write '%s'", path) : 0;
}

int mcp_token_get(const char *path, char ret[static TOKEN_SIZE], struct err *err) {
    int r = path ? read_token(path, ret, err) : -ENOENT;

    if (r != -ENOENT)
        return r;
    r = token_make(ret);
    if (r < 0)
        return err_sys(err, r, "make a token");
    return path ? write_token(path, ret, err) : 0;
}

/* -- bawn-front ---------------------------------------------------------------------------------------------------------- */

static int add_conf(struct api_fields *f) {
    static const struct {
        unsigned field;
        uint64_t value;
    } numbers[] = {
        {API_CONF_JSON_MAX, MCP_BODY_MAX},
        {API_CONF_UPLOAD_MAX, 0},
        {API_CONF_HEADER_SECONDS, 15},
        {API_CONF_BODY_SECONDS, 30},
        {API_CONF_STALL_SECONDS, 60},
        {API_CONF_IDLE_SECONDS, 120},
        {API_CONF_COMMENT_SECONDS, 15},
        {API_CONF_CONNECTIONS_MAX, MCP_EXCHANGES_MAX},
        {API_CONF_PEER_MAX, MCP_EXCHANGES_MAX},
        {API_CONF_REQUESTS_MAX, MCP_EXCHANGES_MAX},
        {API_CONF_ANSWER_MAX, 16 << 20},
        {API_CONF_TLS, 0},
        {API_CONF_MCP, 1},
    };
    static const char *const hosts[] = {"127.0.0.1", "[::1]", "localhost"};
    int r = api_fields_adds(f, API_CONF_TABLES, API_TABLES);

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(numbers); i++)
        r = api_fields_add_number(f, numbers[i].field, numbers[i].value);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(hosts); i++)
        r = api_fields_adds(f, API_CONF_HOST, hosts[i]);
    return r < 0 ? r : api_fields_adds(f, API_CONF_VERSION, BAWN_VERSION);
}

static int send_start(int sock, int listener, struct err *err) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf body = BUF_INIT(API_INLINE_MAX);
    int r = add_conf(&f);

    r = r < 0 ? r : api_fields_write(&f, &body);
    if (r < 0)
        return err_sys(err, r, "the configuration of bawn-front");
    return api_msg_send(
        sock, &(struct api_msg){.kind = API_START, .value = 1, .body = body.data, .len = body.len, .fds = {listener}, .n_fds = 1},
        err);
}

int mcp_front_start(int listener, int *ret_sock, pid_t *ret_pid, struct err *err) {
    char *argv[] = {"bawn-front", NULL};
    CLEANUP(closep) int ours = -1, theirs = -1;
    struct helper h = {.name = "bawn-front", .argv = argv, .envp = (char *[]){NULL}, .n_fds = API_FD + 1};
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return err_sys(err, r, "socket of bawn-front");
    ours = pair[0];
    theirs = pair[1];
    h.fds[0] = h.fds[1] = -1;
    h.fds[2] = STDERR_FILENO;
    h.fds[API_FD] = theirs;
    r = send_start(ours, listener, err);
    r = r < 0 ? r : helper_start(&h, ret_pid, err);
    if (r == 0)
        *ret_sock = TAKE_FD(ours);
    return r;
}
