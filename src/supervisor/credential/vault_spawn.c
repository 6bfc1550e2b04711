/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-vault as a process. */
#include "supervisor/credential/vault_spawn.h"

#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "os/process.h"
#include "policy/credential/credential.h"
#include "supervisor/helper.h"

enum { VAULT_FD = 3 };

static const char program[] = "bawn-vault";

int vault_start(const struct vault_job *j, pid_t *ret_pid, struct err *err) {
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)j->verb, NULL, NULL, NULL, NULL, NULL};
    struct helper h = {.name = program,
                       .argv = argv,
                       .fds = {j->terminal ? STDIN_FILENO : -1, j->terminal ? STDOUT_FILENO : -1, STDERR_FILENO, j->sock},
                       .n_fds = j->sock >= 0 ? VAULT_FD + 1 : VAULT_FD,
                       .terminal = j->terminal};
    CLEANUP(strv_done) struct strv env = {0}; /* for the commands that it runs: op, docker's helpers */
    char purpose[CREDENTIAL_PURPOSE_SIZE];
    size_t n = 2;

    if (paths_environ(j->environ_, NULL, &env) < 0)
        return err_oom(err);
    h.envp = env.v;

    if (j->name)
        argv[n++] = (char *)(uintptr_t)j->name;
    if (j->of) {
        credential_purpose(j->of, purpose);
        argv[n++] = "--of";
        argv[n++] = purpose;
    }
    if (j->fresh)
        argv[n] = "--fresh";
    if (j->out > 0)
        h.fds[STDOUT_FILENO] = j->out;
    if (j->messages > 0)
        h.fds[STDERR_FILENO] = j->messages;
    return helper_start(&h, ret_pid, err);
}

int vault_start_talking(struct vault_job *j, struct helper_ends *ret, pid_t *ret_pid, struct err *err) {
    int r = helper_ends_open(ret, program, err);

    if (r < 0)
        return r;
    j->sock = ret->their_sock;
    j->messages = ret->their_messages;
    return vault_start(j, ret_pid, err);
}

/* Like system(3): Ctrl-C is for the program that reads from the terminal. If we died first, it would be killed before it restores the echo. */
int vault_run(const struct vault_job *j, int *ret_status, struct err *err) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    pid_t pid = -1;
    int r;

    sigaction(SIGINT, j->terminal ? &ignore : NULL, &interrupt);
    sigaction(SIGQUIT, j->terminal ? &ignore : NULL, &quit);
    r = vault_start(j, &pid, err);
    r = r < 0 ? r : helper_wait(program, pid, ret_status, err);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    if (r == 0 && *ret_status > PROCESS_SIGNALLED && *ret_status != PROCESS_SIGNALLED + SIGINT)
        log_line("%s was ended by signal %d", program, *ret_status - PROCESS_SIGNALLED);
    return r;
}
