/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn top`: started by bawn with "--json" for one sample, or the time between two refreshes in milliseconds. */
#include <errno.h>
#include <ncurses.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/control/control_client.h"
#include "supervisor/keep/exec_client.h"
#include "top/top.h"

enum { SAMPLE_US = 200 * 1000, OUTPUT_MAX = 16 * 1024 * 1024, INTERVAL_MIN = 100, INTERVAL_MAX = 60 * 1000, INTERVAL = 1000 };

struct top {
    char *boxes, *state;
    struct top_model model;
    struct top_feed feed;
    struct top_asks asks;
    struct top_view view;
    char chosen[BOX_ID_MAX + 1]; /* name of the chosen row */
    bool doomed;                 /* x was pressed at it */
    bool over;
};

static void top_done(struct top *t) {
    model_done(&t->model);
    feed_done(&t->feed);
    free(t->boxes);
    free(t->state);
}

static int find_places(struct top *t, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : registry_folder(environ, home, &t->boxes, err);
    r = r < 0 ? r : paths_state_if_home(environ, home, "", &t->state, err);
    if (r == 0 && (!t->boxes || !t->state))
        r = err_set(err, -ENOENT, "there are no sandboxes: neither HOME nor XDG_STATE_HOME is set");
    return r < 0 ? r : feed_open(&t->feed, t->state, err);
}

static int print_json(struct top *t, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    int r = model_refresh(&t->model, t->boxes, err);

    if (r < 0)
        return r;
    usleep(SAMPLE_US); /* CPU time is a difference */
    r = model_refresh(&t->model, t->boxes, err);
    if (r < 0)
        return r;
    model_sort(&t->model, TOP_BY_NAME);
    model_json(&t->model, &out);
    return fd_write_all(STDOUT_FILENO, buf_str(&out), out.len);
}

static void choose(struct top *t, size_t row) {
    t->view.chosen = row;
    t->doomed = false;
    snprintf(t->chosen, sizeof t->chosen, "%s", row < t->model.n ? t->model.v[row].name : "");
}

/* Rows move: the same sandbox stays chosen, or, if it is gone, the one in its place. */
static void sort(struct top *t) {
    model_sort(&t->model, t->view.order);
    for (size_t i = 0; i < t->model.n; i++)
        if (str_eq(t->model.v[i].name, t->chosen)) {
            t->view.chosen = i;
            return;
        }
    choose(t, t->model.n ? MIN_OF(t->view.chosen, t->model.n - 1) : 0);
}

static void refresh_all(struct top *t) {
    struct err ignored = {0};

    model_refresh(&t->model, t->boxes, &ignored); /* what cannot be read now stays as it was */
    sort(t);
    feed_refresh(&t->feed);
    asks_refresh(&t->asks);
}

static const char *answer_of(int key) {
    static const struct {
        int key;
        const char *answer;
    } answers[] = {{'o', "once"}, {'s', "session"}, {'w', "always"}, {'d', "deny"}};

    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (answers[i].key == key)
            return answers[i].answer;
    return NULL;
}

/* The socket of a supervisor is named by its pid, which the registry has. */
static int stop(const struct top *t, const char *name, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    CLEANUP(freep) char *folder = NULL, *socket = NULL;
    int r = registry_open(t->boxes, name, false, &b, err);

    r = r < 0 ? r : !b.alive ? exec_not_running(&b, err) : paths_runtime(environ, &folder, err);
    if (r < 0)
        return r;
    socket = folder ? str_dupf("%s/%d.sock", folder, (int)b.state.pid) : NULL;
    return socket ? control_call(socket, "{\"cmd\": \"stop\"}", &answer, err) : err_oom(err);
}

/* Asked for twice: rows come and go under the finger. */
static int stop_chosen(struct top *t, struct err *err) {
    if (!t->chosen[0])
        return 0;
    if (TAKE(t->doomed, false))
        return stop(t, t->chosen, err);
    t->doomed = true;
    snprintf(t->view.note, sizeof t->view.note, " x again stops '%s'", t->chosen);
    return 0;
}

static int on_key(struct top *t, int key, struct err *err) {
    const char *answer = answer_of(key);
    size_t row = t->view.chosen;

    t->view.note[0] = 0;
    t->doomed &= key == 'x';
    if (answer)
        return asks_answer(&t->asks, answer, err);
    if (key == 'x')
        return stop_chosen(t, err);
    if (key == 'q' || key == 'Q')
        t->over = true;
    else if ((key == KEY_DOWN || key == 'j') && row + 1 < t->model.n)
        choose(t, row + 1);
    else if ((key == KEY_UP || key == 'k') && row > 0)
        choose(t, row - 1);
    else if (key == '\t')
        asks_next(&t->asks);
    else if (key == 'c' || key == 'm' || key == 'n') {
        t->view.order = key == 'c' ? TOP_BY_CPU : key == 'm' ? TOP_BY_MEMORY : TOP_BY_NAME;
        sort(t);
    }
    return 0;
}

static int show(struct top *t, uint64_t interval_ms, struct err *failed) {
    uint64_t next_ms = 0;
    int r = view_begin(failed);

    if (r < 0)
        return r;
    while (!t->over) {
        uint64_t now = clock_ms();
        struct err err = {0};
        int key;

        if (now >= next_ms) {
            refresh_all(t);
            next_ms = now + interval_ms;
        }
        view_draw(&t->view, &t->model, &t->feed, &t->asks);
        timeout((int)(next_ms > now ? next_ms - now : 0));
        key = getch(); /* KEY_RESIZE draws again */
        if (key != ERR && on_key(t, key, &err) < 0)
            snprintf(t->view.note, sizeof t->view.note, " %.250s", err.msg);
        if (answer_of(key) || key == 'x')
            next_ms = 0; /* what came of it is seen at once */
    }
    endwin();
    return 0;
}

int main(int argc, char **argv) {
    CLEANUP(top_done) struct top t = {.feed = {.fd = -1}};
    struct err err = {0};
    bool json = argc > 1 && str_eq(argv[1], "--json");
    uint64_t interval = INTERVAL;
    int r = find_places(&t, &err);

    if (r == 0 && argc > 1 && !json)
        r = parse_u64(argv[1], INTERVAL_MIN, INTERVAL_MAX, &interval, &err);
    if (r == 0 && json)
        r = print_json(&t, &err);
    else if (r == 0 && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        r = err_usage(&err, "bawn top needs a terminal; --json prints one sample");
    else if (r == 0)
        r = show(&t, interval, &err);
    if (r < 0)
        log_err(&err);
    return r < 0 ? err_exit_status(&err) : 0;
}
