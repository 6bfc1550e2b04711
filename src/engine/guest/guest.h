/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lima and Docker Sandboxes: another program keeps a virtual machine with a Linux of its own, shares folders of this machine with it, and runs a
 * command in it whose standard input and output are a clean stream of bytes. That is all that a link needs (link/near.h).
 *
 * Theory of operation. Each run has a machine of its own, which is removed at its end. The plan of the run becomes mounts, files and private areas
 * as for a container (engine/container/container.h); the folders among them are shared with the machine, with nothing else of the host.
 * In the machine, root runs a script (guest_script.c): new namespaces, the machine's own system as a root that is read-only, what the plan mounts, and
 * then bawn-enter, which becomes the user of the sandbox and bawn-init. There is no network but the loopback of that namespace.
 *
 * These have not been run on a Mac: GUEST_UNTRIED is said wherever they are shown or used. docs/macos.md has the list of what to look at.
 */
#pragma once

#include "engine/container/container.h"

#define GUEST_UNTRIED "not run on a Mac yet, only against a stand-in for its program (docs/macos.md)"
enum { GUEST_NAME_SIZE = 72, GUEST_TEXT_MAX = 1024 * 1024, GUEST_SHARES_MAX = 32 };

/* -- guest_share.c: which folders the machine gets ------------------------------------------------------------------------ */

struct guest_share {
    char *from, *at; /* on this machine; in the guest */
    bool writable;
};
struct guest_shares {
    struct guest_share *v;
    size_t n;
};
void guest_shares_done(struct guest_shares *s);
/* The folder of the run, then what the plan mounts. at: the prefix of the guest's names; NULL: the same names as here. Single files must be in one
 * of these folders: guest_files_copy() has put them there. */
int guest_shares_make(const struct container_plan *c, const char *folder, const char *at, struct guest_shares *ret,
                      struct err *err);
/* A path of this machine as the guest sees it; NULL if it is not shared, or memory ran out. */
char *guest_path(const struct guest_shares *s, const char *path);
/* Single files that are in no shared folder are copied into the folder of the run; c is changed to name the copies. */
int guest_files_copy(struct container_plan *c, const struct container_folder *f, struct err *err);

/* -- guest_script.c: what root of the guest does ---------------------------------------------------------------------------- */

int guest_script_make(const struct plan *p, const struct container_plan *c, const struct guest_shares *s, const char *folder,
                      struct buf *ret, struct err *err);

/* -- guest.c: one driver -------------------------------------------------------------------------------------------------------- */

struct guest_kind {
    struct container_kind cli;  /* by_bytes */
    const char *const *prefix;  /* between the program and its verb; NULL-terminated */
    const char *const *version; /* the arguments that show whether it works; NULL-terminated */
    bool sized;                 /* the machine has the CPUs and the memory that the limits say */
    const char *at;             /* see guest_shares_make() */
    const char *remedy;         /* when there is no program */
    /* The machine's arguments, and what the program reads (a file in the folder of the run, "" for none). */
    int (*create)(const struct guest_kind *k, const char *name, const char *folder, const struct plan *p, const char *image,
                  const struct guest_shares *s, struct strv *ret, struct buf *ret_file, struct err *err);
    int (*exec)(const struct guest_kind *k, const char *name, const char *script, struct strv *ret);
    int (*remove)(const struct guest_kind *k, const char *name, struct strv *ret);
    /* Whether the machine is what was asked for; NULL: nothing to look at. */
    int (*check)(const struct guest_kind *k, const struct container_cli *cli, const char *name, const struct guest_shares *s,
                 struct err *err);
    const char *const *list; /* prints the names of all machines, one in a line */
};
#define GUEST_FILE "machine.yaml"

/* kinds: the first whose program is there; NULL-terminated. */
size_t guest_probe(const struct guest_kind *const *kinds, struct engine_state *ret, const char **ret_names, size_t max);
int guest_start(const struct guest_kind *const *kinds, const struct engine_request *req, struct sandbox *sb, struct err *err);
void guest_finish(const struct guest_kind *const *kinds, struct sandbox *sb);
int guest_image(struct engine_image *ret, struct err *err); /* what is known of any machine's programs */

int guest_bundle(struct container_box *b, const struct engine_request *req, struct err *err);
/* Adds the program, its prefix and the words up to NULL. */
int guest_argv(const struct guest_kind *k, struct strv *ret, ...) __attribute__((sentinel));

/* By construction, as for containers on a kernel of their own. The size of the machine limits CPUs and memory where its program has options for that;
 * processes, and the rest of these, are limited by bawn-init inside. */
enum { GUEST_SIZE = ENFORCES_CPU | ENFORCES_MEMORY, GUEST_KEEPS = ENFORCES_EVERYTHING & ~(GUEST_SIZE | ENFORCES_PIDS) };

/* -- lima.c, sbx.c --------------------------------------------------------------------------------------------------------------- */

extern const struct guest_kind guest_lima, guest_sbx, guest_docker_sandbox;
/* Any text as a YAML string in double quotes; -EILSEQ if it is no UTF-8. */
int lima_quote(const char *text, struct buf *out);
