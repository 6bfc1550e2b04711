/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of an agent's, made fit to be shown (ATTACKS 42): nothing gets through that a terminal obeys, that turns the order of
 * what is read around, or that takes no room. What is replaced stays legible: \x1b for a byte, \u{202e} for a character.
 */
#pragma once

#include "base/buf.h"

/* Control characters, bidirectional controls, and whatever takes no room. */
bool escape_deceptive(uint32_t code);

/* One line of text; a tab is a control character here. */
void escape_text(struct buf *b, const char *s);
/* A line of a file's content, without its end: tabs stay; keep_cr: a CR as its last byte stays, too, so that a patch of a file
 * with such line ends can be applied. */
void escape_content(struct buf *b, const char *s, size_t len, bool keep_cr);

/* A JSON string with its quotes. Without loss, but for bytes that are not UTF-8, which become U+FFFD. */
void escape_json(struct buf *b, const char *s, size_t len);
/* A name as git writes it, `prefix` ("a/" in the heads of a patch) in front: in quotes with octal numbers if anything in it
 * needs them. Git and patch(1) read it back; for the latter a space is quoted too where two names share a line. */
void escape_git_name(struct buf *b, const char *prefix, const char *s);
/* A path as a part of a URI. */
void escape_uri(struct buf *b, const char *s);
