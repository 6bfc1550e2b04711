/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing only: every line is cut to the screen, so any size down to 40x8 works. */
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "top/top.h"

enum { GREEN = 1, YELLOW, RED, SIZE_TEXT = 24, MIN_ROWS = 8, MIN_COLS = 40, WIDE = 100, FEED_MIN = 3 };

/* initscr() would end the program for a terminal that terminfo does not have; one without "cup" cannot be drawn on. */
int view_begin(struct err *err) {
    const char *name = getenv("TERM"), *move;
    SCREEN *screen;

    setlocale(LC_CTYPE, "");
    screen = name ? newterm(NULL, stdout, stdin) : NULL;
    move = screen ? tigetstr("cup") : NULL;
    if (screen && (!move || move == (char *)-1)) {
        endwin();
        delscreen(screen);
        screen = NULL;
    }
    if (!screen)
        return err_usage(err, "bawn top cannot draw on the terminal '%.60s' (TERM); try TERM=xterm, or --json for one sample",
                         name ? name : "");
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(GREEN, COLOR_GREEN, -1);
        init_pair(YELLOW, COLOR_YELLOW, -1);
        init_pair(RED, COLOR_RED, -1);
    }
    return 0;
}

/* One line, from the left edge, never longer than the screen. */
static void put_line(int y, const char *text) {
    mvaddnstr(y, 0, text, COLS);
    clrtoeol();
}

static void size_text(uint64_t bytes, char ret[static SIZE_TEXT]) {
    static const char units[] = "BKMGT";
    double v = (double)bytes;
    size_t u = 0;

    while (v >= 1000 && u < sizeof units - 2) {
        v /= 1024;
        u++;
    }
    snprintf(ret, SIZE_TEXT, v < 10 && u ? "%.1f%c" : "%.0f%c", v, units[u]);
}

static int colour(const struct top_row *r) {
    static const int colours[BOX_PHASES] = {
        [BOX_RUNNING] = GREEN, [BOX_STARTING] = YELLOW, [BOX_STOPPING] = YELLOW, [BOX_FAILED] = RED};

    return r->phase == BOX_STOPPED && r->crashed ? RED : colours[r->phase];
}

/* "-" where nothing is known. */
static void add_usage(const struct top_row *r, struct buf *b) {
    char cpu[SIZE_TEXT] = "-", memory[SIZE_TEXT] = "-", max[SIZE_TEXT] = "-", pids[SIZE_TEXT * 2] = "-";

    if (r->cpu >= 0)
        snprintf(cpu, sizeof cpu, "%.1f", r->cpu);
    if (r->usage.has_memory)
        size_text(r->usage.memory, memory);
    if (r->memory_max)
        size_text(r->memory_max, max);
    if (r->usage.has_pids && r->pids_max)
        snprintf(pids, sizeof pids, "%llu/%llu", (unsigned long long)r->usage.pids, (unsigned long long)r->pids_max);
    else if (r->usage.has_pids)
        snprintf(pids, sizeof pids, "%llu", (unsigned long long)r->usage.pids);
    buf_addf(b, " %6s %6s/%-6s %9s  ", cpu, memory, max, pids);
}

/* On a narrow screen the mode gives way, and of the workspace the last name is left. */
static void add_place(const struct top_row *r, struct buf *b) {
    const char *last = strrchr(r->workspace, '/');

    if (COLS >= WIDE)
        buf_addf(b, "%-8.8s %s", r->mode, r->workspace);
    else
        buf_adds(b, last && last[1] ? last + 1 : r->workspace);
}

static void draw_row(int y, const struct top_row *r, bool chosen) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(1024);
    int attrs = (chosen ? A_REVERSE : 0) | COLOR_PAIR(colour(r));
    uint64_t now = clock_mark();
    char age[SIZE_TEXT];

    format_age(r->since_ns && now > r->since_ns ? now - r->since_ns : 0, age);
    buf_addf(&line, "%-18.18s %-8s %4s", r->name, r->crashed ? "crashed" : box_phase_names[r->phase], age);
    if (r->why[0]) {
        buf_addf(&line, "  %s", r->why);
    } else {
        add_usage(r, &line);
        add_place(r, &line);
    }
    attron(attrs);
    put_line(y, buf_str(&line));
    attroff(attrs);
}

