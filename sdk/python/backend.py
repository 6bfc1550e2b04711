# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (PEP 517) with nothing but Python: a package without dependencies needs none to be built.

    python3 backend.py FOLDER       writes FOLDER/bawn-VERSION-py3-none-any.whl
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r'^__version__ = "(.+)"', (HERE / "bawn/__init__.py").read_text(), re.M).group(1)
INFO = f"bawn-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: bawn
Version: {VERSION}
Summary: Sandboxes for AI coding agents
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text()}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: bawn\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The same bytes for the same files."""
    files = {f"bawn/{p.name}": p.read_bytes() for p in sorted((HERE / "bawn").iterdir()) if p.suffix == ".py" or p.name == "py.typed"}
    files.update({f"{INFO}/METADATA": METADATA.encode(), f"{INFO}/WHEEL": WHEEL.encode()})
    rows = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n" for name, data in files.items()]
    files[f"{INFO}/RECORD"] = ("".join(rows) + f"{INFO}/RECORD,,\n").encode()
    name = f"bawn-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the source is the repository")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
