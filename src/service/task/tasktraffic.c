/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the hosts of a run. */
#include "service/task/tasktraffic.h"

#include "base/json.h"
#include "base/str.h"
#include "policy/rules/verdict.h"
#include "service/task/taskmsg.h"
#include "supervisor/session/run.h"

static_assert((int)RUN_TIMES == (int)TASK_TIMES, "as taskmsg.h has it");

static uint64_t count_of(const json_t *host, const char *name) {
    return (uint64_t)MAX_OF(json_get_int(host, name, 0), 0);
}

static void add_reached(const json_t *host, struct task_record *ret) {
    uint64_t connections = count_of(host, "connections");

    ret->sent += count_of(host, "sent");
    ret->traffic.received += count_of(host, "received");
    ret->traffic.allowed += connections ? connections : count_of(host, "requests");
}

static void add_refused(const json_t *host, struct task_record *ret) {
    const char *code = json_get_text(host, "code");

    for (size_t i = 0; i < POLICY_CODES; i++)
        if (str_eq(policy_codes[i].name, code))
            ret->traffic.denied[i] += count_of(host, "count");
}

void tasktraffic_read(const json_t *network, struct task_record *ret) {
    const json_t *reached = json_object_get(network, "reached"), *refused = json_object_get(network, "refused"),
                 *failed = json_object_get(network, "failed");

    for (size_t i = 0; i < json_array_size(reached); i++)
        add_reached(json_array_get(reached, i), ret);
    for (size_t i = 0; i < json_array_size(refused); i++)
        add_refused(json_array_get(refused, i), ret);
    for (size_t i = 0; i < json_array_size(failed); i++)
        ret->traffic.failed += count_of(json_array_get(failed, i), "count");
}

void tasktimes_read(const json_t *times, struct task_record *ret) {
    for (int i = 0; i < RUN_TIMES; i++)
        ret->times[i] = count_of(times, run_time_names[i]) * 1000;
}
