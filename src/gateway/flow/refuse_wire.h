/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A refusal in protocols other than HTTP and TLS: the error that a server of that protocol sends before anything else, with a line
 * of text that clients print. Which protocol it is, the first bytes of the client say, or the port where the server speaks first.
 * Pure. No more of the client's bytes is looked at than is compared here.
 */
#pragma once

#include "base/macros.h"

struct buf;

enum wire {
    WIRE_NONE, /* it is reset */
    WIRE_MORE, /* not known yet */
    WIRE_SSH,
    WIRE_SMTP,
    WIRE_FTP,
    WIRE_POP3,
    WIRE_IMAP,
    WIRE_MYSQL,
    WIRE_REDIS,
    WIRE_GIT,        /* git:// */
    WIRE_POSTGRES,   /* wants to log in */
    WIRE_PG_ENCRYPT, /* asks whether it may encrypt first; the answer is no, and it says more then */
    WIRES
};

enum { WIRE_PG_ENCRYPT_LEN = 8, WIRE_TEXT_MAX = 400 };

enum wire wire_of_port(uint16_t port); /* the server speaks first; WIRE_NONE: not there */
enum wire wire_of_bytes(const uint8_t *data, size_t len);
/* line: printable, without line end. Not for WIRE_NONE and WIRE_MORE. */
void wire_refuse(enum wire wire, const char *line, struct buf *b);
