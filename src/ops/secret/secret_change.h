/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `bawn secret set`, `rm`, `lock`, `unlock` and `login` do. Values are read, asked for on our terminal and stored by bawn-vault
 * alone; here are only definitions. Each change is in the audit log before it is made.
 */
#pragma once

#include "base/err.h"
#include "base/strv.h"
#include "ops/secret/secret_file.h"

struct secret_set {
    struct credential c; /* checked; taken by secret_define() */
    bool replace;        /* the one that has this name may be replaced */
    bool refresh_token;  /* bawn-vault reads a token of OAuth now */
};

struct secret_set_result {
    int status; /* of bawn-vault; not 0: it has said why, and nothing was saved */
    struct secret_file file;
    const struct credential *c; /* in file */
    struct strv notes;          /* other secrets for the same host, and hosts that no rule allows */
};
#define SECRET_SET_RESULT_INIT \
    { .file = SECRET_FILE_INIT }
void secret_set_result_done(struct secret_set_result *r);

int secret_define(struct secret_set *s, struct secret_set_result *ret, struct err *err);

struct secret_removed {
    bool removed;
    int status;         /* of bawn-vault, if it did not remove the value */
    struct err problem; /* with force: why the value may still be in its store */
};
/* f: from secret_file_edit(). The definition stays if the value cannot be removed, unless force. */
int secret_remove(struct secret_file *f, const char *name, bool force, struct secret_removed *ret, struct err *err);

/* The encrypted file is locked, or unlocked. *ret_status: of bawn-vault, which has said what is wrong. */
int secret_lock(bool lock, int *ret_status, struct err *err);
/* Tokens of OAuth, by a browser. */
int secret_login(const char *name, int *ret_status, struct err *err);
