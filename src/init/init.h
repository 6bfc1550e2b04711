/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-init: PID 1 of every sandbox of every engine. Static, tiny, not dumpable.
 *
 * Descriptors it is born with: 0, 1, 2 the command's, 3 the control socket, 4 the start message, 5 the guard's socket if there
 * is a guard (spec/init-protocol.md). It opens the pty, locks itself down, starts the command, reaps, passes signals on, and
 * exits when the command does or when the supervisor is gone; the kernel then ends everything else inside. Where there is no
 * pid namespace it ends its descendants itself.
 *
 * In a persistent sandbox (INIT_FLAG_RESIDENT) it has no command of its own and executes what it is asked for, each as a job with a
 * session of its own, until the supervisor is gone. It never waits for the supervisor, nor for a command.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/err.h"
#include "init/guard/guard.h"
#include "proto/initmsg.h"

struct exec_request;

enum {
    INIT_EARLY_MAX = 16,
    INIT_JOBS_MAX = 1024, /* commands at once */
    INIT_OUT_MAX = 1024,  /* messages that the supervisor did not take yet; past it nothing is read from it */
    INIT_FDS_MAX = 4      /* that come with a message: a memfd and three streams */
};

struct job {
    int id; /* the supervisor's number */
    pid_t pid;
    pid_t child; /* ours: the command itself, or the holder of its session (holder.c) */
    bool stopped;
};

struct jobs {
    struct job *v; /* INIT_JOBS_MAX of them; what was never used was never touched */
    size_t n;
};

struct out {
    struct out *next;
    struct init_msg msg;
    int fd; /* -1: none */
};

struct outbox {
    struct out *first, *last;
    size_t n;
    bool broken; /* the supervisor is gone, or there is no memory for what it must know */
};

struct init {
    struct init_start start;
    char *bytes; /* what `start` points into */
    int control;
    int tty;  /* slave of the command's pty, -1: none */
    int null; /* resident: /dev/null, also at 0, 1 and 2, so that no descriptor that comes gets these numbers */
    pid_t command;
    bool stopped;           /* the command */
    bool childless;         /* nothing runs inside: nothing to watch */
    bool pids_reached;      /* since the last command ended there were as many processes as there may be */
    sigset_t old_mask;      /* for the commands */
    struct init_msg *early; /* signals that came before there was a command: it gets them first of all */
    size_t n_early;
    struct guard *guard; /* NULL: none */
    struct jobs jobs;
    struct outbox outbox;
    int held[2]; /* what holders tell, and their end of it; -1: there was none yet */
};

/* terminal.c */
int terminal_open(struct init *in, struct err *err); /* for the command of the start message: also asks for size and modes */
void terminal_foreground(int tty, pid_t group);      /* tty: -1, or the terminal of our session */
int terminal_make(const struct exec_request *r, int *ret_master, int *ret_slave, struct err *err);
pid_t terminal_group(pid_t leader); /* the foreground process group of its terminal; <= 0: none */

/* lockdown.c: rlimits, affinity, no_new_privs, Landlock, capabilities, seccomp; for good */
enum lockdown_who { LOCKDOWN_COMMAND, LOCKDOWN_GUARD /* bawn-init itself */ };
int lockdown(const struct init_start *s, enum lockdown_who who, struct err *err);

/* command.c */
struct command {
    char **argv, **envp;
    size_t argc;
    const char *cwd, *search_path; /* search_path: PATH for finding argv[0] */
    int fds[3];                    /* what becomes 0, 1, 2; -1: what we have there */
    int tty;                       /* -1, or the terminal of our session, whose foreground it becomes */
    bool session;                  /* gets a session of its own; else a process group in ours */
};
/* Returns 0 with *ret_pid; 1 if execve failed (*ret_errno); negative if it could not be prepared. Until the command execs we wait. */
int command_start(struct init *in, const struct command *c, pid_t *ret_pid, int *ret_errno, struct err *err);
/* For a command over a byte link: no signal of its reaches PID 1 (shield.c). */
int shield_install(struct err *err);
/* Runs f(arg) in a process with our memory and descriptors until it ends or execs; its pid or -errno. flags: more for clone(). -EAGAIN: it
 * was stopped again and again. */
pid_t command_clone(int (*f)(void *), void *arg, int flags);
/* Continues a child that something inside stopped before it began. After COMMAND_STOPS_MAX times it is killed: false. */
enum { COMMAND_STOPS_MAX = 100 };
bool command_unstop(pid_t pid, unsigned *stops);

/* environment.c: base with what r's changes; a malloc'ed array of pointers into both. -E2BIG, -ENOMEM. */
int environment_merge(char *const *base, size_t n_base, char *const *changes, size_t n_changes, char ***ret);
const char *environment_get(char *const *envp, const char *name); /* "" if it is not there */
/* Not every port is captured: names the proxy in all the variables that programs look at, unless the user set one of them. */
int environment_add_proxy(struct init_start *s, const char *url);

/* jobs.c. fds are taken. */
void jobs_exec(struct init *in, const struct init_msg *msg, char *body, size_t len, int *fds, size_t n_fds);
void jobs_child(struct init *in, pid_t pid, int status); /* one of ours ended or stopped; it may be no job */
void jobs_changed(struct init *in, int id, int status);  /* the command of a job ended or stopped */
void jobs_signal(struct init *in, const struct init_msg *msg);

/* holder.c: as command_start(), for a command with a terminal of its own */
int holder_start(struct init *in, int id, const struct command *c, struct job *ret, int *ret_errno, struct err *err);
void holder_read(struct init *in); /* what holders report */

/* signals.c: the signals that the C library reserves have their defaults again (os/sigfd.h). */
void signals_of_libc_default(void);
bool signal_is_ending(int sig); /* asks a process to end; one that is stopped would not hear it */

/* resident.c: the messages of a persistent sandbox */
void resident_signal_all(const struct init *in, int sig); /* everything inside but us; also in a run */
int resident_begin(struct init *in, struct err *err);
void resident_read(struct init *in); /* one message; sets outbox.broken when the supervisor is gone */

/* out.c: reports to the supervisor, in order; never waits. Takes fd (-1: none). */
void out_send(struct init *in, const struct init_msg *msg, int fd);
void out_flush(struct init *in);

/* init_folder.c: over a byte link, a socket to a process that has the folder open takes the place of *fd. */
bool folder_is(int fd);
int folder_serve(int *fd);

/* open.c: INIT_MSG_OPEN. open_inside() returns 0 or -errno. */
int open_inside(const char *path, size_t len, int how, int *ret_fd);
void open_answer(struct init *in, const struct init_msg *ask, const char *path, size_t len);

/* published_connect.c: INIT_MSG_INSIDE; never waits. inside_connect() returns 0 or -errno. */
int inside_connect(int port, int *ret_fd);
void inside_answer(const struct init *in, const struct init_msg *ask);

/* tree.c */
size_t tree_tasks(void); /* processes and threads in our pid namespace */

/* room.c */
uint64_t room_watch_pids(const struct init *in); /* the number of processes that is watched here; 0: none is */
void room_look(struct init *in);                 /* once per tick */
/* What ran out, for the message about the end of a command: a set of enum init_exited. Forgets what room_look() saw. */
int room_ran_out(struct init *in, int status);
int tree_kill_descendants(void);             /* until none is left */
void tree_signal_descendants(int sig);       /* those that there are */
uint64_t tree_memory(bool only_descendants); /* bytes of anonymous memory, all together */
