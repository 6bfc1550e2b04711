/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stock of certificate authorities, one per sandbox that has a network. Making one takes an OpenSSL program some milliseconds, which
 * no start should pay: it is taken from the stock by one rename(), and comes back if no certificate was ever made with it. One that was
 * used is removed with its sandbox. Only runs whose rules need a look inside TLS wait for the broker when the stock is empty; others then
 * go without: users without such rules have no stock and pay for none.
 *
 *     $XDG_STATE_HOME/bawn/ca/free-<random>/        free
 *     $XDG_STATE_HOME/bawn/ca/taken-<pid>-<start time>-<random>/    of a supervisor; swept when that is dead
 *         key.pem     0600, never shown to a sandbox
 *         ca.pem      the certificate
 *         certs/      for /etc/ssl/certs: the host's, our certificate in the bundle, with its hash link; java/cacerts
 *         nssdb/      for ~/.pki/nssdb, if the host has certutil
 *         stamp       what certs/ was made from; a CA made from other files, or older than a week, is thrown away
 *     $XDG_STATE_HOME/bawn/ca/host-nssdb/                 what all nssdb/ begin with (broker/ca/nssdb.h)
 */
#pragma once

#include "base/macros.h"

struct err;

struct castock {
    char *path; /* of the taken folder; NULL: none */
    bool used;  /* a broker had it: it does not go back */
    int maker;  /* pid of the bawn-broker that makes the next one meanwhile; 0: none */
};

/* state: $XDG_STATE_HOME/bawn. needed: waits for bawn-broker if the stock is empty; otherwise ret->path is NULL then. */
int castock_take(const char *state, bool needed, struct castock *ret, struct err *err);
/* A bawn-broker has its key: it is not given back, and another one is made for the stock while this run goes on. */
void castock_use(struct castock *c);
/* For a sandbox that keeps it for long: if few are left, another is made meanwhile, so that the next start finds one. */
void castock_refill(struct castock *c);
/* Back to the stock, or away. Waits for the one that is being made, so that no process outlives the run. */
void castock_done(struct castock *c);
