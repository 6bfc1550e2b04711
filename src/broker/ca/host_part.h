/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the trust stores of all sandboxes have in common is made once and lies beside the folders of the CAs:
 *
 *     host-java       the stamp of what it was made from, the number of certificates, and these as Java's records
 *     host-nssdb/     a data base of NSS without any certificate
 *
 * Parsing the host's certificates and making an empty data base is most of what a new CA costs. Both can be removed at any time.
 */
#pragma once

#include "base/buf.h"

/* The content of a file `name` that was made from what `stamp` says, appended to ret. false: there is none. */
bool host_part_read(int stock, const char *name, const char *stamp, struct buf *ret);
/* If it fails, the next CA takes longer. */
void host_part_write(int stock, const char *name, const char *stamp, const struct buf *content);

/* The files (NULL-terminated) of the folder (from, from_name) as a new folder (to, to_name) of mode 0755. -errno; what is there then is removed. */
int host_part_copy(int from, const char *from_name, int to, const char *to_name, const char *const *files);
