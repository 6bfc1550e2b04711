/* SPDX-License-Identifier: Apache-2.0 */
/* References, manifests and configurations of images, from the same bytes. What is accepted keeps its promises. */
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "proto/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void reference(const char *text) {
    struct oci_ref r, again;
    struct err err = {0};
    char name[OCI_NAME_SIZE], twice[OCI_NAME_SIZE];

    if (oci_ref_parse(text, &r, &err) < 0)
        return;
    if (strstr(r.path, "..") || strstr(r.path, "//") || r.path[0] == '/' || strpbrk(r.host, "/@?#\\ ") || !oci_ref_wanted(&r)[0])
        BUG("a reference that means something else in an address");
    oci_ref_name(&r, name);
    if (oci_ref_parse(name, &again, &err) < 0)
        BUG("a name that cannot be read again");
    oci_ref_name(&again, twice);
    if (!str_eq(name, twice))
        BUG("a name that changes when it is read again");
}

static void manifest(const char *text, size_t len) {
    struct oci_manifest m;
    struct err err = {0};
    size_t at;

    if (oci_manifest_parse(text, len, &m, &err) < 0)
        return;
    if (m.n > (m.index ? OCI_INDEX_MAX : OCI_LAYERS_MAX) || (!m.index && !oci_digest_ok(m.config.digest)))
        BUG("a manifest without its ceilings");
    for (size_t i = 0; i < m.n; i++)
        if (!oci_digest_ok(m.parts[i].digest))
            BUG("a digest that is none");
    if (m.index && oci_manifest_pick(&m, "amd64", &at, &err) == 0 && at >= m.n)
        BUG("an entry that is not there");
    oci_manifest_done(&m);
}

static void config(const char *text, size_t len) {
    struct oci_config c;
    struct err err = {0};

    if (oci_config_parse(text, len, &c, &err) < 0)
        return;
    if (c.diff_ids.len == 0 || c.diff_ids.len > OCI_LAYERS_MAX || c.env.len > OCI_LIST_MAX || !c.user || !c.workdir)
        BUG("a configuration without its ceilings");
    oci_config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    reference(text);
    manifest(text, size);
    config(text, size);
    free(text);
    return 0;
}
