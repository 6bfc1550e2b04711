/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about places, and names for what is on its way to one. */
#include <errno.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/str.h"
#include "workspace/copy/place.h"

enum { TEMP_DIGITS = 16, SHOWN_MAX = 64 * 1024, NOTE_MAX = 8 * MANIFEST_PATH_MAX + 256 };

int place_err(struct err *err, int r, const char *what, const char *path) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(SHOWN_MAX);

    buf_add_printable(&shown, path);
    switch (r) {
    case -ESTALE:
        return err_set(err, r, "cannot %s '%.800s': it was changed meanwhile", what, buf_str(&shown));
    case -ELOOP:
        return err_set(err, r, "cannot %s '%.800s': a symbolic link is in the way", what, buf_str(&shown));
    default:
        return err_sys(err, r, "cannot %s '%.800s'", what, buf_str(&shown));
    }
}

int place_note(struct strv *to, const char *path, const char *what, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(NOTE_MAX);

    buf_add_printable(&line, path);
    buf_addf(&line, ": %s", what);
    return !buf_ok(&line) || strv_add(to, buf_str(&line)) < 0 ? err_oom(err) : 0;
}

int place_temp_name(char ret[static PLACE_TEMP_SIZE]) {
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -EIO;
    snprintf(ret, PLACE_TEMP_SIZE, PLACE_TEMP "%016jx", (uintmax_t)random);
    return 0;
}

bool place_is_temp(const char *name) {
    const char *digits = name + sizeof PLACE_TEMP - 1;

    return str_starts(name, PLACE_TEMP) && strlen(digits) == TEMP_DIGITS && hex_is_lower(digits, TEMP_DIGITS);
}
