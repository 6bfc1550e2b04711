/* `bawn top`: started by bawn with "--json" for one sample, or the time between two refreshes in milliseconds. */
#include <errno.h>
#include <ncurses.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "supervisor/control_client.h"
#include "top/top.h"

enum { SAMPLE_US = 200 * 1000, OUTPUT_MAX = 16 * 1024 * 1024, INTERVAL_MIN = 100, INTERVAL_MAX = 60 * 1000, INTERVAL = 1000 };

struct top {
    char *boxes, *state;
    struct top_model model;
    struct top_feed feed;
    struct top_asks asks;
    struct top_view view;
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

static void refresh_all(struct top *t) {
    struct err ignored = {0};

    model_refresh(&t->model, t->boxes, &ignored); /* what cannot be read now stays as it was */
    model_sort(&t->model, t->view.order);
    feed_refresh(&t->feed);
    asks_refresh(&t->asks);
    t->view.chosen = t->model.n ? MIN_OF(t->view.chosen, t->model.n - 1) : 0;
    t->view.ask = t->asks.n ? MIN_OF(t->view.ask, t->asks.n - 1) : 0;
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
static void stop_chosen(const struct top *t) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    CLEANUP(freep) char *folder = NULL, *socket = NULL;
    struct err ignored = {0};

    if (t->model.n == 0 || registry_open(t->boxes, t->model.v[t->view.chosen].name, false, &b, &ignored) < 0 || !b.alive ||
        control_folder(environ, &folder, &ignored) < 0 || !folder)
        return;
    socket = str_dupf("%s/%d.sock", folder, (int)b.state.pid);
    if (socket)
        control_call(socket, "{\"cmd\": \"stop\"}", &answer, &ignored);
}

static void on_key(struct top *t, int key) {
    struct top_view *v = &t->view;
    const char *answer = answer_of(key);

    if (answer && t->asks.n)
        asks_answer(&t->asks.v[v->ask], answer);
    else if (key == 'q' || key == 'Q')
        t->over = true;
    else if ((key == KEY_DOWN || key == 'j') && v->chosen + 1 < t->model.n)
        v->chosen++;
    else if ((key == KEY_UP || key == 'k') && v->chosen > 0)
        v->chosen--;
    else if (key == '\t' && t->asks.n)
        v->ask = (v->ask + 1) % t->asks.n;
    else if (key == 'x')
        stop_chosen(t);
    else if (key == 'c' || key == 'm' || key == 'n')
        v->order = key == 'c' ? TOP_BY_CPU : key == 'm' ? TOP_BY_MEMORY : TOP_BY_NAME;
}

static void show(struct top *t, int interval_ms) {
    view_begin();
    timeout(interval_ms);
    while (!t->over) {
        int key;

        refresh_all(t);
        view_draw(&t->view, &t->model, &t->feed, &t->asks);
        key = getch(); /* KEY_RESIZE and ERR only draw again */
        on_key(t, key);
    }
    view_end();
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
        show(&t, (int)interval);
    if (r < 0)
        log_err(&err);
    return r < 0 ? err_exit_status(&err) : 0;
}
