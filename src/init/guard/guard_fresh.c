/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's own saves. Programs save a file by writing another one and renaming it: git (config.lock), sed -i, most editors. A descriptor of that other file
 * is one of the protected file after the rename, and a file of our own in its place would become the protected file. So
 *   - names that such programs give it, and their backups, are as protected as the file itself; some of them may not be made inside either, as the
 *     program would write into what is there;
 *   - whatever its name, a file that the host has just made is left alone until it has come to rest: the caller waits. An editor's save of main.c takes
 *     milliseconds, so that hardly anyone ever waits long.
 * What lands although all that is the supervisor's to see (supervisor/watch/landing.h).
 */
#include <errno.h>
#include <time.h>

#include "base/str.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_touch.h"

/* A program that saves has its file open until it renames it, but for a moment, and a machine under load makes that longer. */
enum { YOUNG_MS = 10000, REST_MS = 300 };

static const uint64_t MS_NS = 1000000;

/* What a program that saves NAME calls its other files. taken: it opens the file without asking whether there is one, so none may be made beforehand. */
static const struct save_name {
    const char *before, *after;
    bool taken;
} save_names[] = {
    {"", ".lock", false}, /* git: O_EXCL, and git inside makes its own */
    {"", "~", true},      /* emacs, vim, gedit: the old file */
    {"", ".tmp", true},
    {"", ".temp", true},
    {"", ".new", true},
    {"", ".part", true},
    {"", ".tmp~", true},
    {".", ".tmp", true},
    {".", ".new", true},
    {"", ".bak", false},
    {"", ".orig", false},
    {"", ".old", false},
    {"", ".save", false},
    {".#", "", true},    /* emacs: a link that says who edits */
    {"#", "#", true},    /* emacs, joe */
    {".", ".swp", true}, /* vim */
    {".", ".swo", true},
    {".", ".swx", true},
    {"", ".swp", true}, /* of a hidden name vim adds no second dot */
    {"", ".swo", true},
    {"", ".swx", true},
    {".", ".kate-swp", true},
    {"", "___jb_tmp___", true}, /* JetBrains */
    {"", "___jb_old___", true},
    {"", ".crswap", true},
};

/* The name that `name` would be a save of; false: of none. */
static bool strip(const struct save_name *s, const char *name, size_t len, char out[static NAME_MAX + 1]) {
    size_t before = strlen(s->before), after = strlen(s->after);

    if (len <= before + after || len > NAME_MAX || memcmp(name, s->before, before) != 0 ||
        memcmp(name + len - after, s->after, after) != 0)
        return false;
    memcpy(out, name + before, len - before - after);
    out[len - before - after] = 0;
    return true;
}

bool judge_is_save(const struct guard *g, const char *rel, bool making) {
    const char *slash = strrchr(rel, '/'), *name = slash ? slash + 1 : rel;
    size_t dir = (size_t)(name - rel), len = strlen(name);
    char path[PATH_MAX + NAME_MAX + 1], of[NAME_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(save_names); i++) {
        if ((making && !save_names[i].taken) || !strip(&save_names[i], name, len, of))
            continue;
        snprintf(path, sizeof path, "%.*s%s", (int)dir, rel, of);
        if (judge_is_protected(g, path, RULES_FILE))
            return true;
    }
    return false;
}

static uint64_t now_ns(void) {
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return time_ns(&t);
}

/* A clock that was set back makes files of the future: they count as just changed for as long as they can be that. */
static uint64_t age(uint64_t now, uint64_t then) {
    return now > then ? now - then : then - now;
}

bool judge_is_fresh(const struct guard *g, const struct stat *st, uint64_t birth_ns) {
    uint64_t born = birth_ns ? birth_ns : time_ns(&st->st_ctim);

    if (!S_ISREG(st->st_mode) || born < g->born_ns || known_has(g, st, birth_ns))
        return false;
    return age(now_ns(), born) < YOUNG_MS * MS_NS;
}

/* What came to its name by a rename is what a program has saved, not what it is saving. */
static bool rests(struct guard *g, const char *rel, const struct stat *st, bool writing) {
    if (age(now_ns(), time_ns(&st->st_ctim)) >= REST_MS * MS_NS)
        return !writing || guard_ask_open(g, rel, st) != -EBUSY;
    return !guard_has_renamed(g, rel) && guard_ask_open(g, rel, st) == -EEXIST;
}

int judge_rest(struct guard *g, const char *rel, const struct stat *st, uint64_t birth_ns, bool writing) {
    if (!rel || !judge_is_fresh(g, st, birth_ns) || rests(g, rel, st, writing))
        return 0;
    if (g->waited_ms < GUARD_PATIENCE_MS && g->n_later < GUARD_LATER_MAX)
        return GUARD_LATER;
    return guard_refuse(g, rel, GUARD_WHY_BUSY, -EBUSY);
}
