/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-vault: gets values out of stores and puts them there (vault/vault.h).
 *
 * A program of its own because it has the user's rights, opens files, a bus and connections, and must not be any process that
 * reads what a sandbox sends.
 */
#include <curl/curl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"
#include "vault/vault.h"

int main(int argc, char **argv) {
    struct rlimit none = {0};

    /* Before there is a value: no debugger, no core dump, no configuration file of OpenSSL. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
        OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
        log_line("bawn-vault cannot protect its memory");
        _exit(1);
    }
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    json_set_alloc_funcs(malloc, secret_zero_free);
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, secret_zero_free, secret_zero_realloc, strdup, calloc) != CURLE_OK) {
        log_line("libcurl does not start");
        _exit(1);
    }
    /* No handlers at exit: nothing is left to be done, and the memory goes as a whole. */
    _exit(vault_run_verb(argc, argv, environ));
}
