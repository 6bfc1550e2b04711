/* SPDX-License-Identifier: Apache-2.0 */
/* Inside place: folders on the way, and names of files that are not in place yet. */
#pragma once

#include "workspace/copy/place.h"

enum { PLACE_TEMP_SIZE = sizeof PLACE_TEMP + 16 };

/* The folder that path is in (O_PATH); *ret_name points at its last part. create: missing folders are made. -errno. */
int place_parent(int root, const char *path, bool create, const char **ret_name);
int place_temp_name(char ret[static PLACE_TEMP_SIZE]);
/* Belongs to the owner of the folder it is in, also if root makes it. No failure if the name is taken. */
int place_make_folder(int dir, const char *name);
