/* SPDX-License-Identifier: Apache-2.0 */
/* The trust store of browsers (NSS), for the folder of a CA. */
#pragma once

struct err;

/*
 * Makes nssdb/ with ca.pem in the folder. Browsers are few and this is for them alone: without certutil, or if it fails, there is none.
 * An empty store is most of the work. So one is left beside the folder, as host-nssdb/, for those that come after; it can be removed at any time.
 */
int nssdb_make(int dirfd, struct err *err);
