/* SPDX-License-Identifier: Apache-2.0 */
/* The file store as a whole: its lock is the user's, not a value's. */
#pragma once

struct vault;
struct err;

int file_unlock(const struct vault *v, struct err *err); /* its key into the kernel's keyring */
int file_lock(const struct vault *v, struct err *err);   /* and out again; nothing there is no error */
