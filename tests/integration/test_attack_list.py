# SPDX-License-Identifier: Apache-2.0
"""spec/attacks.md, SECURITY.md with docs/security/ and the tests name each other correctly: no class of attack without a claim, a stated
limit or a reason to wait, and no proof that does not exist. Markdown has short lines, and its links lead somewhere."""

import collections
import fnmatch
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECURITY = "\n".join(p.read_text() for p in [ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/security/*.md"))])
ATTACKS = (ROOT / "spec" / "attacks.md").read_text()
AREAS = sorted(ROOT.glob("docs/security/*.md"))
GUIDES = [p for folder in (".", "docs", "docs/security", "spec") for p in sorted((ROOT / folder).glob("*.md")) if p.name != "CHANGELOG.md"]
COLUMNS_MAX = 160
NUMBERS = re.compile(r"\d+(?:-\d+)?(?:, ?\d+(?:-\d+)?)*")


def listed_classes():
    return [int(n) for n in re.findall(r"^(\d+)\. ", ATTACKS, re.M)]


def expand(text):
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        yield from range(int(first), int(last or first) + 1)


def named_classes(text):
    """Numbers in parentheses, "(5, 21-25)", and in the first column of the table "Not yet"."""
    found = re.findall(rf"\(({NUMBERS.pattern})\)", text) + re.findall(rf"^\| ({NUMBERS.pattern}) \|", text, re.M)
    return {n for numbers in found for n in expand(numbers)}


def existing_tests():
    names = set()
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("tests/unit/**/*.c")]:
        names.add(path.name)
        names.update(re.findall(r"(?:def |static void )(test_\w+)", path.read_text()))
    return names


def named_tests(text):
    """Names in backticks; a name may be shortened by "…" or "*"."""
    for quoted in re.findall(r"`([^`]+)`", text):
        for part in quoted.split("::"):
            name = part.split("/")[-1].split("[")[0]
            if name.startswith("test_"):
                yield name


def misplaced_tests(text):
    """`file::test` where no file of that name has such a test."""
    found = collections.defaultdict(set)
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("tests/unit/**/*.c")]:
        found[path.name].update(re.findall(r"(?:def |static void )(test_\w+)", path.read_text()))
    for file, name in re.findall(r"`(?:[\w./]*/)?(test_\w+\.\w+)::(test_[\w…*]+)", text):
        if not fnmatch.filter(found[file], name.replace("…", "*")):
            yield f"{file}::{name}"


@functools.cache
def our_files():
    found = {p.relative_to(ROOT).as_posix() for top in ("src", "tests", "tools", "profiles", "spec") for p in (ROOT / top).rglob("*")}
    return found | {path.removeprefix("src/") for path in found} | {path.split("/")[-1] for path in found}


def missing_files(text):
    """Files and folders of ours that a text names in backticks and that do not exist; `os/file.h` is `src/os/file.h`, `cover*.c` any of them."""
    for name in re.findall(r"`((?:src|profiles|spec)/[\w./*-]+|[\w./*-]+\.[ch])`", text):
        if name.rstrip("/") not in our_files() and not ("*" in name and fnmatch.filter(our_files(), name)):
            yield name


def test_classes_are_numbered_without_gaps_or_repeats():
    listed = listed_classes()
    assert sorted(listed) == list(range(1, len(listed) + 1)) and len(listed) >= 108


def test_every_class_has_a_claim_a_limit_or_a_reason_to_wait():
    assert set(listed_classes()) - named_classes(SECURITY) == set()


def test_the_search_for_classes_can_fail():
    assert named_classes("claim (5, 21-23) and 7, | 9 | in the middle\n| 85-86 | engines |") == {5, 21, 22, 23, 85, 86}


def test_every_proof_exists():
    exist = existing_tests()
    named = set(named_tests(SECURITY))
    missing = {name for name in named if not fnmatch.filter(exist, name.replace("…", "*"))}
    assert len(named) > 500 and missing == set()


def test_every_proof_is_in_the_file_that_is_named():
    assert list(misplaced_tests(SECURITY)) == []
    assert list(misplaced_tests("`tests/attack/test_protect.py::test_no_such_thing`, `test_attack_list.py::test_every_proof…`")) == ["test_protect.py::test_no_such_thing"]


def test_every_area_is_linked():
    page = (ROOT / "SECURITY.md").read_text()
    assert len(AREAS) >= 11 and [path.name for path in AREAS if f"(docs/security/{path.name})" not in page] == []


def test_every_claim_has_a_mechanism_and_a_proof():
    text = "\n".join(path.read_text() for path in AREAS if path.name not in ("limits.md", "not-yet.md", "degraded.md"))
    claims = re.findall(r"^\*\*(?:.+\n)+", text, re.M)
    whole = re.findall(r"^\*\*(?:.+\n)+\n- How: (?:.+\n)+?- Proof: .*`", text, re.M)
    assert len(claims) == len(whole) > 100


def test_lines_of_markdown_are_short():
    long = [f"{p.relative_to(ROOT)}:{n}" for p in GUIDES for n, line in enumerate(p.read_text().splitlines(), 1) if len(line) > COLUMNS_MAX]
    assert len(GUIDES) > 40 and long == []


def test_links_between_documents_lead_to_files():
    links = [(path, link) for path in GUIDES for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())]
    dead = [f"{path.relative_to(ROOT)}: {link}" for path, link in links if not (path.parent / link).exists()]
    assert len(links) > 100 and dead == []


def test_files_that_documents_name_exist():
    missing = [f"{path.relative_to(ROOT)}: {name}" for path in GUIDES for name in missing_files(path.read_text())]
    assert missing == []
    text = "`src/base/buf.h` `base/buf.h` `buf.h` `buf*.c` `src/base/no.h` `no.c` `spec/none.md` `spec/`"
    assert list(missing_files(text)) == ["src/base/no.h", "no.c", "spec/none.md"]
