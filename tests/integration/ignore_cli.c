/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matcher of .sandboxignore behind a pipe, for test_ignore_git.py. Reads records until the end of input:
 *
 *     F <dir> NUL <origin> NUL <length in decimal> NUL <bytes>    adds a file; a refusal ends the program with status 1
 *     f <path> NUL, d <path> NUL                                  asks about a file, a folder
 *     R                                                           forgets all files
 *
 * and answers each question with "<verdict> NUL <origin> NUL <line> NUL <pattern> NUL", as `git check-ignore -z -v -n` does.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "workspace/hide/ignore.h"

static char *read_string(char **s, size_t *cap) {
    if (getdelim(s, cap, 0, stdin) <= 0)
        errx(1, "the input ends within a record");
    return *s;
}

static void add(struct ignore *ig) {
    char *dir = NULL, *origin = NULL, *number = NULL, *data;
    size_t caps[3] = {0}, len;
    struct err err = {0};

    read_string(&dir, &caps[0]);
    read_string(&origin, &caps[1]);
    len = strtoul(read_string(&number, &caps[2]), NULL, 10);
    data = malloc(len + 1);
    if (!data || fread(data, 1, len, stdin) != len)
        errx(1, "the input ends within a file");
    if (ignore_add_file(ig, dir, origin, data, len, &err) < 0)
        errx(1, "%s", err.msg);
    free(dir);
    free(origin);
    free(number);
    free(data);
}

static void answer(const struct ignore *ig, bool is_dir, char **path, size_t *cap) {
    struct ignore_why why;
    int verdict = ignore_explain(ig, read_string(path, cap), is_dir, &why);

    printf("%d%c%s%c%u%c%s%c", verdict, 0, why.origin ? why.origin : "", 0, why.line, 0, why.pattern ? why.pattern : "", 0);
}

int main(void) {
    struct ignore *ig = ignore_new();
    char *path = NULL;
    size_t cap = 0;

    for (int c; ig && (c = getchar()) != EOF;)
        switch (c) {
        case 'F':
            add(ig);
            break;
        case 'R':
            ignore_free(ig);
            ig = ignore_new();
            break;
        default:
            answer(ig, c == 'd', &path, &cap);
        }
    ignore_free(ig);
    free(path);
    return 0;
}
