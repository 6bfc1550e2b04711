/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a run by class of risk, as bawn-review judges them: what `bawn apply` asks about, and the order in which
 * `bawn review --interactive` does.
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "ops/changes/run_pick.h"

struct err;

/* Names are values of --yes. */
enum changes_class {
    CHANGES_HIGH,         /* "high"; in folders of dependencies what no honest install brings */
    CHANGES_DEPENDENCIES, /* "dependencies": all else in these folders, for a part of an install is of no use */
    CHANGES_MEDIUM,       /* "medium", elsewhere */
    CHANGES_LOW,          /* "low", elsewhere */
    CHANGES_NONE,         /* no risk: never asked about */
    CHANGES_CLASSES
};
extern const char *const changes_class_names[CHANGES_CLASSES];
enum { CHANGES_ALL = (1 << CHANGES_CLASSES) - 1 }; /* sets of classes: bits */

/* About one change; the strings are in the report, whose bytes come from a process that reads hostile files. */
struct changes_verdict {
    const char *path;
    const char *folder; /* of dependencies or git objects, that it is shown with; "": none */
    enum changes_class class;
    bool high; /* its level, whatever the class */
};
struct changes_verdicts {
    struct buf report;
    struct changes_verdict *v; /* the riskiest first, then folder by folder */
    const struct changes_verdict **by_path;
    size_t n;
};
#define CHANGES_VERDICTS_INIT \
    { .report = BUF_INIT(CHANGES_VERDICTS_MAX) }
enum { CHANGES_VERDICTS_MAX = 1024 * 1024 * 1024 };
void changes_verdicts_done(struct changes_verdicts *v);

/* only, except: NULL or patterns. */
int changes_verdicts(const struct run_pick *p, const struct strv *only, const struct strv *except, struct changes_verdicts *ret,
                     struct err *err);
/* NULL: it was not judged. */
const struct changes_verdict *changes_verdict_find(const struct changes_verdicts *v, const char *path);
