/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte link between a supervisor's bawn-link (the near end) and a bawn-init with whom it shares no kernel (the far end):
 * frames on one reliable stream (spec/link-protocol.md). Pure: bytes in, structs out. Each end decodes what the other one claims.
 */
#pragma once

#include "base/macros.h"

enum {
    LINK_VERSION = 1,
    LINK_HELLO = 16,               /* bytes of the first thing that either end sends */
    LINK_HEADER = 8,               /* bytes before every payload */
    LINK_PAYLOAD_MAX = 128 * 1024, /* of DATA; every other frame has at most LINK_SMALL_MAX */
    LINK_SMALL_MAX = 256,
    LINK_CHANNELS = 2048,          /* numbers 0 to 2047; even ones are opened by the near end, odd ones by the far end */
    LINK_CONTROL = 0,              /* open from the beginning */
    LINK_WINDOW = 16 * 1024,       /* credit that a new channel has in each direction */
    LINK_WINDOW_MAX = 1024 * 1024, /* and may grow to */
    LINK_CONTROL_WINDOW = 512 * 1024,
    LINK_CONTROL_COST = 8, /* of a message on CONTROL, beside its length, so that empty ones are not free */
    LINK_CONTROL_FDS = 4
};

enum link_role { LINK_NEAR = 1, LINK_FAR };

struct link_hello {
    uint32_t version;
    enum link_role role;
};
void link_hello_encode(const struct link_hello *h, uint8_t out[static LINK_HELLO]);
int link_hello_decode(const uint8_t in[static LINK_HELLO],
                      struct link_hello *ret); /* -EBADMSG: no hello; any version is decoded */

enum link_type {
    LINK_OPEN = 1, /* struct link_open */
    LINK_DATA,     /* bytes; on CONTROL and of DATAGRAMS: one message each */
    LINK_CREDIT,   /* u32: more bytes may be sent to the sender of this */
    LINK_END,      /* u32: no more DATA follows; 0, or the errno for which the rest is missing */
    LINK_STOP,     /* asks the receiver of this to send no more; END follows from it */
    LINK_CLOSED,   /* to who opened it: both directions have ended here, the number is free */
    LINK_TTY,      /* struct link_tty: of a TERMINAL */
    LINK_PING,     /* answered by PONG */
    LINK_PONG,
    LINK_BYE /* text: why the sender ends the link now */
};
enum { LINK_TYPES = LINK_BYE };

struct link_header {
    enum link_type type;
    uint16_t channel;
    uint32_t len;
};
void link_header_encode(const struct link_header *h, uint8_t out[static LINK_HEADER]);
/* -EBADMSG: no type of ours, a number or length out of bounds, or a length that this type cannot have. */
int link_header_decode(const uint8_t in[static LINK_HEADER], struct link_header *ret);

enum link_kind {
    LINK_INPUT = 1,  /* bytes from who opens it */
    LINK_OUTPUT,     /* bytes to who opens it */
    LINK_SOCKET,     /* both ways */
    LINK_TERMINAL,   /* both ways, and TTY; from the far end: the master of a pty there */
    LINK_FILE,       /* from who opens it: the whole of a file, `size` bytes */
    LINK_CONNECTION, /* both ways; from the far end: a listener accepted it */
    LINK_DATAGRAMS   /* messages both ways, without credit; from the far end */
};
enum { LINK_KINDS = LINK_DATAGRAMS };

/* An internet address; family 0: none. */
struct link_addr {
    uint8_t family; /* 0, 4 or 6 */
    uint16_t port;
    uint8_t ip[16]; /* 4: the first four bytes */
};
enum { LINK_ADDR = 20 };
void link_addr_encode(const struct link_addr *a, uint8_t out[static LINK_ADDR]);
int link_addr_decode(const uint8_t in[static LINK_ADDR], struct link_addr *ret);

