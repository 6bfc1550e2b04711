/* SPDX-License-Identifier: Apache-2.0 */
/* What a client speaks, by its first bytes. Pure. */
#pragma once

#include "base/macros.h"

enum sniff { SNIFF_MORE, SNIFF_TLS, SNIFF_HTTP, SNIFF_OTHER };

/* SNIFF_TLS: can be the beginning of TLS. SNIFF_HTTP: a method and a space. */
enum sniff sniff_first(const uint8_t *data, size_t len);
/* A client that says it would rather read JSON than anything else: the head of a request, or a part of it. */
bool sniff_wants_json(const uint8_t *data, size_t len);
/* Ports of protocols in which the server speaks first: a client that waits for it learns of a refusal only by a reset. */
bool sniff_server_first(uint16_t port);
/* Those in which the client does, on the ports where they are usual. */
bool sniff_client_first(uint16_t port);
