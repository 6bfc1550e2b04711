/* SPDX-License-Identifier: Apache-2.0 */
/* Between values.c (who gets a value, and who waits for it) and values_fetch.c (where it comes from and goes to). */
#pragma once

#include "broker/values/values.h"

/* A request that waits for a value. */
struct waiting {
    struct waiting *next;
    struct broker_request req;
    uint8_t data[];
};

enum value_state { VALUE_NONE, VALUE_WANTED, VALUE_READY, VALUE_FAILED };

struct value {
    enum value_state state;
    struct secret value;    /* READY */
    struct secret identity; /* READY, OAuth: header and payload of the id_token */
    uint64_t expires;       /* READY: as in vault_value */
    int status;             /* FAILED */
    uint64_t deadline_ms;   /* WANTED: then it fails; FAILED: then it may be tried again */
    int sock;               /* of a bawn-vault that gets the value; -1: none */
    bool ended;             /* the one before was good once: the store's copy may be that one */
    struct waiting *first, **last;

    bool asked;     /* BROKER_MSG_WANT_VALUE: not answered yet */
    unsigned stale; /* answers still to come that are for another grant, or another login */
};

struct values {
    struct value v[GRANTS_MAX];
    size_t n_waiting, waiting_bytes;
    struct secret in, work;
    char path[BROKER_DATA_MAX]; /* of the request that is judged */
};

uint32_t value_index(const struct broker *b, const struct value *s);
bool value_is_over(const struct value *s);

/* These answer all waiting requests. */
void value_fail(struct broker *b, struct value *s, int status);
/* -ENOMEM: it has failed. */
int value_ready(struct broker *b, struct value *s, const struct broker_part *value, const struct broker_part *identity,
                uint64_t expires);

void value_end(struct value *s); /* zeroes it; the next one has to be a fresh one */
/* Asks the supervisor for the bawn-vault that is needed next, if there is one. */
void value_ask(struct broker *b, struct value *s);
