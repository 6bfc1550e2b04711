/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's name server, UDP and TCP: strict reading, verdict on the name, then a synthetic address (names.h). Nothing is
 * ever forwarded: the real lookup happens when a connection to an allowed name is made (resolve.h), so not even an allowed name
 * reaches the host's name servers because it was asked for here.
 *
 *     A, AAAA             the synthetic address, TTL NAMES_TTL_S
 *     HTTPS, SVCB, others NODATA: no ECH, no alternative ports
 *     denied              an address of its own kind (names.h), so that the connection can be answered; NODATA for other types;
 *                         with extended error 15 (blocked) and the verdict's code and reason as text (RFC 8914). NXDOMAIN where
 *                         not every port is captured, for names that programs ask for to find out where they are (metadata
 *                         services, wpad), and when there are too many
 *     PTR of a synthetic address: its name
 *     localhost, *.localhost: the sandbox's own loopback; bawn.internal: the gate; both whatever the rules say
 *     no valid name       FORMERR or NXDOMAIN with extended error; other opcodes NOTIMP; classes other than IN REFUSED
 */
#pragma once

#include "policy/rules/verdict.h"

struct gate;
struct dnsd;
struct names;

enum {
    DNSD_CONNECTIONS_MAX = 256, /* over TCP, and by sockets of the guard's for UDP; more are closed at once */
    DNSD_IDLE_MS = 10000,       /* time for the next whole question */
    DNSD_BATCH = 64             /* questions that one turn of the loop answers for one socket */
};

/* What an answer depends on. */
struct dnsd_view {
    const struct policy *policy;
    struct names *names;
    uint64_t now_s;
    bool ipv6;           /* the sandbox can connect to IPv6 addresses; else AAAA is NODATA */
    bool answers_denied; /* a connection to any port comes to the gate: denied names get addresses, too */
};

struct dnsd_refusal {
    bool refused;
    bool again; /* it has an address since an earlier question: the connections to that are logged, not each question */
    char host[HOST_TEXT_MAX + 1]; /* "" if it could not be read */
    struct policy_verdict verdict;
};

/*
 * One message in, one message out: how long it is, 0: no answer. No input or output, so that tests and fuzzers drive it.
 * ret->refused: policy, or the name itself, was the reason, and the caller has to log it.
 */
size_t dnsd_answer(const struct dnsd_view *view, const uint8_t *query, size_t len, uint8_t *out, size_t size,
                   struct dnsd_refusal *ret);

/* Takes the descriptors, also on failure; -1: none. */
int dnsd_new(struct gate *g, int udp4, int udp6, struct dnsd **ret, struct err *err);
/* What the loop still holds is freed when it runs next. */
void dnsd_free(struct dnsd *d);
/* A TCP connection to port 53: takes the descriptor. */
void dnsd_accept(struct dnsd *d, int fd);
