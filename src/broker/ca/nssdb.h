/* SPDX-License-Identifier: Apache-2.0 */
/* The trust store of browsers (NSS): below the folder of a CA, nssdb/, made by NSS's own certutil where that is installed. */
#pragma once

struct err;

/* dirfd: the folder, where ca.pem is. Browsers are few and this is for them alone: if certutil fails there is no nssdb/. */
int nssdb_make(int dirfd, struct err *err);
