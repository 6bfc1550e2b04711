/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of a run for macOS's sandbox-exec, in the language of its profiles (SBPL): a pure translation of what Bawn enforces elsewhere. The last
 * rule that matches decides, so the profile goes from "nothing" over what is allowed to what is taken away again.
 *
 * It is as strict as the rules of .sandboxignore and protect.txt, or stricter where a profile cannot say the same: a name is denied in every spelling
 * (the file systems of macOS ignore case), "dir/" also hides a file of that name, and what "!dir" brings back below a hidden folder stays
 * hidden. Nothing here has run on a Mac; tests/integration/test_seatbelt.py asks an evaluator of the language what each profile allows.
 *
 * Parameters of the profile (sandbox-exec -D NAME=value): BAWN_HOME and BAWN_TMP, folders of the run by their real paths; BAWN_GATE, "localhost:PORT"
 * of the gate if there is a network.
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"

struct err;
struct ignore;

enum { SBPL_MAX = 16 * 1024 * 1024 };

struct sbpl_policy {
    const char *workspace; /* absolute */
    bool writable, network;
    const struct ignore *hide, *protect;      /* may be NULL */
    const struct strv *readable, *changeable; /* what the user mounts; may be NULL */
};

int sbpl_make(const struct sbpl_policy *p, struct buf *ret, struct err *err);

/* A string of the language, quotes included. Any bytes. */
void sbpl_quote(struct buf *out, const char *text);
/* As the kernel names it: /tmp, /var and /etc are links to folders in /private. In memory of its own; NULL: none left. */
char *sbpl_real_path(const char *path);

/* sbpl_rules.c: what the rules take away, for paths below `workspace` (a real path). */
enum sbpl_what { SBPL_HIDE, SBPL_PROTECT };
int sbpl_add_rules(const struct ignore *rules, const char *workspace, enum sbpl_what what, struct buf *out, struct err *err);
