/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/box_view.h"

#include <inttypes.h>
#include <time.h>

#include "base/parse.h"
#include "base/str.h"

const char *const box_sight_names[BOX_SIGHTS] = {
    [BOX_SIGHT_STARTING] = "starting", [BOX_SIGHT_RUNNING] = "running", [BOX_SIGHT_STOPPING] = "stopping",
    [BOX_SIGHT_STOPPED] = "stopped",   [BOX_SIGHT_FAILED] = "failed",   [BOX_SIGHT_CRASHED] = "crashed",
    [BOX_SIGHT_CREATED] = "created",
};

static_assert((int)BOX_SIGHT_STARTING == BOX_STARTING && (int)BOX_SIGHT_RUNNING == BOX_RUNNING &&
                  (int)BOX_SIGHT_STOPPING == BOX_STOPPING && (int)BOX_SIGHT_STOPPED == BOX_STOPPED &&
                  (int)BOX_SIGHT_FAILED == BOX_FAILED && (int)BOX_SIGHT_CRASHED == BOX_PHASES,
              "the phases come first");

enum box_sight box_sight(const struct box *b) {
    bool crashed;
    enum box_phase p = box_look(b, &crashed);

    if (crashed)
        return BOX_SIGHT_CRASHED;
    return p == BOX_STOPPED && b->state.pid == 0 ? BOX_SIGHT_CREATED : (enum box_sight)p;
}

bool box_sight_active(enum box_sight s) {
    return s == BOX_SIGHT_STARTING || s == BOX_SIGHT_RUNNING || s == BOX_SIGHT_STOPPING;
}

/* -- words -------------------------------------------------------------------------------------------------------------- */

