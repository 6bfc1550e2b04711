/* SPDX-License-Identifier: Apache-2.0 */
/* What bawnd says at the start (START of spec/api-protocol.md). */
#pragma once

#include "proto/api/apimsg.h"

struct err;

enum { FRONT_HOSTS_MAX = 64, FRONT_VERSION_MAX = 32 };

struct front_conf {
    uint64_t json_max, upload_max, answer_max;
    uint64_t header_seconds, body_seconds, stall_seconds, idle_seconds, comment_seconds;
    uint64_t connections_max, peer_max, requests_max;
    uint64_t tls;
    bool mcp; /* the front of `bawn mcp --http`: its one path instead of the API's */
    char version[FRONT_VERSION_MAX];
    char *hosts[FRONT_HOSTS_MAX];
    size_t n_hosts;
    int listen[API_LISTEN_MAX];
    size_t n_listen;
    char *certificate, *key; /* PEM */
};

/* Takes the descriptors of m. */
int front_conf_read(struct front_conf *c, struct api_msg *m, struct err *err);
