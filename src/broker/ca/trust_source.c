/* SPDX-License-Identifier: Apache-2.0 */
/* Where this host has its trusted certificates. */
#include "broker/ca/trust_source.h"

#include <sys/stat.h>

enum { FORMAT = 1 }; /* of the folder: a new one makes every stock old */

/* Debian and Arch, Fedora, SUSE, Alpine. */
static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                      "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

static bool is_file(const char *path) {
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void trust_find(const char *ssl_cert_file, struct trust_source *ret) {
    *ret = (struct trust_source){.folder = "/etc/ssl/certs"};
    if (ssl_cert_file && ssl_cert_file[0] == '/' && strlen(ssl_cert_file) < sizeof ret->bundle && is_file(ssl_cert_file)) {
        memcpy(ret->bundle, ssl_cert_file, strlen(ssl_cert_file) + 1);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
        if (is_file(bundles[i])) {
            memcpy(ret->bundle, bundles[i], strlen(bundles[i]) + 1);
            return;
        }
}

void trust_stamp(const struct trust_source *s, char out[static TRUST_STAMP_SIZE]) {
    struct stat bundle = {0}, folder = {0};

    if (s->bundle[0] && stat(s->bundle, &bundle) < 0)
        bundle = (struct stat){0};
    if (stat(s->folder, &folder) < 0)
        folder = (struct stat){0};
    snprintf(out, TRUST_STAMP_SIZE, "%d %llu %lld %lld.%09ld %lld.%09ld %s\n", FORMAT, (unsigned long long)bundle.st_ino,
             (long long)bundle.st_size, (long long)bundle.st_mtim.tv_sec, bundle.st_mtim.tv_nsec,
             (long long)folder.st_mtim.tv_sec, folder.st_mtim.tv_nsec, s->bundle);
}
