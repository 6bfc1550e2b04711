/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own program: where it is, running it, and what its complaints mean. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "engine/container/container.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"

int container_cli_find(const struct container_kind *k, const char *workspace, struct container_cli *ret, struct err *err) {
    CLEANUP(freep) char *program = paths_program(environ, workspace, k->program);

    if (paths_environ(environ, workspace, &ret->env) < 0)
        return err_oom(err);
    if (program && (size_t)snprintf(ret->program, sizeof ret->program, "%s", program) < sizeof ret->program)
        return 0;
    return err_set(err, -ENOENT, "engine %s: there is no program '%s' in PATH; install it, or use --engine native", k->name,
                   k->program);
}

int container_call(const struct container_cli *cli, char *const *argv, const struct buf *input, struct buf *out,
                   struct buf *said) {
    CLEANUP(closep) int in = input ? fd_memory("bawn-import", input->data, input->len) : -1;
    const int fds[1] = {in};
    const struct spawn s = {.path = cli->program,
                            .argv = argv,
                            .envp = cli->env.v,
                            .fds = fds,
                            .n_fds = 1,
                            .limit_ms = cli->limit_ms ? cli->limit_ms : CONTAINER_CALL_MS,
                            .heeds_end = !cli->deaf};
    int r = input && in < 0 ? in : spawn_collect(&s, out, said);

    return r < 0 ? r : process_exit_status(r);
}

/* What a part of a complaint means, and what helps. The first that fits. */
static const struct {
    const char *part, *what, *remedy;
} troubles[] = {
    {"permission denied while trying to connect", "you may not talk to the daemon",
     "add yourself to the group docker ('sudo usermod -aG docker $USER', then log in again), or use --engine podman or native"},
    {"Got permission denied", "you may not talk to the daemon",
     "add yourself to the group docker ('sudo usermod -aG docker $USER', then log in again), or use --engine podman or native"},
    {"Cannot connect to the Docker daemon", "the daemon does not run, or not where DOCKER_HOST or the context say",
     "start it ('sudo systemctl start docker', or Docker Desktop), check 'docker info', or use --engine native"},
    {"error during connect", "the daemon does not answer", "check 'docker info' and 'docker context ls', or use --engine native"},
    {"unable to connect to Podman", "podman's service does not answer", "'podman machine start', or check 'podman info'"},
    {"Cannot connect to Podman", "podman's service does not answer", "'podman machine start', or check 'podman info'"},
    {"requires API version", "program and daemon are of versions that do not understand each other",
     "update the older one, or unset DOCKER_API_VERSION"},
    {"client version", "program and daemon are of versions that do not understand each other",
     "update the older one, or set DOCKER_API_VERSION"},
    {"no space left on device", "there is no space left for containers",
     "'docker system df' shows what is used, 'docker system prune' frees it"},
    {"No such image", "the image is not there", "pull it first ('docker pull IMAGE'), or check its name"},
    {"image not known", "the image is not there", "pull it first ('podman pull IMAGE'), or check its name"},
    {"unable to find image", "the image is not there", "pull it first, or check its name"},
    {"manifest unknown", "the registry has no such image", "check its name and tag"},
    {"pull access denied", "the image is not there, or needs a login", "'docker login', or check its name"},
    {"error waiting for container", "the daemon is gone while the container runs", "check 'docker info' and the daemon's log"},
    {"unexpected EOF", "the daemon is gone while the container runs", "check 'docker info' and the daemon's log"},
    {"cgroup", "the container could not get its control group",
     "check 'docker info' (Cgroup Driver) or 'podman info'; with podman, --runtime runc or crun may differ"},
    {"unknown flag", "this version does not know an option that is needed", "update it (docker 20.10, podman 4.0 or later)"},
    {"OCI runtime", "the runtime could not start the container", "see its message above; 'bawn doctor' checks this engine"},
};

/* The last line that is not about help, without the name of who said it. */
static void last_line(const char *said, char *ret, size_t size) {
    const char *line = said;

    snprintf(ret, size, "no message");
    while (*line) {
        size_t len = strcspn(line, "\n");

        if (len && !str_starts(line, "See '") && !str_starts(line, "Run '"))
            snprintf(ret, size, "%.*s", (int)MIN_OF(len, size - 1), line);
        line += len + (line[len] == '\n');
    }
}

int container_trouble(const struct container_kind *k, const char *said, int r, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(4096);
    char line[400];

    last_line(said, line, sizeof line);
    buf_add_printable(&text, line);
    for (size_t i = 0; i < ARRAY_LEN(troubles); i++)
        if (strcasestr(line, troubles[i].part))
            return err_set(err, r, "engine %s: %s (%s); %s", k->name, troubles[i].what, buf_str(&text), troubles[i].remedy);
    return err_set(err, r, "engine %s: %s", k->name, buf_str(&text));
}
