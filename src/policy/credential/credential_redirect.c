/* SPDX-License-Identifier: Apache-2.0 */
/* Where a login in a browser comes back to. */
#include <errno.h>

#include "base/parse.h"
#include "base/str.h"
#include "policy/credential/credential.h"

enum { PORT_MIN = 1024, PATH_MAX_LEN = 256 };

/* No query and no fragment: what follows the path is the service's answer. */
static bool path_ok(const char *path) {
    static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

    return path[0] == '/' && strlen(path) <= PATH_MAX_LEN && path[strspn(path, bytes)] == 0;
}

static int read_port(const char *text, size_t len, uint16_t *ret) {
    char digits[sizeof "65535"];
    uint64_t port;

    if (len == 0 || len >= sizeof digits)
        return -EINVAL;
    memcpy(digits, text, len);
    digits[len] = 0;
    if (parse_u64(digits, PORT_MIN, UINT16_MAX, &port, NULL) < 0)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

int credential_redirect_parse(const char *uri, struct credential_redirect *ret) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    static const char scheme[] = "http://";

    for (size_t i = 0; str_starts(uri, scheme) && i < ARRAY_LEN(hosts); i++) {
        struct credential_redirect r = {.path = uri + strlen(scheme) + strlen(hosts[i])};

        if (!str_starts(uri + strlen(scheme), hosts[i]))
            continue;
        if (r.path[0] == ':') {
            size_t n = strcspn(r.path + 1, "/");

            if (read_port(r.path + 1, n, &r.port) < 0)
                return -EINVAL;
            r.path += 1 + n;
        }
        snprintf(r.host, sizeof r.host, "%s", hosts[i]);
        if (!path_ok(r.path))
            return -EINVAL;
        *ret = r;
        return 0;
    }
    return -EINVAL;
}
