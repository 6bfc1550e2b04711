#include "cli/verb.h"

int main(int argc, char **argv) {
    return verb_dispatch(argc, argv);
}