uint64_t box_view_now(void) {
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void box_view_age(uint64_t ns, char ret[static 24]) {
    static const struct {
        uint64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    uint64_t s = ns / 1000000000;

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (s >= units[i].seconds || units[i].seconds == 1) {
            snprintf(ret, 24, "%" PRIu64 "%c", s / units[i].seconds, units[i].unit);
            return;
        }
}

void box_view_status(const struct box *b, uint64_t now_ns, char ret[static BOX_WORD_MAX]) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(4 * sizeof b->state.why);
    enum box_sight s = box_sight(b);
    uint64_t since = b->state.since_ns;
    char age[24] = "";

    box_view_age(now_ns > since ? now_ns - since : 0, age);
    if (s == BOX_SIGHT_FAILED) {
        buf_add_printable(&why, b->state.why);
        snprintf(ret, BOX_WORD_MAX, "failed: %.200s", buf_str(&why));
    } else if (s == BOX_SIGHT_STOPPED) {
        snprintf(ret, BOX_WORD_MAX, "stopped %s ago", age);
    } else if (s == BOX_SIGHT_RUNNING) {
        snprintf(ret, BOX_WORD_MAX, "running %s", age);
    } else {
        snprintf(ret, BOX_WORD_MAX, "%s", box_sight_names[s]);
    }
}

const char *box_view_colour(enum box_sight s, bool colours) {
    static const char green[] = "\033[32m", yellow[] = "\033[33m", red[] = "\033[31m";

    if (!colours)
        return "";
    if (s == BOX_SIGHT_RUNNING)
        return green;
    return s == BOX_SIGHT_STARTING || s == BOX_SIGHT_STOPPING ? yellow : red;
}

const char *box_view_plain(bool colours) {
    return colours ? "\033[0m" : "";
}

void box_view_path(const char *path, const char *home, struct buf *out) {
    size_t n = home ? strlen(home) : 0;

    if (n > 1 && strncmp(path, home, n) == 0 && (path[n] == '/' || path[n] == 0)) {
        buf_addc(out, '~');
        path += n;
    }
    buf_add_printable(out, path);
}

/* Width on a terminal, near enough: one for each character of UTF-8. The only escape sequences are our own colours. */
static int width_of(const char *s) {
    int n = 0;

    for (; *s; s++) {
        if (*s == '\033')
            s += strcspn(s, "m");
        else
            n += (*s & 0xc0) != 0x80;
    }
    return n;
}

void box_view_table(const struct strv *cells, size_t columns, struct buf *out) {
    int widths[16] = {0};

    assert(columns <= ARRAY_LEN(widths));
    for (size_t i = 0; i < cells->len; i++)
        widths[i % columns] = MAX_OF(widths[i % columns], width_of(cells->v[i]));
    for (size_t i = 0; i < cells->len; i++) {
        bool last = i % columns == columns - 1;

        buf_adds(out, cells->v[i]);
        buf_addf(out, "%*s", last ? 0 : widths[i % columns] + 2 - width_of(cells->v[i]), "");
        buf_adds(out, last ? "\n" : "");
    }
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

static void add_key(struct buf *out, const char *key) {
    if (out->len && out->data[out->len - 1] != '{')
        buf_adds(out, ", ");
    buf_addf(out, "\"%s\": ", key);
}

void box_view_json_text(struct buf *out, const char *key, const char *value) {
    add_key(out, key);
    if (value)
        buf_add_json(out, value);
    else
        buf_adds(out, "null");
}

void box_view_json_list(struct buf *out, const char *key, const struct strv *list) {
    add_key(out, key);
    buf_addc(out, '[');
    for (size_t i = 0; i < list->len; i++) {
        buf_adds(out, i ? ", " : "");
        buf_add_json(out, list->v[i]);
    }
    buf_addc(out, ']');
}

void box_view_json_time(struct buf *out, const char *key, uint64_t ns) {
    time_t t = (time_t)(ns / 1000000000);
    char text[32] = "";
    struct tm tm;

    if (ns && gmtime_r(&t, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    box_view_json_text(out, key, text[0] ? text : NULL);
}

static void add_number(struct buf *out, const char *key, bool known, uint64_t n) {
    add_key(out, key);
    if (known)
        buf_addf(out, "%" PRIu64, n);
    else
        buf_adds(out, "null");
}

static void add_usage(const struct box_state *s, const struct box_usage *u, struct buf *out) {
    add_key(out, "limits");
    buf_addc(out, '{');
    add_number(out, "memory", s->memory, s->memory);
    add_number(out, "pids", s->pids, s->pids);
    add_number(out, "cpus_milli", s->cpus_milli, s->cpus_milli);
    buf_adds(out, "}, \"usage\": {");
    add_number(out, "memory", u->has_memory, u->memory);
    add_number(out, "pids", u->has_pids, u->pids);
    add_number(out, "cpu_us", u->has_cpu, u->cpu_us);
    buf_addc(out, '}');
}

void box_view_json(const struct box *b, const struct box_usage *u, struct buf *out) {
    const struct box_state *s = &b->state;
    enum box_sight sight = box_sight(b);
    bool active = box_sight_active(sight);

    box_view_json_text(out, "name", b->name);
    box_view_json_text(out, "id", b->info.id);
    box_view_json_text(out, "status", box_sight_names[sight]);
    box_view_json_time(out, "since", s->since_ns);
    box_view_json_time(out, "used", s->used_ns);
    box_view_json_time(out, "created", b->info.created_ns);
    box_view_json_text(out, "why", s->why[0] ? s->why : NULL);
    add_key(out, "exit");
    if (sight == BOX_SIGHT_STOPPED || sight == BOX_SIGHT_FAILED)
        buf_addf(out, "%d", s->status);
    else
        buf_adds(out, "null");
    box_view_json_text(out, "workspace", b->info.workspace);
    box_view_json_text(out, "mode", s->mode);
    box_view_json_text(out, "profile", s->profile[0] ? s->profile : NULL);
    box_view_json_text(out, "engine", s->engine);
    box_view_json_text(out, "rung", s->rung);
    add_number(out, "pid", active && s->pid > 0, (uint64_t)s->pid);
    add_number(out, "init", active && s->init > 0, (uint64_t)s->init);
    add_key(out, "project");
    buf_adds(out, b->info.project ? "true" : "false");
    box_view_json_text(out, "from", b->info.from);
    add_usage(s, u, out);
}
