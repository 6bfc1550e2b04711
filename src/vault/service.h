/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secret Service of the desktop (org.freedesktop.secrets: GNOME Keyring, KWallet, KeePassXC) over the user's session bus.
 * An item is known by two attributes: application=bawn, and name=... or store=.... The session is "plain": the bus is the
 * user's own socket, and a program that can read it can ask the service too. Without libsystemd at build time every call says so.
 */
#pragma once

#include "base/secret.h"

struct err;

enum service_what { SERVICE_NAME, SERVICE_STORE, SERVICE_WHATS };

/* -ENOENT with no message: there is no such item. -ENOKEY: no bus, no service, locked. -ETIMEDOUT. -E2BIG: longer than ret's
 * room. */
int service_get(enum service_what what, const char *id, struct secret *ret /* has room */, struct err *err);
int service_put(enum service_what what, const char *id, const char *label, const struct secret *value,
                struct err *err); /* replaces */
int service_rm(enum service_what what, const char *id, struct err *err);
