/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-init --far: the first program of a container on another machine (spec/enter-protocol.md). Nothing of the supervisor's machine can be mounted
 * there, so all that the container is made of comes through its standard input. Then bawn-enter takes over, with the byte link on the same streams. Once the
 * container has ended it is started again, and sends back what is in the folders of the command.
 *
 *   Should: run before the command or after its end, never beside it.
 *   Mustn't: read past what belongs to it, or go on after a failure; send anything with other rights than those of the command.
 */
#pragma once

#include "base/err.h"

/* argv: UID GID ..., the arguments of bawn-enter, which is beside us. Returns only if it fails. */
int far_fill_main(int argc, char **argv, struct err *err);
