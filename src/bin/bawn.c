/* SPDX-License-Identifier: Apache-2.0 */
/* bawn: the command line. */
#include "cli/verb.h"

int main(int argc, char **argv) {
    return verb_dispatch(argc, argv);
}
