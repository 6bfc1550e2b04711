/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of /etc/passwd. */
#include "os/user/passwd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_NAME, FIELD_PASSWORD, FIELD_UID, FIELD_GID, FIELD_GECOS, FIELD_HOME, FIELD_SHELL, FIELDS };

static bool split(char *line, char *fields[static FIELDS]) {
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        if (!line)
            return false;
        fields[i] = strsep(&line, ":");
    }
    return !line;
}

static bool is_user(const char *field, uid_t uid) {
    char *end;
    unsigned long n = strtoul(field, &end, 10);

    return field[0] >= '0' && field[0] <= '9' && *end == 0 && n == uid;
}

int passwd_find(uid_t uid, struct passwd_entry *ret) {
    FILE *f = fopen("/etc/passwd", "re");
    char *line = NULL, *fields[FIELDS];
    size_t size = 0;
    int r = -ENOENT;

    while (f && r == -ENOENT && getline(&line, &size, f) > 0)
        if (split(line, fields) && is_user(fields[FIELD_UID], uid)) {
            *ret = (struct passwd_entry){.line = line, .name = fields[FIELD_NAME], .home = fields[FIELD_HOME]};
            line = NULL;
            r = 0;
        }
    if (f && r < 0 && !feof(f))
        r = errno == ENOMEM ? -ENOMEM : r;
    free(line);
    if (f)
        fclose(f);
    return r;
}

void passwd_done(struct passwd_entry *e) {
    free(e->line);
    *e = (struct passwd_entry){0};
}
