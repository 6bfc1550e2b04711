/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of jobs in the background: output goes to log/job-N.out and .err, to the history, and to attached clients; what those type
 * goes in. A client that reads slowly makes the job wait, as a terminal does; one that does not read is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "supervisor/keep/keep_priv.h"

enum { READS_PER_TURN = 16, LOG_NAME_MAX = 40 };

static const char *const suffixes[2] = {"out", "err"};

static void log_name(const struct keep_job *j, int which, const char *more, char ret[static LOG_NAME_MAX]) {
    snprintf(ret, LOG_NAME_MAX, "log/job-%d.%s%s", j->id, suffixes[which], more);
}

static int open_job_log(const struct keeper *k, const struct keep_job *j, int which) {
    char name[LOG_NAME_MAX];

    log_name(j, which, "", name);
    return openat(k->box->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void job_drop_logs(const struct keeper *k, int id) {
    const struct keep_job j = {.id = id};
    char name[LOG_NAME_MAX];

    for (int i = 0; i < 2; i++) {
        log_name(&j, i, "", name);
        unlinkat(k->box->fd, name, 0);
        log_name(&j, i, ".1", name);
        unlinkat(k->box->fd, name, 0);
    }
}

int keep_first_job(struct keeper *k) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    long last = 0;

    dir_open_at(k->box->fd, "log", &d);
    while ((e = dir_next(&d)))
        if (str_starts(e->d_name, "job-"))
            last = MAX_OF(last, strtol(e->d_name + strlen("job-"), NULL, 10));
    last = last < INT32_MAX / 2 ? last : 0;
    for (long id = last - KEEP_FINISHED_MAX; id > 0 && id > last - 2 * KEEP_FINISHED_MAX; id--)
        job_drop_logs(k, (int)id); /* of lives before the last */
    return (int)last + 1;
}

/* Ours does not block, whatever the inside does to its end: the two ends have flags of their own. */
static int make_pipe(bool ours_reads, int *ret_ours, int *ret_inside) {
    int r = ours_reads ? fd_pipe(ret_ours, ret_inside) : fd_pipe(ret_inside, ret_ours);

    return r < 0 ? r : fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int make_streams(struct job_io *io, int inside[3], struct err *err) {
    int r = make_pipe(false, &io->input, &inside[0]);

    for (int i = 0; r == 0 && i < 2; i++)
        r = make_pipe(true, &io->out[i].fd, &inside[i + 1]);
    return r < 0 ? err_sys(err, r, "streams of the command") : 0;
}

int job_io_new(struct keeper *k, struct keep_job *j, int ret_inside[3], struct err *err) {
    struct job_io *io = calloc(1, sizeof *io);
    int r = 0;
    bool tty = j->flags & EXEC_TTY;

    if (!io)
        return err_oom(err);
    *io = (struct job_io){
        .out = {{.fd = -1, .log = -1}, {.fd = -1, .log = -1}}, .input = -1, .typed = BUF_INIT(2 * (size_t)KEEP_INPUT_MAX)};
    j->io = io;
    for (int i = 0; r == 0 && i < (tty ? 1 : 2); i++) {
        io->out[i].log = open_job_log(k, j, i);
        r = io->out[i].log < 0 ? err_sys(err, -errno, "log of the command") : 0;
    }
    if (r == 0 && !tty)
        r = make_streams(io, ret_inside, err);
    for (int i = 0; r < 0 && i < 3; i++)
        closep(&ret_inside[i]);
    return r;
}

static void end_stream(struct job_stream *s) {
    closep(&s->fd);
    closep(&s->log);
}

void job_io_free(struct keep_job *j) {
    if (!j->io)
        return;
    closep(&j->io->input);
    for (int i = 0; i < 2; i++)
        end_stream(&j->io->out[i]);
    buf_done(&j->io->typed);
    keep_ring_done(&j->io->history);
    free(j->io);
    j->io = NULL;
}

void job_io_master(struct keep_job *j, int master) {
    if (!j->io || j->io->out[0].fd >= 0 || fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        close(master);
    else
        j->io->out[0].fd = master;
}

bool job_io_silent(const struct keep_job *j) {
    return !j->io || (j->io->out[0].fd < 0 && j->io->out[1].fd < 0);
}

/* Output ----------------------------------------------------------------------------------------------------------- */

/* The log keeps the newer half at least. */
static void rotate(struct keeper *k, const struct keep_job *j, int which) {
    struct job_stream *s = &j->io->out[which];
    char name[LOG_NAME_MAX], old[LOG_NAME_MAX];

    log_name(j, which, "", name);
    log_name(j, which, ".1", old);
    if (renameat(k->box->fd, name, k->box->fd, old) < 0)
        return;
    closep(&s->log);
    s->log = open_job_log(k, j, which);
    s->logged = 0;
}

/* A log that cannot be written, because the disk is full, does not stop the job. */
static void write_log(struct keeper *k, const struct keep_job *j, int which, const char *bytes, size_t len) {
    struct job_stream *s = &j->io->out[which];

    if (s->logged + len > KEEP_LOG_MAX / 2)
        rotate(k, j, which);
    if (s->log >= 0 && fd_write_all(s->log, bytes, len) == 0)
        s->logged += len;
}

static void take_output(struct keeper *k, struct keep_job *j, int which, const char *bytes, size_t len) {
    struct exec_msg m = {.type = EXEC_MSG_OUTPUT, .value = which + 1, .len = (uint32_t)len};

    write_log(k, j, which, bytes, len);
    keep_ring_add(&j->io->history, which + 1, bytes, len);
    j->io->second_bytes += len;
    job_send(k, j, m, bytes);
}

uint64_t job_io_next_ms(const struct keep_job *j) {
    return j->io && j->io->second_bytes > KEEP_RATE_MAX ? j->io->second_ms + 1000 : 0;
}

/* Its start is not reported yet, a client has enough for now, or the log is being flooded. */
static bool must_wait(const struct keeper *k, const struct keep_job *j) {
    if ((!j->pid && !j->exited) || clock_ms() < job_io_next_ms(j))
        return true;
    for (size_t i = 0; i < k->n_clients; i++)
        if (k->clients[i]->job == j && k->clients[i]->out.len > KEEP_QUEUE_MAX)
            return true;
    return false;
}

static void read_output(struct keeper *k, struct keep_job *j, int which) {
    struct job_stream *s = &j->io->out[which];
    char part[KEEP_PIECE_MAX];

    static_assert((int)KEEP_PIECE_MAX <= (int)EXEC_OUTPUT_MAX, "one message");
    for (int i = 0; i < READS_PER_TURN && s->fd >= 0 && !must_wait(k, j); i++) {
        ssize_t n = fd_read_some(s->fd, part, sizeof part);

        if (n == -EAGAIN)
            return;
        if (n <= 0) /* also EIO, which is how a pty ends */
            end_stream(s);
        else
            take_output(k, j, which, part, (size_t)n);
    }
}

/* Input ------------------------------------------------------------------------------------------------------------ */

static int input_fd(const struct keep_job *j) {
    return j->flags & EXEC_TTY ? j->io->out[0].fd : j->io->input;
}

bool job_io_full(const struct keep_job *j) {
    return j->io && input_fd(j) >= 0 && j->io->typed.len - j->io->typed_at > KEEP_INPUT_MAX;
}

static void write_input(struct keep_job *j) {
    struct job_io *io = j->io;
    int fd = input_fd(j);

    while (fd >= 0 && io->typed_at < io->typed.len) {
        ssize_t n = write(fd, io->typed.data + io->typed_at, io->typed.len - io->typed_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* the job does not read any more */
            closep(&io->input);
            break;
        }
        io->typed_at += (size_t)n;
    }
    buf_done(&io->typed);
    io->typed = (struct buf)BUF_INIT(2 * (size_t)KEEP_INPUT_MAX);
    io->typed_at = 0;
    if (io->input_ends)
        closep(&io->input);
}

void job_io_type(struct keep_job *j, const char *bytes, size_t len) {
    struct job_io *io = j->io;

    if (!io || input_fd(j) < 0 || io->input_ends)
        return;
    if (io->typed_at) { /* room is counted from the first byte that is not written yet */
        io->typed.len -= io->typed_at;
        memmove(io->typed.data, io->typed.data + TAKE(io->typed_at, 0), io->typed.len);
    }
    if (len == 0)
        io->input_ends = !(j->flags & EXEC_TTY);
    else
        buf_add(&io->typed, bytes, len);
    write_input(j);
}

void job_io_resize(const struct keep_job *j, int rows, int cols) {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

    if (j->io && (j->flags & EXEC_TTY) && j->io->out[0].fd >= 0)
        ioctl(j->io->out[0].fd, TIOCSWINSZ, &size);
}

/* In the loop ------------------------------------------------------------------------------------------------------ */

size_t job_io_poll(const struct keeper *k, struct keep_job *j, struct pollfd *out) {
    struct job_io *io = j->io;
    short reads, writes;
    uint64_t now;

    if (!io)
        return 0;
    now = clock_ms();
    if (now >= io->second_ms + 1000) {
        io->second_ms = now;
        io->second_bytes = 0;
    }
    reads = must_wait(k, j) ? 0 : POLLIN;
    writes = io->typed.len > io->typed_at ? POLLOUT : 0;
    for (int i = 0; i < 2; i++)
        out[i] = (struct pollfd){.fd = reads ? io->out[i].fd : -1, .events = reads};
    if (j->flags & EXEC_TTY)
        out[0] = (struct pollfd){.fd = reads || writes ? io->out[0].fd : -1, .events = reads | writes};
    out[2] = (struct pollfd){.fd = writes ? io->input : -1, .events = writes};
    return JOB_IO_POLL;
}

size_t job_io_handle(struct keeper *k, struct keep_job *j, const struct pollfd *fds) {
    if (!j->io)
        return 0;
    if (fds[2].revents || (fds[0].revents & POLLOUT))
        write_input(j);
    for (int i = 0; i < 2; i++)
        if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
            read_output(k, j, i);
    return JOB_IO_POLL;
}

struct piece_target {
    struct keeper *k;
    struct keep_client *c;
};

static void send_piece(void *arg, int stream, const char *bytes, size_t len) {
    const struct piece_target *t = arg;

    client_send(t->k, t->c, (struct exec_msg){.type = EXEC_MSG_OUTPUT, .value = stream, .len = (uint32_t)len}, bytes, -1);
}

void job_io_history(struct keeper *k, const struct keep_job *j, struct keep_client *c, size_t most) {
    if (j->io)
        keep_ring_last(&j->io->history, most, send_piece, &(struct piece_target){k, c});
}
