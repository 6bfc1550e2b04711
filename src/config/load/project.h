/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The project's own file, WORKSPACE/.bawn/config.json. The workspace belongs to the authors of the code in it, the agent
 * included, so the file is opened below the workspace without following any symbolic link, is never waited for (a FIFO),
 * and counts as untrusted until the user has trusted exactly these bytes.
 */
#pragma once

#include "base/sha256.h"
#include "config/fields/doc.h"

#define PROJECT_FILE ".bawn/config.json"
#define PROJECT_NETWORK_FILE ".bawn/network.json"

struct project {
    struct jsonfile doc;
    char *workspace; /* symbolic links resolved: what trust is bound to */
    char hash[SHA256_HEX_SIZE];
};

/* The project's network rules (policy/rules/rule.h); the same holds for them. Their trust is recorded under the file's own path. */
struct project_network {
    char *path; /* absolute, symbolic links resolved */
    char *text; /* as it is in the file: nothing has been checked but its size */
    size_t len;
    char hash[SHA256_HEX_SIZE];
};

int project_network_read(int workspace_fd, struct project_network *ret, struct err *err); /* 1 or 0, as below */
void project_network_done(struct project_network *n);
/* records: trust_file(); NULL trusts nothing. */
int project_network_trusted(const char *records, const struct project_network *n, bool *ret, struct err *err);

/* Returns 1 if there is a file, 0 if there is none. */
int project_read(const char *workspace, struct project *ret, struct err *err);
void project_done(struct project *p);
