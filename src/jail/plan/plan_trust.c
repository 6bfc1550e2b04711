/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's own CA in the places where programs look for authorities. The variables for those that look elsewhere: env.c.
 * Java needs none: Debian's JDKs link to /etc/ssl/certs/java/cacerts, Fedora's to the file of ca-trust. */
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"

struct trust_place {
    const char *to, *from; /* from: below the CA's folder */
};

static const struct trust_place everywhere[] = {{"/etc/ssl/certs", "certs"}};

/* Over files of the host's folders, which are there as a whole. */
static const struct trust_place fedora[] = {
    {"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "certs/ca-certificates.crt"},
};

static int add_places(const struct plan_input *in, struct plan *p, const struct trust_place *places, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        struct step step = {.kind = STEP_RO, .to = places[i].to, .ours = true};
        int r;

        step.from = plan_own(p, str_dupf("%s/%s", in->trust.folder, places[i].from));
        r = step.from ? plan_add(p, step, err) : err_oom(err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Browsers. A copy of its own for each sandbox, because Chromium ignores a database that it cannot write. */
static int add_nss(const struct plan_input *in, struct plan *p, struct err *err) {
    static const struct trust_place nss[] = {{"/run/bawn/nssdb", "nssdb"}};
    static const char *const files[] = {"cert9.db", "key4.db", "pkcs11.txt"};
    int r = add_places(in, p, nss, ARRAY_LEN(nss), err);

    if (r == 0)
        r = plan_add_own(p, (struct step){.kind = STEP_DIR}, str_dupf("%s/.pki/nssdb", p->home), NULL, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++) {
        const struct step copy = {.kind = STEP_COPY, .mode = 0600};

        r = plan_add_own(p, copy, str_dupf("%s/.pki/nssdb/%s", p->home, files[i]), str_dupf("%s/%s", nss[0].to, files[i]), err);
    }
    return r;
}

void plan_input_trust(struct plan_input *in, const char *folder) {
    char nss[PATH_MAX];

    in->trust.folder = folder;
    in->trust.nss = (size_t)snprintf(nss, sizeof nss, "%s/nssdb", folder) < sizeof nss && access(nss, F_OK) == 0;
    in->trust.pki = access(fedora[0].to, F_OK) == 0;
}

int plan_make_trust(const struct plan_input *in, struct plan *p, struct err *err) {
    int r;

    if (!p->network || !in->trust.folder)
        return 0;
    r = add_places(in, p, everywhere, ARRAY_LEN(everywhere), err);
    if (r == 0 && in->trust.pki)
        r = add_places(in, p, fedora, ARRAY_LEN(fedora), err);
    return r < 0 || !in->trust.nss ? r : add_nss(in, p, err);
}
