/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-pull: gets an image and unpacks it (image/pull.h). */
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/secret.h"
#include "image/pull.h"
#include "image/pull_jail.h"

static const struct opt pull_opts[] = {
    {0, 0, "from", "KIND", "what kind of source", NULL, OPT_TO_ENUM(struct pull, from, pull_from_names)},
    {0, 0, "ref", "REF", "the image", NULL, OPT_TO_TEXT(struct pull, ref)},
    {0, 0, "arch", "ARCH", "for this machine", NULL, OPT_TO_TEXT(struct pull, arch)},
};

static int run_pull(int argc, char **argv, struct err *err) {
    static struct pull p = {.from = PULL_FROMS};
    int r = opt_parse(pull_opts, ARRAY_LEN(pull_opts), argc, argv, &p, 0, err);

    if (r == 0 && (p.from == PULL_FROMS || (p.from == PULL_REGISTRY && !p.ref)))
        r = err_usage(err, "bawn-pull is started by bawn: use 'bawn image pull'");
    if (r < 0)
        return r;
    if (!p.arch)
        p.arch = oci_arch();
    signal(SIGPIPE, SIG_IGN);
    /* Before the jail: no configuration file of OpenSSL, and libcurl's own preparations. */
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1 ||
        curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, secret_zero_free, secret_zero_realloc, strdup, calloc) != CURLE_OK)
        return err_oom(err);
    r = pull_lock(p.from == PULL_REGISTRY, err);
    return r < 0 ? r : pull_run(&p, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    int r = run_pull(argc, argv, &err);

    if (r < 0)
        log_err(&err);
    /* No handlers at exit: threads may be in the middle of something. */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}
