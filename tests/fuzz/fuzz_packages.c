/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent left about its packages: the first byte chooses the reader. Whatever the bytes are, names and versions end within their
 * ceilings, paths of a RECORD are not empty, and a normal name is normal once.
 */
#include "base/str.h"
#include "review/fold/fold_packages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_facts(package_read_fn *read, const char *text, size_t len) {
    struct package_facts f = {0};
    char name[sizeof f.name];

    read(&f, text, len);
    if (strnlen(f.name, sizeof f.name) == sizeof f.name || strnlen(f.version, sizeof f.version) == sizeof f.version ||
        strnlen(f.scripts, sizeof f.scripts) == sizeof f.scripts || strnlen(f.checksum, sizeof f.checksum) == sizeof f.checksum)
        BUG("a string without end");
    package_python_name(f.name);
    memcpy(name, f.name, sizeof name);
    package_python_name(name);
    if (!str_eq(name, f.name))
        BUG("a normal name has another normal name");
}

static void check_listed(const char *name, const char *version, void *arg UNUSED) {
    if (strlen(name) + strlen(version) > 2 * (size_t)RISK_FILE_MAX)
        BUG("longer than the file");
}

static void check_path(const char *path, void *arg) {
    if (!*path || strlen(path) > *(size_t *)arg)
        BUG("no path of this file");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static package_read_fn *const readers[] = {package_read_json, package_read_cargo, package_read_checksum,
                                               package_read_metadata};
    size_t len = size ? size - 1 : 0, which = size ? data[0] % 8 : 0;
    CLEANUP(freep) char *text = malloc(len + 1);

    if (!text)
        BUG("no memory");
    if (len)
        memcpy(text, data + 1, len);
    text[len] = 0;
    if (which < ARRAY_LEN(readers))
        check_facts(readers[which], text, len);
    else if (which == 4)
        package_read_modules(text, len, check_listed, NULL);
    else if (which == 5)
        package_read_installed(text, len, check_listed, NULL);
    else if (which == 6)
        package_read_record(text, len, check_path, &len);
    else
        package_declares(text, len, "bin/cli.js");
    return 0;
}
