/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as a client may send them, and, behind the first line end, a pattern for them. */
#include "base/err.h"
#include "policy/host/http_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reading(const char *text) {
    static struct http_path again;
    struct err err = {0};

    if (strcmp(text, "*") == 0)
        return;
    if (text[0] != '/' || strstr(text, "//") || strstr(text, "/./") || strstr(text, "/../"))
        BUG("a path that is not normal");
    if (http_path_parse(text, strlen(text), &again, &err) < 0 || strcmp(text, again.text) != 0 || again.changed)
        BUG("a path that is not its own normal form");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct http_path path;
    const char *bytes = (const char *)data, *line = size ? memchr(bytes, '\n', size) : NULL;
    size_t len = line ? (size_t)(line - bytes) : size;
    char glob[PATH_GLOB_MAX + 1];
    struct err err = {0};

    if (http_path_parse(bytes, len, &path, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a refusal without a reason");
        return 0;
    }
    check_reading(path.text);
    if (path.other[0])
        check_reading(path.other);
    if (line && path_glob_parse(line + 1, size - len - 1, glob, &err) == 0)
        path_glob_match_loose(glob, &path);
    if (path_glob_parse(path.text, path.len, glob, &err) == 0 && !path_glob_match_loose(glob, &path))
        BUG("a rule that denies a path and does not match it");
    return 0;
}
