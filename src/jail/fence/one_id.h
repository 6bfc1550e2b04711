/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second filter of system calls, for root of a sandbox that has one id (jail/plan/plan_system.h). Package managers give files to other users, start
 * programs as others and set set-id bits; with one id and without capabilities all of that fails, and with it the package. Under this filter
 * these calls are not made, and return 0. So it takes rights away, and gives none:
 *
 *   chown, fchown, lchown, fchownat             the file stays with the one id there is
 *   setuid, setgid, setresuid, setgroups...     the process stays who it is
 *   chmod and its like with a set-id bit        the mode stays as it was; the other filter refuses it
 *
 * The newest of several filters says which error (here: none) a call that all of them refuse returns.
 */
#pragma once

#include "base/macros.h"

struct err;

/* many: there are several ids, and only set-id bits are left as they were. After seccomp_install(), which has checked the architecture. For good. */
int one_id_install(bool many, struct err *err) MUST_USE;