struct link_open {
    enum link_kind kind;
    uint16_t place;            /* CONNECTION, DATAGRAMS: enum link_place */
    uint32_t mode;             /* FILE: permissions */
    uint64_t size;             /* FILE */
    struct link_addr to, from; /* CONNECTION: what was connected to, and by whom */
};
enum { LINK_OPEN_SIZE = 16 + 2 * LINK_ADDR };
void link_open_encode(const struct link_open *o, uint8_t out[static LINK_OPEN_SIZE]);
int link_open_decode(const uint8_t in[static LINK_OPEN_SIZE], struct link_open *ret);

/* Where connections come from: the listeners of the sandbox's network (jail/network/network.h), then sockets that are shown inside. */
enum { LINK_PLACES_NETWORK = 16, LINK_PLACES_SHOWN = 2, LINK_PLACES = LINK_PLACES_NETWORK + LINK_PLACES_SHOWN };

/* DATA of DATAGRAMS begins with both addresses, in this order: the asker, and who was asked. */
enum { LINK_DATAGRAM_HEAD = 2 * LINK_ADDR, LINK_DATAGRAM_MAX = 8 * 1024 };

enum link_tty_what { LINK_TTY_SIZE = 1, LINK_TTY_MODES = 2 };
enum { LINK_TTY_CC = 32 };
struct link_tty {
    enum link_tty_what what;
    uint16_t size[4];  /* rows, columns, and both in pixels */
    uint32_t modes[4]; /* c_iflag, c_oflag, c_cflag, c_lflag */
    uint8_t cc[LINK_TTY_CC];
};
enum { LINK_TTY_BYTES = 4 + 8 + 16 + LINK_TTY_CC };
void link_tty_encode(const struct link_tty *t, uint8_t out[static LINK_TTY_BYTES]);
int link_tty_decode(const uint8_t in[static LINK_TTY_BYTES], struct link_tty *ret);

/*
 * A message on CONTROL: the channels that stand for its descriptors, which were opened before, then its bytes. The first one from the near
 * end is struct link_start with the start message and what becomes 0, 1 and 2; the first one from the far end is struct link_started. All
 * others are struct init_msg, as on a control socket.
 */
struct link_message {
    size_t n_channels;
    uint16_t channels[LINK_CONTROL_FDS];
    const uint8_t *bytes;
    size_t len;
};
enum { LINK_MESSAGE_HEAD = 1 + 2 * LINK_CONTROL_FDS };
/* Writes the head; the bytes follow. */
size_t link_message_head(const uint16_t *channels, size_t n, uint8_t out[static LINK_MESSAGE_HEAD]);
int link_message_decode(const uint8_t *in, size_t len, struct link_message *ret);

enum link_start_flag { LINK_START_NETWORK = 1 };
enum { LINK_PATH_MAX = 104 };
struct link_start {
    uint32_t flags;                               /* set of enum link_start_flag */
    uint32_t stdio;                               /* which of 0, 1, 2 came: bits 1, 2, 4; the others are /dev/null */
    char shown[LINK_PLACES_SHOWN][LINK_PATH_MAX]; /* unix sockets to listen on inside; "": not */
};
enum { LINK_START_SIZE = 8 + LINK_PLACES_SHOWN * LINK_PATH_MAX };
void link_start_encode(const struct link_start *s, uint8_t out[static LINK_START_SIZE]);
int link_start_decode(const uint8_t *in, size_t len, struct link_start *ret);

enum { LINK_WHY_MAX = 200 };
struct link_started {
    uint32_t error;  /* 0, or errno */
    uint32_t places; /* the network's listeners that there are, as in INIT_MSG_NETWORK */
    char why[LINK_WHY_MAX];
};
enum { LINK_STARTED_SIZE = 8 + LINK_WHY_MAX };
void link_started_encode(const struct link_started *s, uint8_t out[static LINK_STARTED_SIZE]);
int link_started_decode(const uint8_t *in, size_t len, struct link_started *ret);
