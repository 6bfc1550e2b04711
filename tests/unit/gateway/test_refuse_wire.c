/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gateway/flow/refuse_wire.h"

#define LINE "Bawn denied a.example:1"

static void test_bytes(void **state) {
    static const struct {
        const char *bytes;
        size_t len;
        enum wire want;
    } rows[] = {
        {"", 0, WIRE_MORE},
        {"S", 1, WIRE_MORE},
        {"SSH-2.0-OpenSSH_9.2\r\n", 21, WIRE_SSH},
        {"SSX", 3, WIRE_NONE},
        {"*", 1, WIRE_MORE},
        {"*1\r\n$4\r\nPING\r\n", 14, WIRE_REDIS},
        {"* OK", 4, WIRE_NONE},
        {"0", 1, WIRE_MORE},
        {"0032", 4, WIRE_MORE},
        {"0032git-up", 10, WIRE_GIT},
        {"0032hg", 6, WIRE_NONE},
        {"0x32git-", 8, WIRE_NONE},
        {"\0\0\0\x08\x04\xd2\x16", 7, WIRE_MORE},
        {"\0\0\0\x08\x04\xd2\x16\x2f", 8, WIRE_PG_ENCRYPT},
        {"\0\0\0\x08\x04\xd2\x16\x30", 8, WIRE_PG_ENCRYPT},
        {"\0\0\0\x10\x04\xd2\x16\x2e", 8, WIRE_NONE}, /* cancel */
        {"\0\0\0\x09\0\x03\0\0", 8, WIRE_POSTGRES},
        {"\0\0\0\x54\0\x03\0\x02user", 12, WIRE_POSTGRES},
        {"\0\0\0\x08\0\x03\0\0", 8, WIRE_NONE},
        {"\0\0\x27\x11\0\x03\0\0", 8, WIRE_NONE},
        {"\0\0\0\x54\0\x02\0\0", 8, WIRE_NONE},
        {"hello", 5, WIRE_NONE},
        {"\xff\xff", 2, WIRE_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (wire_of_bytes((const uint8_t *)rows[i].bytes, rows[i].len) != rows[i].want)
            fail_msg("row %zu is %d", i, wire_of_bytes((const uint8_t *)rows[i].bytes, rows[i].len));
}

static void test_ports(void **state) {
    assert_int_equal(wire_of_port(22), WIRE_SSH);
    assert_int_equal(wire_of_port(3306), WIRE_MYSQL);
    assert_int_equal(wire_of_port(5432), WIRE_NONE); /* the client speaks first */
    assert_int_equal(wire_of_port(0), WIRE_NONE);
}

/* Lengths that the formats have in them are right, however long the line is. */
static void test_packets(void **state) {
    for (size_t len = 1; len < 600; len++) {
        CLEANUP(buf_done) struct buf ssh = BUF_INIT(4096), pg = BUF_INIT(4096), my = BUF_INIT(4096), git = BUF_INIT(4096);
        size_t shown = MIN_OF(len, (size_t)WIRE_TEXT_MAX), n;
        const uint8_t *p;
        char line[600];

        memset(line, 'x', len);
        line[len] = 0;
        wire_refuse(WIRE_SSH, line, &ssh);
        p = memmem(ssh.data, ssh.len, "SSH-2.0-Bawn\r\n", 14);
        assert_non_null(p);
        assert_true((const char *)p - ssh.data <= 255);
        p += 14;
        n = (size_t)((const uint8_t *)ssh.data + ssh.len - p);
        assert_int_equal(n % 8, 0);
        assert_int_equal(n - 4, (size_t)p[2] << 8 | p[3]);
        assert_true(p[4] >= 4);
        assert_int_equal(n, 4 + 1 + 1 + 4 + 4 + shown + 4 + p[4]);
        wire_refuse(WIRE_POSTGRES, line, &pg);
        p = (const uint8_t *)pg.data;
        assert_int_equal(pg.len - 1, (size_t)p[3] << 8 | p[4]);
        assert_memory_equal(pg.data + pg.len - 3, "x\0", 3);
        wire_refuse(WIRE_MYSQL, line, &my);
        p = (const uint8_t *)my.data;
        assert_int_equal(my.len - 4, (size_t)p[1] << 8 | p[0]);
        wire_refuse(WIRE_GIT, line, &git);
        snprintf(line, sizeof line, "%04zx", git.len);
        assert_memory_equal(git.data, line, 4);
    }
}

static void test_lines(void **state) {
    static const struct {
        enum wire wire;
        const char *want;
    } rows[] = {{WIRE_SMTP, "554 5.7.1 " LINE "\r\n"}, {WIRE_FTP, "530 " LINE "\r\n"},    {WIRE_POP3, "-ERR " LINE "\r\n"},
                {WIRE_IMAP, "* BYE " LINE "\r\n"},     {WIRE_REDIS, "-ERR " LINE "\r\n"}, {WIRE_PG_ENCRYPT, "N"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

        wire_refuse(rows[i].wire, LINE, &b);
        assert_string_equal(buf_str(&b), rows[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_ports), cmocka_unit_test(test_packets),
                                       cmocka_unit_test(test_lines)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
