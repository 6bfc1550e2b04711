/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals in the protocols of other servers. */
#include "gateway/flow/refuse_wire.h"

#include "base/buf.h"

enum {
    SSH_BANNER_MAX = 250, /* RFC 4253: a line has 255 bytes at most */
    SSH_DISCONNECT = 1,
    SSH_NOT_ALLOWED = 1, /* SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT */
    SSH_BLOCK = 8,
    PG_STARTUP_MAX = 10000, /* as the server has it */
    PG_VERSION_3 = 3 << 16,
    PG_SSL_REQUEST = 80877103,
    PG_GSS_REQUEST = 80877104,
    MYSQL_NOT_ALLOWED = 1130 /* ER_HOST_NOT_PRIVILEGED, which servers send in place of their greeting, too */
};

static uint32_t read_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void add_be32(struct buf *b, uint32_t n) {
    const uint8_t bytes[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

    buf_add(b, bytes, sizeof bytes);
}

enum wire wire_of_port(uint16_t port) {
    static const struct {
        uint16_t port;
        enum wire wire;
    } rows[] = {
        {21, WIRE_FTP},   {22, WIRE_SSH},   {25, WIRE_SMTP},  {110, WIRE_POP3},
        {143, WIRE_IMAP}, {587, WIRE_SMTP}, {2222, WIRE_SSH}, {3306, WIRE_MYSQL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].port == port)
            return rows[i].wire;
    return WIRE_NONE;
}

/* The length of the message, then what it is: a version, or a number that is none. */
static enum wire pg_message(const uint8_t *data, size_t len) {
    uint32_t n, code;

    if (len < WIRE_PG_ENCRYPT_LEN)
        return WIRE_MORE;
    n = read_be32(data);
    code = read_be32(data + 4);
    if (n == WIRE_PG_ENCRYPT_LEN && (code == PG_SSL_REQUEST || code == PG_GSS_REQUEST))
        return WIRE_PG_ENCRYPT;
    return n > WIRE_PG_ENCRYPT_LEN && n <= PG_STARTUP_MAX && code >> 16 == PG_VERSION_3 >> 16 ? WIRE_POSTGRES : WIRE_NONE;
}

static enum wire starts_with(const uint8_t *data, size_t len, const char *word, enum wire wire) {
    size_t n = MIN_OF(len, strlen(word));

    if (memcmp(data, word, n) != 0)
        return WIRE_NONE;
    return n == strlen(word) ? wire : WIRE_MORE;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* "0032git-upload-pack ..." */
static enum wire git_line(const uint8_t *data, size_t len) {
    for (size_t i = 0; i < 4 && i < len; i++)
        if (!is_digit(data[i]) && !(data[i] >= 'a' && data[i] <= 'f'))
            return WIRE_NONE;
    return len <= 4 ? WIRE_MORE : starts_with(data + 4, len - 4, "git-", WIRE_GIT);
}

enum wire wire_of_bytes(const uint8_t *data, size_t len) {
    if (len == 0)
        return WIRE_MORE;
    switch (data[0]) {
    case 'S':
        return starts_with(data, len, "SSH-", WIRE_SSH);
    case '*':
        return len == 1 ? WIRE_MORE : is_digit(data[1]) ? WIRE_REDIS : WIRE_NONE;
    case '0':
        return git_line(data, len);
    case 0:
        return pg_message(data, len);
    default:
        return WIRE_NONE;
    }
}

/* The line where clients look for a greeting, which most show only when asked to; and a message that they show. */
static void ssh_refuse(const char *line, struct buf *b) {
    size_t len = strlen(line), payload = 1 + 4 + 4 + len + 4, padding = SSH_BLOCK - (4 + 1 + payload) % SSH_BLOCK;
    static const char zeros[2 * SSH_BLOCK];

    padding += padding < 4 ? SSH_BLOCK : 0;
    buf_addf(b, "%.*s\r\nSSH-2.0-Bawn\r\n", SSH_BANNER_MAX, line);
    add_be32(b, (uint32_t)(1 + payload + padding));
    buf_addc(b, (char)padding);
    buf_addc(b, SSH_DISCONNECT);
    add_be32(b, SSH_NOT_ALLOWED);
    add_be32(b, (uint32_t)len);
    buf_adds(b, line);
    add_be32(b, 0); /* language */
    buf_add(b, zeros, padding);
}

/* Fields: a letter, a text, a NUL byte; and one more at the end. */
static void pg_refuse(const char *line, struct buf *b) {
    static const char start[] = "SFATAL\0VFATAL\0C28000\0M";

    buf_addc(b, 'E');
    add_be32(b, (uint32_t)(4 + sizeof start - 1 + strlen(line) + 2));
    buf_add(b, start, sizeof start - 1);
    buf_adds(b, line);
    buf_add(b, "\0", 2);
}

/* The number of the packet is 0, as it takes the place of the greeting. */
static void mysql_refuse(const char *line, struct buf *b) {
    size_t len = 3 + strlen(line);
    const uint8_t head[] = {(uint8_t)len, (uint8_t)(len >> 8), 0, 0, 0xff, MYSQL_NOT_ALLOWED & 0xff, MYSQL_NOT_ALLOWED >> 8};

    buf_add(b, head, sizeof head);
    buf_adds(b, line);
}

void wire_refuse(enum wire wire, const char *text, struct buf *b) {
    char line[WIRE_TEXT_MAX + 1];

    snprintf(line, sizeof line, "%s", text);
    switch (wire) {
    case WIRE_SSH:
        ssh_refuse(line, b);
        return;
    case WIRE_SMTP:
        buf_addf(b, "554 5.7.1 %s\r\n", line);
        return;
    case WIRE_FTP:
        buf_addf(b, "530 %s\r\n", line);
        return;
    case WIRE_POP3:
        buf_addf(b, "-ERR %s\r\n", line);
        return;
    case WIRE_IMAP:
        buf_addf(b, "* BYE %s\r\n", line);
        return;
    case WIRE_MYSQL:
        mysql_refuse(line, b);
        return;
    case WIRE_REDIS:
        buf_addf(b, "-ERR %s\r\n", line);
        return;
    case WIRE_GIT:
        buf_addf(b, "%04xERR %s\n", (unsigned)(4 + strlen("ERR \n") + strlen(line)), line);
        return;
    case WIRE_POSTGRES:
        pg_refuse(line, b);
        return;
    case WIRE_PG_ENCRYPT:
        buf_addc(b, 'N');
        return;
    case WIRE_NONE:
    case WIRE_MORE:
    case WIRES:
        break;
    }
    BUG("no such protocol");
}
