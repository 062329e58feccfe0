"""Fetch the icon packs: two npm packages, pinned by version and checksum, opened into a folder of the caller."""

import hashlib
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from leo_core.errors import PartError
from leo_core.files import atomic_path, workspace_in


@dataclass(frozen=True)
class Pack:
    """One drawing style. style: its folder below the cache; sha256: of the package file as npm delivers it."""

    style: str
    package: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.package.lstrip('@').replace('/', '-')}-{self.version}.tgz"


PACKS = (
    Pack("noto", "@iconify-json/noto", "1.2.9", "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad"),
    Pack("fluent", "@iconify-json/fluent-emoji-flat", "1.2.6", "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175"),
    Pack("openmoji", "@iconify-json/openmoji", "1.2.29", "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5"),
    Pack("twemoji", "@iconify-json/twemoji", "1.2.5", "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7"),
)
"""noto: Apache-2.0; fluent: MIT; openmoji: CC-BY-SA-4.0; twemoji: CC-BY-4.0 (as the packages state)."""

KEPT = ("icons.json", "info.json")


def fetch_packs(folder: Path) -> Path:
    """Bring every pack to `folder/<style>/icons.json`, where `Icons` reads it, and return `folder`. Packs that are
    there already are left alone, so a second call works offline.

    Raises PartError when npm is missing or fails, or the file is not the pinned one.
    """
    for pack in PACKS:
        if not (folder / pack.style / "icons.json").exists():
            _unpack(_download(pack, folder), folder / pack.style)
    return folder


def _download(pack: Pack, folder: Path) -> Path:
    archive = folder / pack.file_name
    wanted = f"{pack.package}@{pack.version}"
    if not archive.exists():
        try:
            with workspace_in(folder) as apart:  # another process that fetches the same must not read half a file
                command = ["npm", "pack", "--silent", wanted]
                subprocess.run(command, cwd=apart, check=True, capture_output=True, text=True, timeout=300)
                os.replace(apart / pack.file_name, archive)
        except FileNotFoundError as error:
            raise PartError(f"The icon pack {wanted} needs npm, which is not installed: install it, or put {pack.file_name} "
                            f"into {folder}.") from error  # fmt: skip
        except subprocess.SubprocessError as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:] or ["no reason given"]
            raise PartError(f"npm could not fetch the icon pack {wanted} ({reason[0]}): check the network, or put "
                            f"{pack.file_name} into {folder}.") from error  # fmt: skip
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != pack.sha256:
        raise PartError(f"{archive} has sha256 {found[:12]}... and not {pack.sha256[:12]}...: delete it and fetch it again.")
    return archive


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as packed:
        for name in reversed(KEPT):  # icons.json last: its presence means complete
            with atomic_path(target / name) as temporary:
                temporary.write_bytes(packed.extractfile(f"package/{name}").read())
