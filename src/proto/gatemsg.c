/* SPDX-License-Identifier: Apache-2.0 */
/* Checks messages of the gate. */
#include "proto/gatemsg.h"

#include <errno.h>

#include "proto/plain.h"

int gatemsg_sane(struct gate_msg *m) {
    const struct {
        char *s;
        size_t size;
    } texts[] = {
        {m->host, sizeof m->host},   {m->address, sizeof m->address}, {m->rule, sizeof m->rule},
        {m->layer, sizeof m->layer}, {m->pattern, sizeof m->pattern}, {m->method, sizeof m->method},
        {m->path, sizeof m->path},   {m->secret, sizeof m->secret},
    };

    if (m->type < GATE_MSG_CONFIG || m->type >= GATE_MSG_TYPES || m->kind >= GATE_EVENT_KINDS)
        return -EBADMSG;
    if (m->action >= GATE_ACTIONS || m->code >= GATE_CODES || m->port > UINT16_MAX || m->status > GATE_STATUS_MAX)
        return -EBADMSG;
    if (m->type == GATE_MSG_ANSWER && (m->value < GATE_DENY || m->value >= GATE_ANSWERS))
        return -EBADMSG;
    if (m->type == GATE_MSG_OPEN && (m->value < 0 || m->value > 1))
        return -EBADMSG;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (!plain_make(texts[i].s, texts[i].size))
            return -EBADMSG;
    return 0;
}
