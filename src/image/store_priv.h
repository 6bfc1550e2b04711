/* SPDX-License-Identifier: Apache-2.0 */
/* What image_store.c and store_remove.c share. */
#pragma once

#include "image/image_store.h"

enum { STORE_NAME_SIZE = 64 + 6 };

void image_ref_done(struct image_ref *r);
void store_ref_file(const char *name, char ret[static STORE_NAME_SIZE]);
void store_config_file(const char *id, char ret[static STORE_NAME_SIZE]);
int store_read_ref(const struct image_store *s, const char *file, struct image_ref *ret,
                   struct err *err); /* -ENOENT without a message */
int store_read_config(const struct image_store *s, const char *file, struct image_info *ret, int *ret_fd, struct err *err);
/* ref_file: "" if the image was named by its id. */
int store_resolve(const struct image_store *s, const char *wanted, char config[static STORE_NAME_SIZE],
                  char ref_file[static STORE_NAME_SIZE], char **ret_name, struct err *err);
bool store_in_use(int config_fd); /* with the store locked alone */
