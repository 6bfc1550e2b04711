/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/parse.h"
#include "cli/sandbox/box_view.h"

void box_usage_words(const struct box *b, const struct box_usage *u, char memory[static 64], char cpu[static 64],
                     char pids[static 64]) {
    const struct box_state *s = &b->state;
    char used[24], limit[24];

    snprintf(memory, 64, "-");
    snprintf(cpu, 64, "-");
    snprintf(pids, 64, "-");
    format_size(u->memory, used);
    format_size(s->memory, limit);
    if (u->has_memory)
        snprintf(memory, 64, "%s%s%s", used, s->memory ? "/" : "", s->memory ? limit : "");
    if (u->has_cpu)
        snprintf(cpu, 64, "%" PRIu64 ".%" PRIu64 "s", u->cpu_us / 1000000, u->cpu_us / 100000 % 10);
    if (u->has_cpu && s->cpus_milli)
        snprintf(cpu + strlen(cpu), 64 - strlen(cpu), "/%g cpus", (double)s->cpus_milli / 1000);
    if (u->has_pids && s->pids)
        snprintf(pids, 64, "%" PRIu64 "/%" PRIu64, u->pids, s->pids);
    else if (u->has_pids)
        snprintf(pids, 64, "%" PRIu64, u->pids);
}
