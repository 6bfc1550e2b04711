/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn run` says about the network and its times, for the record. */
#pragma once

#include <jansson.h>

struct task_record;

/* network: as in netcount_json(); may be NULL. */
void tasktraffic_read(const json_t *network, struct task_record *ret);
void tasktimes_read(const json_t *times, struct task_record *ret);
