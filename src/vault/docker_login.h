/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins of registries, where `docker login` and `podman login` leave them: $DOCKER_CONFIG/config.json or ~/.docker/config.json, else
 * $REGISTRY_AUTH_FILE or containers/auth.json of the runtime folder. First the helper that credHelpers names for the registry, then credsStore, then auths.
 */
#pragma once

#include "base/secret.h"

struct err;
struct vault;

/* "user NUL secret" into ret, which was empty; no bytes: there is no login, which is no failure. host: as in a reference, "docker.io". */
int docker_login_get(const struct vault *v, const char *host, struct secret *ret, struct err *err);
