/* SPDX-License-Identifier: Apache-2.0 */
/* The user's secrets.json (policy/credential/credential.h), as `bawn secret` reads and changes it. Replaced as a whole, under a lock. */
#pragma once

#include "policy/credential/credential.h"

struct secret_file {
    char *home, *folder, *path;
    int dir; /* locked; -1: only read */
    struct credentials all;
};
#define SECRET_FILE_INIT \
    { .dir = -1 }

int secret_file_read(struct secret_file *f, struct err *err);
int secret_file_edit(struct secret_file *f, struct err *err); /* makes its folder */
int secret_file_save(const struct secret_file *f, struct err *err);
/* What would be saved, as a memfd for bawn-vault. */
int secret_file_preview(const struct secret_file *f, int *ret_fd, struct err *err);
void secret_file_done(struct secret_file *f);
/* The one of this name; exit status 64 if there is none, with the nearest one. */
int secret_file_find(const struct secret_file *f, const char *name, const struct credential **ret, struct err *err);
