/* SPDX-License-Identifier: Apache-2.0 */
/* The few macros that every file may use. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

/* CLEANUP(closep) int fd = -1;  runs closep(&fd) when fd leaves its scope. */
#define CLEANUP(f) __attribute__((cleanup(f)))

/* Hand an owned value over: the old owner is left empty, so that its cleanup does nothing. */
#define TAKE(var, empty)            \
    ({                              \
        __auto_type taken_ = (var); \
        (var) = (empty);            \
        taken_;                     \
    })
#define TAKE_PTR(p) TAKE(p, NULL)
#define TAKE_FD(fd) TAKE(fd, -1)

/* For tables that name a member of a struct: its offset, and no compilation if the member is not what the table takes it for. */
#define MEMBER_IS(type, member, want) __builtin_types_compatible_p(__typeof__(((type *)0)->member), want)
#define OFFSET_IF(type, member, condition) (offsetof(type, member) + 0 * sizeof(char[(condition) ? 1 : -1]))
#define OFFSET_AS(type, member, want) OFFSET_IF(type, member, MEMBER_IS(type, member, want))
#define OFFSET_AS_CHARS(type, member) OFFSET_AS(type, member, char[sizeof(((type *)0)->member)])
#define OFFSET_AS_ENUM(type, member) OFFSET_IF(type, member, sizeof(((type *)0)->member) == sizeof(int))

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
/* A large buffer that is not zeroed first (-ftrivial-auto-var-init): only what was written to it is read. */
#if __has_attribute(uninitialized)
#define UNINITIALIZED __attribute__((uninitialized))
#else
#define UNINITIALIZED
#endif
#define MUST_USE __attribute__((warn_unused_result))

/* A state that only a mistake in this program can reach. Bad input is never a BUG(). */
#define BUG(what) bug_found(__FILE__, __LINE__, what)
NORETURN void bug_found(const char *file, int line, const char *what);
