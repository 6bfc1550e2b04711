/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses a protocol by its first bytes. */
#include "gateway/flow/sniff.h"

#include <strings.h>

#include "proto/tls_hello.h"

enum { METHOD_MAX = 20 };

enum sniff sniff_first(const uint8_t *data, size_t len) {
    size_t n = 0;

    if (len && tls_hello_could_be(data, len))
        return SNIFF_TLS;
    for (size_t i = 0; i < 2 && len && *data == (uint8_t) "\r\n"[i]; i++) { /* an empty line may come before a request */
        data++;
        len--;
    }
    if (len == 0)
        return SNIFF_MORE;
    while (n < len && n < METHOD_MAX && ((data[n] >= 'A' && data[n] <= 'Z') || (n > 0 && data[n] == '-')))
        n++;
    if (n == len && n < METHOD_MAX)
        return SNIFF_MORE;
    return n > 0 && n < len && data[n] == ' ' ? SNIFF_HTTP : SNIFF_OTHER;
}

bool sniff_wants_json(const uint8_t *data, size_t len) {
    static const char name[] = "accept:", json[] = "application/json";
    const uint8_t *at = data, *end = data + len;

    while (at < end) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        size_t line = (size_t)((stop ? stop : end) - at);

        if (line >= sizeof name - 1 && strncasecmp((const char *)at, name, sizeof name - 1) == 0) {
            for (at += sizeof name - 1, line -= sizeof name - 1; line && (*at == ' ' || *at == '\t'); line--)
                at++;
            return line >= sizeof json - 1 &&
                   strncasecmp((const char *)at, json, sizeof json - 1) == 0; /* as httpx_wants_json() */
        }
        at = stop ? stop + 1 : end;
    }
    return false;
}

static bool is_among(const uint16_t *ports, size_t n, uint16_t port) {
    for (size_t i = 0; i < n; i++)
        if (ports[i] == port)
            return true;
    return false;
}

bool sniff_server_first(uint16_t port) {
    static const uint16_t ports[] = {21, 22, 23, 25, 110, 119, 143, 587, 2222, 3306, 5900, 6667};

    return is_among(ports, ARRAY_LEN(ports), port);
}

bool sniff_client_first(uint16_t port) {
    static const uint16_t ports[] = {80, 443, 3000, 5000, 5432, 6379, 8000, 8080, 8443, 9418, 27017};

    return is_among(ports, ARRAY_LEN(ports), port);
}
