/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, "%41" of URLs, base64. Not in constant time; what encodes a secret zeroes its own buffers. */
#pragma once

#include "base/macros.h"

struct buf;

#define HEX_SIZE(len) (2 * (len) + 1)
#define BASE64_URL_SIZE(len) (((len)*4 + 2) / 3 + 1)

/* 0 to 15, of either case; -1: none. */
int hex_digit(char c);
/* Lower case. */
void hex_encode(const void *data, size_t len, char *out); /* out: HEX_SIZE(len) bytes, with the NUL */
/* 2 * len digits of either case to len bytes; false: others are among them, and out has changed. */
bool hex_decode(const char *text, size_t len, void *out);
/* Only lower-case digits, as we and git write them. */
bool hex_is_lower(const char *text, size_t len);
/* The byte that "%XX" at p stands for, -1 if it is none; len: bytes left. */
int hex_percent(const char *p, size_t len);

/* The standard alphabet, padded with '='. */
void base64_add(struct buf *b, const void *data, size_t len);
/* The alphabet for URLs, without padding; out: BASE64_URL_SIZE(len) bytes, with the NUL. */
void base64_url(const void *data, size_t len, char *out);
