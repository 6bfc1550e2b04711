/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second place where a hidden file can be read: a loose object of git's, made when it was ever `git add`ed or stashed. Git
 * names an object by its content, so the content of the file tells which one it would be, and nothing has to be unpacked.
 *
 * Content that is tracked now is left out: that is the user's decision, and `bawn init --check` reports it. So is an empty
 * file, which has nothing to tell. An index that cannot be read (a split one, say) tracks nothing. Where an object is hidden,
 * git inside cannot show the commits of which it is a part; nothing is lost on the host.
 *
 * Not covered, and for SECURITY.md:
 * - packed objects (`git gc`, `git clone`, `git fetch`): the file is one of many in a pack that git needs;
 * - content that the file does not have now: an earlier version, or a file that was stashed and is gone, be it in the reachable
 *   history or not; content that git changed otherwise than by line ends (clean filters, LFS, working-tree-encoding, ident);
 * - files larger than GITBLOBS_FILE_MAX, and objects that appear after the call;
 * - other object stores in the workspace: nested repositories, submodules, objects/info/alternates;
 * - an index that the inside wrote (direct mode): it may see the names of hidden objects, and what it puts there counts as
 *   tracked in the next run.
 */
#pragma once

#include "base/strv.h"

struct err;

enum {
    GITBLOBS_FILE_MAX = 1024 * 1024,
    GITBLOBS_FILES_MAX = 2000,
    GITBLOBS_BYTES_MAX = 64 * 1024 * 1024, /* of all files */
    GITBLOBS_ENTRIES_MAX = 20000,          /* of all hidden folders, whatever they are */
};

/*
 * Appends the objects to ret, each once, as link-free paths relative to the workspace, such as ".git/objects/ab/cdef...". Only
 * if the object store lies in the workspace, also where .git is a file or a link.
 *
 * hidden: paths relative to the workspace, of files and of whole folders, may be NULL. They are read by descriptor, no link is
 * followed; what vanishes, is cut short while it is read, or may not be read is left out. Files come first, so that a large
 * folder does not take the place of a single .env.
 *
 * Returns 1 if a ceiling was met and not all was looked at, which the user should hear, else 0. Without hidden files or without
 * .git it is one system call at most; without loose objects no hidden file is opened; the index is read only for an object that
 * exists.
 */
int gitblobs_of_hidden(int workspace, const struct strv *hidden, struct strv *ret, struct err *err);
