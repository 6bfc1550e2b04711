/*
 * The project's own file, WORKSPACE/.bawn/config.json. The workspace belongs to whoever wrote the code in it, the agent
 * included, so the file is opened below the workspace without following any symbolic link, is never waited for (a FIFO),
 * and counts as untrusted until the user has trusted exactly these bytes.
 */
#pragma once

#include "base/sha256.h"
#include "config/doc.h"

#define PROJECT_FILE ".bawn/config.json"

struct project {
    struct doc doc;
    char *workspace; /* symbolic links resolved: what trust is bound to */
    char hash[SHA256_HEX_SIZE];
};

/* Returns 1 if there is a file, 0 if there is none. */
int project_read(const char *workspace, struct project *ret, struct err *err);
void project_done(struct project *p);
