/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration that comes from bawnd. */
#include "service/front/front_conf.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"
#include "proto/api/apifield.h"

enum { PEM_MAX = 256 * 1024, SECONDS_MAX = 86400 };

static const struct {
    enum api_conf field;
    const char *name;
    size_t at;
    uint64_t min, max;
} numbers[] = {
    {API_CONF_JSON_MAX, "json_max", offsetof(struct front_conf, json_max), 1024, API_BODY_MAX / 2},
    {API_CONF_UPLOAD_MAX, "upload_max", offsetof(struct front_conf, upload_max), 0, INT64_MAX},
    {API_CONF_HEADER_SECONDS, "header_seconds", offsetof(struct front_conf, header_seconds), 1, SECONDS_MAX},
    {API_CONF_BODY_SECONDS, "body_seconds", offsetof(struct front_conf, body_seconds), 1, SECONDS_MAX},
    {API_CONF_STALL_SECONDS, "stall_seconds", offsetof(struct front_conf, stall_seconds), 1, SECONDS_MAX},
    {API_CONF_IDLE_SECONDS, "idle_seconds", offsetof(struct front_conf, idle_seconds), 1, SECONDS_MAX},
    {API_CONF_COMMENT_SECONDS, "comment_seconds", offsetof(struct front_conf, comment_seconds), 1, SECONDS_MAX},
    {API_CONF_CONNECTIONS_MAX, "connections_max", offsetof(struct front_conf, connections_max), 1, 60000},
    {API_CONF_PEER_MAX, "peer_max", offsetof(struct front_conf, peer_max), 1, 60000},
    {API_CONF_REQUESTS_MAX, "requests_max", offsetof(struct front_conf, requests_max), 1, 60000},
    {API_CONF_ANSWER_MAX, "answer_max", offsetof(struct front_conf, answer_max), 1024, 1 << 30},
    {API_CONF_TLS, "tls", offsetof(struct front_conf, tls), 0, 1},
};

static int read_numbers(struct front_conf *c, const struct api_fields *f, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const char *text = api_field_get(f, numbers[i].field, 0);
        uint64_t *to = (uint64_t *)(void *)((char *)c + numbers[i].at);

        if (!text || parse_u64(text, numbers[i].min, numbers[i].max, to, NULL) < 0)
            return err_set(err, -EBADMSG, "the configuration has no valid '%s'", numbers[i].name);
    }
    return 0;
}

static int read_hosts(struct front_conf *c, const struct api_fields *f, struct err *err) {
    const char *host;

    while ((host = api_field_get(f, API_CONF_HOST, c->n_hosts))) {
        if (c->n_hosts >= FRONT_HOSTS_MAX)
            return err_set(err, -EBADMSG, "more than %d names of hosts", FRONT_HOSTS_MAX);
        c->hosts[c->n_hosts] = strdup(host);
        if (!c->hosts[c->n_hosts])
            return err_oom(err);
        c->n_hosts++;
    }
    return 0;
}

/* The size is found by reading: it may be a memfd or any other file. */
static int read_pem(int fd, char **ret, struct err *err) {
    char *text = malloc(PEM_MAX + 1);
    ssize_t n;

    if (!text)
        return err_oom(err);
    n = fd_pread_full(fd, text, PEM_MAX + 1, 0);
    if (n <= 0 || n > PEM_MAX) {
        free(text);
        return err_set(err, -EBADMSG, "the certificate or key cannot be read");
    }
    text[n] = 0;
    *ret = text;
    return 0;
}

static int take_fds(struct front_conf *c, struct api_msg *m, struct err *err) {
    int r = 0;

    if (m->value > API_LISTEN_MAX || m->n_fds != m->value + (c->tls ? 2u : 0u))
        return err_set(err, -EBADMSG, "START has %zu descriptors for %u sockets", m->n_fds, m->value);
    for (size_t i = 0; i < m->value; i++)
        c->listen[c->n_listen++] = TAKE_FD(m->fds[i]);
    if (c->tls) {
        r = read_pem(m->fds[m->value], &c->certificate, err);
        r = r < 0 ? r : read_pem(m->fds[m->value + 1], &c->key, err);
    }
    return r;
}

int front_conf_read(struct front_conf *c, struct api_msg *m, struct err *err) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    const char *tables, *version;
    int r = m->kind == API_START ? api_fields_read(&f, m->body, m->len) : -EBADMSG;

    if (r < 0)
        return err_set(err, r, "the first message is not START");
    tables = api_field_get(&f, API_CONF_TABLES, 0);
    if (!tables || !str_eq(tables, API_TABLES))
        return err_set(err, -EBADMSG, "bawnd and bawn-front are not of the same build");
    version = api_field_get(&f, API_CONF_VERSION, 0);
    snprintf(c->version, sizeof c->version, "%s",
             version && api_check_is(API_CHECK_NAME, version, strlen(version)) ? version : "");
    c->mcp = api_field_bool(&f, API_CONF_MCP, false);
    r = read_numbers(c, &f, err);
    r = r < 0 ? r : read_hosts(c, &f, err);
    return r < 0 ? r : take_fds(c, m, err);
}
