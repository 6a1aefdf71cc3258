#!/usr/bin/env python3
"""Rules for every Markdown page: prose lines have at most 100 columns, a page starts with a title and a sentence about
its purpose, a long page has a table of contents, and no link within the repository is broken. README.md has at most
150 lines, and its tables and blocks have at most 100 columns too."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100
LONG = 110  # in lines: two screens
README_LINES = 150
PAGES = sorted(page for folder in ("", "docs", "kernels", "models/demo", "tests/golden") for page in (ROOT / folder).glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def prose(text: str) -> list[tuple[int, str]]:
    """Returns the numbered lines outside code blocks and tables."""
    lines, code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.lstrip().startswith("|") and not line.startswith("    "):
            lines.append((number, line))
    return lines


def anchors(page: Path) -> set[str]:
    """Returns the anchors of headings, as GitHub and Sphinx make them."""
    found = set()
    for _, line in prose(page.read_text()):
        if match := re.fullmatch(r"#+ (.*)", line):
            found.add(re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-"))
    return found


class MarkdownRules(unittest.TestCase):
    def test_there_are_pages(self) -> None:
        self.assertGreater(len(PAGES), 20)

    def test_prose_has_at_most_100_columns(self) -> None:
        wide = [f"{page.relative_to(ROOT)}:{number}: {len(line)} columns" for page in PAGES for number, line in prose(page.read_text())
                if len(line) > COLUMNS and not re.fullmatch(r"\S*\[[^\]]*\]\(\S+\)\S*|!\[.*\]\(\S+\)", line.strip())]
        self.assertEqual(wide, [])

    def test_the_readme_has_at_most_150_lines_of_100_columns(self) -> None:
        lines = (ROOT / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), README_LINES)
        self.assertEqual([f"README.md:{number}: {len(line)} columns" for number, line in enumerate(lines, 1) if len(line) > COLUMNS], [])

    def test_a_page_begins_with_a_title_and_a_sentence(self) -> None:
        for page in PAGES:
            with self.subTest(page=page):
                self.assertRegex(page.read_text(), r"\A# .+\n\n[A-Z`]")

    def test_a_long_page_has_a_table_of_contents(self) -> None:
        for page in PAGES:
            lines = page.read_text().splitlines()
            headings = [line for _, line in prose(page.read_text()) if line.startswith("## ")]
            if len(lines) > LONG and len(headings) > 3 and page.parent == ROOT / "docs":
                with self.subTest(page=page):
                    self.assertTrue(any("](#" in line for line in lines[:30]))

    def test_no_link_is_broken(self) -> None:
        broken = []
        for page in PAGES:
            for number, line in prose(page.read_text()) + [(n, l) for n, l in enumerate(page.read_text().splitlines(), 1) if l.startswith("|")]:
                for target, anchor in LINK.findall(line):
                    if "://" in target:
                        continue
                    file = (page.parent / target) if target else page
                    if not file.exists() or (anchor and anchor not in anchors(file)):
                        broken.append(f"{page.relative_to(ROOT)}:{number}: {target}#{anchor}")
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