static int draw_rows(int y, int last, const struct top_view *v, const struct top_model *m) {
    int room = last - y;
    size_t first = room > 0 && v->chosen >= (size_t)room ? v->chosen - (size_t)room + 1 : 0;

    for (size_t i = first; i < m->n && y < last; i++)
        draw_row(y++, &m->v[i], i == v->chosen);
    if (m->n == 0 && y < last)
        put_line(y++, "no sandboxes: 'bawn start' makes one");
    return y;
}

static int draw_asks(int y, int last, const struct top_asks *a) {
    if (a->n == 0 || y >= last)
        return y;
    attron(A_BOLD | COLOR_PAIR(YELLOW));
    put_line(y++, "may it connect?  o once  s session  w always  d deny  (tab: next)");
    attroff(A_BOLD | COLOR_PAIR(YELLOW));
    for (size_t i = a->chosen < 3 ? 0 : a->chosen - 2; i < a->n && y < last; i++) {
        attron(i == a->chosen ? A_REVERSE : 0);
        put_line(y++, a->v[i].text);
        attroff(i == a->chosen ? A_REVERSE : 0);
    }
    return y;
}

/* The newest at the bottom. */
static void draw_feed(int y, int last, const struct top_feed *f) {
    size_t room = last > y + 1 ? (size_t)(last - y - 1) : 0, have = MIN_OF(f->n, (size_t)TOP_FEED_LINES);
    size_t n = MIN_OF(room, have);

    if (y >= last)
        return;
    attron(A_BOLD);
    put_line(y++, "network");
    attroff(A_BOLD);
    for (size_t i = 0; i < n; i++) {
        size_t at = (f->n - n + i) % TOP_FEED_LINES;

        attron(COLOR_PAIR(f->denied[at] ? RED : 0));
        put_line(y++, f->lines[at]);
        attroff(COLOR_PAIR(f->denied[at] ? RED : 0));
    }
}

#define TITLES "NAME               STATE     AGE    CPU    MEM/MAX           PIDS  "

static void draw_title(const struct top_view *v, const struct top_model *m) {
    char line[256], now[16];
    time_t t = time(NULL);
    struct tm tm;

    localtime_r(&t, &tm);
    strftime(now, sizeof now, "%H:%M:%S", &tm);
    snprintf(line, sizeof line, "bawn top  %s  %zu running, %zu not  by %s", now, m->running, m->n - m->running,
             top_order_names[v->order]);
    attron(A_BOLD);
    put_line(0, line);
    attroff(A_BOLD);
    attron(A_UNDERLINE);
    put_line(1, COLS >= WIDE ? TITLES "MODE     WORKSPACE" : TITLES "WORKSPACE");
    attroff(A_UNDERLINE);
}

void view_draw(const struct top_view *v, const struct top_model *m, const struct top_feed *f, const struct top_asks *a) {
    int y, asks = a->n ? (int)MIN_OF(a->n, (size_t)4) + 1 : 0, rows, last;

    erase();
    if (LINES < MIN_ROWS || COLS < MIN_COLS) {
        put_line(0, "bawn top needs 40x8");
        refresh();
        return;
    }
    draw_title(v, m);
    last = LINES - 1;
    rows = MAX_OF(last - 2 - asks - FEED_MIN - 1, 1);
    y = draw_rows(2, MIN_OF(2 + rows, 2 + MAX_OF((int)m->n, 1)), v, m);
    y = draw_asks(y, MIN_OF(y + asks, last), a);
    draw_feed(y, last, f);
    attron(A_REVERSE);
    put_line(LINES - 1, v->note[0] ? v->note : " q quit   arrows choose   x stop   order: c cpu, m memory, n name");
    attroff(A_REVERSE);
    refresh();
}
