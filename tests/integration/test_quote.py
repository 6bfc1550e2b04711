# SPDX-License-Identifier: Apache-2.0
"""Random strings through Bawn's writer of YAML, read back by a real parser: each is itself, or refused because it is no text."""

import pathlib
import random
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["engine/guest/lima_quote.c", "base/buf.c", "base/str.c"]
SPECIAL = "\"'\\\n\r\t #:-{}[],&*!|>%@`~\x01\x1f\x7f\x85\xa0\u2028\u2029\ufeff\ud7ff\ue000\ufffd\U00010000\U0010ffff$()é☃"


def quoted(top, texts):
    out = top / "quote-cli"
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-I", ROOT / "src", "-include",
                    ROOT / "src/base/banned.h", "-o", out, ROOT / "tests/integration/quote_cli.c", *(ROOT / "src" / s for s in SOURCES)], check=True)
    r = subprocess.run([out], input=b"".join(t + b"\0" for t in texts), capture_output=True, check=True)
    return r.stdout.decode().splitlines()


def test_any_text_comes_back(tmp_path):
    rng = random.Random()
    texts = ["".join(rng.choice(SPECIAL) if rng.random() < 0.5 else chr(rng.choice([rng.randrange(1, 0x100), rng.randrange(0x100, 0xd800)])) for _ in range(rng.randrange(30)))
             for _ in range(1500)]
    lines = quoted(tmp_path, [t.encode() for t in texts])
    assert all(line.isascii() and "\n" not in line for line in lines)
    for text, line in zip(texts, lines, strict=True):
        assert yaml.safe_load(f"- location: {line}\n  writable: false\n") == [{"location": text, "writable": False}], (text, line)


def test_what_is_no_text_is_refused(tmp_path):
    assert quoted(tmp_path, [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\xaf"]) == ["null"] * 4
