#!/usr/bin/env python3
"""Scripts, benchmarks and flags named in the documentation must exist, and so must names that Python files import from
each other.

Some of them need torch or an hour, so no test runs them. This test finds names that no longer exist.
"""

import ast
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md"), *(ROOT / "tools").rglob("*.md")]
# Folders in which scripts look for modules, besides their own.
SEARCHED = [ROOT / folder for folder in ("tests/golden", "tests/bench", "tests/e2e", "tools/train_demo")]
SCRIPT = re.compile(r"(?<![\w/.-])((?:tests|tools)/[\w/.-]+\.py|scripts/[\w-]+)((?:[^\n`&;|#]|\\\n)*)")
BENCHMARK = re.compile(r"\b(\w+_bench|serving_load)\b")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def python_files() -> list[Path]:
    return [path for folder in ("tests", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_file(name: str, script: Path) -> Path | None:
    """Returns the file of a module of this repository, or None for other modules."""
    relative = Path(*name.split("."))
    for folder in (script.parent, *SEARCHED):
        for candidate in (folder / f"{relative}.py", folder / relative / "__init__.py"):
            if candidate.exists():
                return candidate
    return None


def names_of(path: Path) -> set[str]:
    """Returns all names that a module binds outside functions and classes."""
    found, todo = set(), list(parsed(path).body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        todo += ast.iter_child_nodes(node)
    return found


def missing_names(script: Path) -> list[str]:
    """Returns the names that `script` imports from modules of this repository but that those do not define."""
    tree, modules, missing = parsed(script), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = {alias.asname or alias.name: module_file(alias.name, script) for alias in node.names}
            modules |= {name: file for name, file in found.items() if file}
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        package = module_file(node.module, script)
        for alias in node.names:
            file = module_file(f"{node.module}.{alias.name}", script)
            if file:
                modules[alias.asname or alias.name] = file
            elif package and alias.name not in names_of(package):
                missing.append(f"line {node.lineno}: {node.module} has no {alias.name}")
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        file = modules.get(node.value.id)
        if file and node.value.id not in bound and node.attr not in names_of(file):
            missing.append(f"line {node.lineno}: {node.value.id} has no {node.attr}")
    return missing


class DocumentedCommands(unittest.TestCase):
    def test_scripts_and_their_flags_exist(self):
        seen = 0
        for page in PAGES:
            for script, rest in SCRIPT.findall(page.read_text()):
                with self.subTest(page=page.name, command=script + rest):
                    self.assertTrue((ROOT / script).is_file(), "no such file")
                    for flag in FLAG.findall(rest):
                        self.assertTrue(flag in (ROOT / script).read_text(), f"no flag {flag}")
                seen += 1
        self.assertGreater(seen, 20)

    def test_benchmarks_are_built(self):
        built = (ROOT / "tests" / "bench" / "CMakeLists.txt").read_text()
        for page in PAGES:
            for name in BENCHMARK.findall(page.read_text()):
                with self.subTest(page=page.name, benchmark=name):
                    self.assertIn(f"add_executable({name} ", built)

    def test_python_files_take_from_each_other_what_is_there(self):
        for script in python_files():
            with self.subTest(script=str(script.relative_to(ROOT))):
                self.assertEqual(missing_names(script), [])

    def test_a_renamed_function_is_found(self):
        renders = (ROOT / "tests" / "bench" / "bench" / "renders.py").read_text()
        other = ROOT / "tests" / "bench" / "bench" / "renders.py"
        tree = ast.parse(renders.replace("pipeline_cases.guidance", "pipeline_cases._guidance"))
        original = globals()["parsed"]
        globals()["parsed"] = lambda path: tree if path == other else original(path)
        try:
            self.assertEqual([line.split(": ")[1] for line in missing_names(other)], ["pipeline_cases has no _guidance"])
        finally:
            globals()["parsed"] = original


if __name__ == "__main__":
    unittest.main()
