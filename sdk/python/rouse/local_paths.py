"""Paths of this machine, for copies from and to a sandbox."""

from __future__ import annotations

import os
import posixpath
from typing import List, Tuple

from .errors import RouseError


def walk(folder: str, target: str) -> Tuple[List[str], List[Tuple[str, str]], List[str]]:
    """Folders to make in the sandbox, files with where they go, and what is neither."""
    folders: List[str] = [target]
    files: List[Tuple[str, str]] = []
    others: List[str] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            below = f"{target.rstrip('/')}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                more = walk(entry.path, below)
                folders += more[0]
                files += more[1]
                others += more[2]
            elif entry.is_file(follow_symlinks=False):
                files.append((entry.path, below))
            else:
                others.append(entry.path)
    return folders, files, others


def below(local: str, folder: str, entry_path: str) -> str:
    """Where an entry of a folder goes. The sandbox chooses the names, so none may lead out of what the caller chose."""
    prefix = folder if folder.endswith("/") else f"{folder}/"
    parts = entry_path[len(prefix) :].split("/") if entry_path.startswith(prefix) else []
    bad = [part for part in parts if part in ("", ".", "..") or "\0" in part or "\\" in part]
    # A drive, or a stream of a file, where there are such.
    if os.name == "nt":
        bad += [part for part in parts if ":" in part]
    if not parts or bad:
        raise RouseError("unexpected_answer", f"The sandbox lists {entry_path!r}, which is not below {folder}.")
    return os.path.join(local, *posixpath.join(*parts).split("/"))
