"""Builds the package (PEP 517) with what Python has, so that installing it needs no network and no other package."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from typing import Dict, List, Optional

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "rouse"


def _field(name: str) -> str:
    with open(os.path.join(FOLDER, "pyproject.toml"), encoding="utf-8") as file:
        found = re.search(rf'^{name} = "([^"]*)"$', file.read(), re.MULTILINE)
    if found is None:
        raise ValueError(f"pyproject.toml has no {name}")
    return found.group(1)


VERSION = _field("version")
INFO = f"{PACKAGE}-{VERSION}.dist-info"


def _metadata() -> str:
    with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    return (
        f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\nSummary: {_field('description')}\n"
        f"License: Apache-2.0\nRequires-Python: {_field('requires-python')}\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


def _sources() -> List[str]:
    found: List[str] = []
    for folder, folders, names in os.walk(os.path.join(FOLDER, PACKAGE)):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        found += [os.path.join(folder, one) for one in sorted(names) if one.endswith(".py") or one == "py.typed"]
    return found


def _wheel(folder: str, files: Dict[str, bytes]) -> str:
    name = f"{PACKAGE}-{VERSION}-py3-none-any.whl"
    files[f"{INFO}/METADATA"] = _metadata().encode()
    files[f"{INFO}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: rouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)
        wheel.writestr(zipfile.ZipInfo(f"{INFO}/RECORD", (2020, 1, 1, 0, 0, 0)), f"{record}{INFO}/RECORD,,\n")
    return name


def build_wheel(
    wheel_directory: str, config_settings: Optional[object] = None, metadata_directory: Optional[str] = None
) -> str:
    files: Dict[str, bytes] = {}
    for path in _sources():
        with open(path, "rb") as file:
            files[os.path.relpath(path, FOLDER).replace(os.sep, "/")] = file.read()
    return _wheel(wheel_directory, files)


def build_editable(
    wheel_directory: str, config_settings: Optional[object] = None, metadata_directory: Optional[str] = None
) -> str:
    return _wheel(wheel_directory, {f"{PACKAGE}.pth": f"{FOLDER}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Optional[object] = None) -> str:
    base = f"{PACKAGE}-{VERSION}"
    name = f"{base}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        about = tarfile.TarInfo(f"{base}/PKG-INFO")
        data = _metadata().encode()
        about.size = len(data)
        archive.addfile(about, io.BytesIO(data))
        for one in ["pyproject.toml", "README.md", "build_backend.py"]:
            archive.add(os.path.join(FOLDER, one), f"{base}/{one}")
        for path in _sources():
            archive.add(path, f"{base}/{os.path.relpath(path, FOLDER)}")
    return name
