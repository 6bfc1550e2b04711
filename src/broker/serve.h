/*
 * Answering requests (proto/brokermsg.h) until the other side closes. Everything in a request is hostile: bawn-gate may have been taken
 * over. What it can get here is a certificate for its own sandbox, which trusts this CA alone with it; never the key.
 */
#pragma once

#include "broker/ca.h"
#include "proto/brokermsg.h"

/* One request of len bytes. 0: *ret is the answer, which may say no. -EBADMSG: not a request; close the socket. */
int serve_answer(const struct ca *ca, const struct broker_request *req, size_t len, struct broker_answer *ret);
/* 0 when the other side is gone. */
int serve_loop(const struct ca *ca, int sock, struct err *err);
