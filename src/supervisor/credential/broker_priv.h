/* SPDX-License-Identifier: Apache-2.0 */
/* Between broker_process.c (bawn-broker as a process) and broker_wants.c (what it asks for). */
#pragma once

#include "supervisor/credential/broker_process.h"

enum { BROKER_LINE_MAX = 400, BROKER_VAULTS_MAX = GRANTS_MAX };

struct vault_child {
    pid_t pid;
    int messages; /* its stderr */
    uint32_t index;
};

struct brokerkeeper {
    struct broker_opts opts;
    pid_t pid; /* -1: none runs */
    int sock;
    unsigned starts; /* for this gate */
    uint64_t started_ms, next_ms;
    unsigned pause_ms;   /* after the next start */
    bool reported;       /* that one ended badly */
    bool vault_reported; /* that no vault can be started */

    struct vault_child vaults[BROKER_VAULTS_MAX];
    size_t n_vaults;
    char said[BROKER_LINE_MAX]; /* the last message of one: a client that tries again and again must not fill the screen */
    int uses;                   /* the folder secret-use; -1: not open */
    bool uses_failed;
    uint64_t touched_ms[GRANTS_MAX]; /* 0: not yet */
};

/* Takes fd (-1: none). Negative: the broker has to be given up. */
int brokerkeeper_send(struct brokerkeeper *b, const struct broker_msg *m, int fd);
/* One message that has passed brokermsg_sane(). Negative: the broker has to be given up. */
int brokerkeeper_take(struct brokerkeeper *b, const struct broker_msg *m);
void brokerkeeper_reap(struct brokerkeeper *b); /* those that have ended */
void brokerkeeper_end_vaults(struct brokerkeeper *b);
