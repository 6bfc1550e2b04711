/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn asks of bawn-review: the words of its command line, written by src/cli/review_spawn.c. */
#pragma once

#include "base/strv.h"
#include "config/settings.h"
#include "review/risk/risk.h"

struct err;

enum request_format {
    REQUEST_TEXT,
    REQUEST_JSON,
    REQUEST_SARIF,
    REQUEST_PATCH,
    REQUEST_STAT,
    REQUEST_NAMES,
    REQUEST_PATHS, /* for bawn itself: "<level>" NUL "<path>" NUL "<folder>" NUL, the riskiest first, nothing escaped. The folder is
                      the one that it is shown with, "": none; '!' in front: it is of high risk there for a reason that no
                      honest install brings; '=': these are no dependencies */
    REQUEST_GIT,   /* for bawn itself, what commits and the index bring: "hold" NUL "<path>" NUL, and "high" NUL "<line>" NUL,
                      of which the line is escaped; "end" NUL NUL at the end */
    REQUEST_FORMATS
};
extern const char *const request_format_names[REQUEST_FORMATS];

struct review_request {
    enum request_format format;
    bool colour, terminal;
    bool diff;       /* each file's diff with it */
    bool block;      /* text: no head and no summary */
    bool must_match; /* patterns that name no change are an error */
    enum risk_level fail_on;
    char *run, *workspace; /* as names to print */
    char *base;            /* worktree mode: the commit that the branch began at; else NULL */
    enum workspace_mode mode;
    uint64_t begun_ns, ended_ns;
    bool all;                 /* folders of dependencies file by file */
    char *folder;             /* only this one, as a block; NULL: all */
    struct strv only, except; /* patterns */
    struct strv paths;        /* exactly these; empty: all */
};

int request_parse(int argc, char **argv, struct review_request *ret, struct err *err); /* argv[0] is skipped */
void request_done(struct review_request *q);
