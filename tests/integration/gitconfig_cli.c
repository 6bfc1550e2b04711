/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Bawn reads in git configurations, and how it judges them (test_gitconfig_judge.py).
 *
 *     gitconfig_cli read FILE...             for each: "odd LINE", or "plain BYTES" and that many bytes, as `git config -f FILE --list -z` prints them
 *     gitconfig_cli judge FOLDER OLD NEW     "yes", or the reason
 *     gitconfig_cli modules NEW              the same for a .gitmodules
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitconfig_judge.h"
#include "workspace/git/gitconfig_plain.h"

static size_t read_all(const char *path, char *to, size_t size) {
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(to, 1, size, f) : 0;

    if (!f)
        exit(2);
    fclose(f);
    return n;
}

static int print_entry(const char *key, const char *value, unsigned line UNUSED, void *arg, struct err *err UNUSED) {
    struct buf *out = arg;

    buf_adds(out, key);
    if (value) {
        buf_addc(out, '\n');
        buf_adds(out, value);
    }
    buf_addc(out, 0);
    return 0;
}

static void read_one(const char *path) {
    static char text[1 << 20];
    struct buf out = BUF_INIT(1 << 24);
    size_t n = read_all(path, text, sizeof text);
    unsigned line = gitconfig_not_plain(text, n);
    int r = gitconfig_parse(text, n, print_entry, &out, NULL);

    if (line || r < 0)
        printf("odd %u\n", line);
    else
        printf("plain %zu\n", out.len);
    if (!line && r == 0)
        fwrite(buf_str(&out), 1, out.len, stdout);
    buf_done(&out);
}

static bool is_private(void *arg UNUSED, const char *path) {
    return str_starts(path, "/tmp/");
}

static bool may_hold(void *arg UNUSED, const char *rel) {
    return !str_starts(rel, ".vscode");
}

static int judge(const char *old_path, const char *new_path, const char *folder) {
    static char old[1 << 20], new[1 << 20];
    struct gitconfig_scene s = {.workspace = "/work/space",
                                .folder = folder,
                                .is_module = strstr(folder, "modules/"),
                                .is_private = is_private,
                                .may_hold = may_hold};
    size_t n = old_path ? read_all(old_path, old, sizeof old) : 0, k = read_all(new_path, new, sizeof new);
    char why[GITCONFIG_WHY_MAX] = "";
    struct buf text = BUF_INIT(1 << 22);
    int r = old_path ? gitconfig_judge(&s, old, n, new, k, &text, why) : gitconfig_judge_modules(&s, new, k, why);

    puts(r == 0 ? "yes" : why[0] ? why : "failed");
    if (r == 0 && (text.len != k || memcmp(buf_str(&text), new, k) != 0))
        fwrite(buf_str(&text), 1, old_path ? text.len : 0, stdout);
    buf_done(&text);
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 3 && str_eq(argv[1], "read")) {
        for (int i = 2; i < argc; i++)
            read_one(argv[i]);
        return 0;
    }
    if (argc == 5 && str_eq(argv[1], "judge"))
        return judge(argv[3], argv[4], argv[2]);
    if (argc == 3 && str_eq(argv[1], "modules"))
        return judge(NULL, argv[2], "");
    return 64;
}
