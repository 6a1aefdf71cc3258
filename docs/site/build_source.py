"""Lays out the source of the documentation site: every Markdown page where it is in the repository, so that relative
links hold; the files that the pages link to; an index; and references generated from the comments of the protos and from the
gateway's OpenAPI document.

    /usr/bin/python3 docs/site/build_source.py OUTPUT
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import openapi_reference
import proto_reference

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")

API_TITLE = "API reference"
HTTP_TITLE = "HTTP API reference"
CONFIG_TITLE = "Configuration reference"


def tracked(pattern: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout
    return [Path(name) for name in names.split("\0") if name and (ROOT / name).exists()]


def page_text(page: Path) -> str:
    """A page whose links to docs/README.md lead to the site's index, which it becomes."""
    def relink(match: re.Match) -> str:
        if "://" not in match[1] and ((ROOT / page).parent / match[1]).resolve() == INDEX:
            return "](" + "../" * (len(page.parts) - 1) + "index.md" + (match[2] or "") + ")"
        return match[0]

    return LINK.sub(relink, (ROOT / page).read_text())


def copy_pages(output: Path) -> list[Path]:
    pages = [page for page in tracked("*.md") if (ROOT / page).read_text().startswith("# ")]
    for page in pages:
        target = output / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page_text(page))
        for link, _ in LINK.findall((ROOT / page).read_text()):
            linked = (ROOT / page).parent / link
            if "://" not in link and linked.is_file() and linked.suffix != ".md":
                copy = output / linked.resolve().relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, copy)
    return pages


def toctree(caption: str, entries: list[str], hidden: bool = True) -> str:
    options = ":hidden:\n" if hidden else ""
    return f"```{{toctree}}\n:caption: {caption}\n{options}\n" + "\n".join(entries) + "\n```\n"


def sections(text: str) -> dict[str, list[str]]:
    """Of docs/README.md: its bold captions, and the pages that the table below each links to, from the repository's root."""
    found: dict[str, list[str]] = {}
    caption = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\*\*(.+)\*\*", line):
            caption = match[1]
            found[caption] = []
        elif caption and line.startswith("|"):
            links = [(INDEX.parent / link).resolve().relative_to(ROOT) for link, _ in LINK.findall(line)]
            found[caption] += [str(link.with_suffix("")) for link in links]
    return found


def write_index(output: Path, pages: list[Path]) -> None:
    text = INDEX.read_text()
    parts = sections(text)
    parts["Reference"] = ["docs/api", "docs/http-reference", "docs/configuration-reference"]
    listed = {page for entries in parts.values() for page in entries}
    rest = [str(page.with_suffix("")) for page in pages if page != Path("docs/README.md")]
    parts["More"] = [page for page in rest if page not in listed]
    trees = [toctree(caption, entries) for caption, entries in parts.items()]
    body = re.sub(r"\]\((?!\w+://)([^)#\s]+)", lambda m: "](" + str((INDEX.parent / m[1]).resolve().relative_to(ROOT)), text)
    (output / "index.md").write_text(body + "\n" + "\n".join(trees))
    (output / "docs" / "README.md").unlink()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = Path(sys.argv[1])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    pages = copy_pages(output)
    protos = proto_reference.load(ROOT / "proto", ["kinora/v1/video_generation.proto", "kinora/v1/config.proto"])
    (output / "docs" / "api.md").write_text(proto_reference.api_page(protos["kinora/v1/video_generation.proto"], API_TITLE))
    (output / "docs" / "http-reference.md").write_text(openapi_reference.page(ROOT / "server/gateway/openapi.json", HTTP_TITLE))
    (output / "docs" / "configuration-reference.md").write_text(
        proto_reference.config_page(protos["kinora/v1/config.proto"], CONFIG_TITLE))
    write_index(output, pages)
    shutil.copyfile(Path(__file__).parent / "conf.py", output / "conf.py")


if __name__ == "__main__":
    main()
