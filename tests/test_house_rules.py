"""The rules of CONTRIBUTING.md that can be counted, counted."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "otel_loopguard"
FILES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file, whose nodes know their parents."""
    module = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(module):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    return module


def parents(node):
    while (node := getattr(node, "parent", None)) is not None:
        yield node


def function_of(node) -> str:
    """The innermost function that holds the node, or the module."""
    names = [one.name for one in parents(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return names[0] if names else "(module)"


def called(node) -> set[str]:
    """The last names of all functions that are called within a node."""
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


FIXED = {"pyproject.toml", "otel_loopguard", "tests", "dashboards", "collector-config.yaml"}
"""Names that users and their tools rely on; they stay where they are."""

LOOKED_FOR = {
    "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile",
    "docs", "examples", "benchmarks",
}  # fmt: skip
"""Names that a stranger expects, and finds at the top of most repositories."""

OTHERS_AT_THE_TOP = {
    "deploy": "what an operator runs beside the collector of the stack",
    "mkdocs.yml": "MkDocs looks for it there",
    ".ci": "the gate, which CI calls by this name",
    ".github": "GitHub reads it there",
    ".gitignore": "Git reads it there",
}
"""Other names at the top, with the reason."""


def test_the_top_holds_what_people_look_for():
    """A file that has another place is there; who adds a name to the top gives the reason."""
    listed = ["git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    top = {name.partition("/")[0] for name in names if name and (ROOT / name).exists()}
    assert sorted(top ^ (FIXED | LOOKED_FOR | OTHERS_AT_THE_TOP.keys())) == []


def test_one_docstring_in_seven_at_most_opens_with_a_relative_clause():
    """Docstrings open with a verb, or name the thing; at most 15 % open with a question word or a relative clause."""
    relative = re.compile(
        r"(whether|what|where|who|whom|whose|how|which|when|why|that|whoever|whatever|the same|from what)\b"
        r"|(all|everything|something|those|one|nothing)(,| that| which| who| of what)\b",
        re.IGNORECASE,
    )
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        (path, getattr(node, "lineno", 1), text)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]
    found = [f"{named(path)}:{line}: {text.splitlines()[0]}" for path, line, text in docstrings if relative.match(text)]
    share = len(found) / len(docstrings)
    assert share <= 0.15, f"{share:.1%} of {len(docstrings)} docstrings\n" + "\n".join(found)


SHIELDS = {"take", "report", "fault"}
"""Methods that count a fault and log it: of ``Shield``, and of ``Guard``, which hands it to the shield."""

NOT_SHIELDED = {
    "shield.py:report": "the counter or the log of faults itself failed; there is nothing left to report to",
    "engine/values/fingerprint.py:error_text": "an exception's own __str__ raised; its type is text enough",
    "engine/values/walker.py:walk": "a value that cannot be walked is written as its type",
    "engine/values/walker.py:is_larger": "a value that cannot be measured counts as too large",
    "engine/values/canonical.py:canonical": "a value that is no JSON is walked instead",
    "engine/values/canonical.py:result_bytes": "a value that is no JSON is walked instead",
    "engine/tools/contracts.py:resolve": "arguments that cannot be read leave the kind that the tool's name has",
    "policy_files/load.py:text": "whatever the parser raises is a mistake in the text",
    "policy_files/own_detectors.py:find": "whatever the user's module raises is a mistake in the policy",
    "telemetry/providers.py:outlets": "without a provider there is nothing to count a fault with",
    "instrumentation/instrumentor.py:_may_wait": "the runtime, which is made at once, tells that there is no provider",
    "instrumentation/functions/generators.py:drive_generator": "the error is thrown into the user's generator",
    "instrumentation/functions/generators.py:driver": "the error is thrown into the user's generator",
}
"""Broad ``except`` clauses that do not end in the shield, because the fault is an expected answer."""


ROOMS_OF_MODULES = {
    "command": "the command line of each command",
    "events": "of the engine; of the hooks of coding agents",
    "judge": "of hooks; of recorded runs",
    "loops": "of a run, for its last lines; of a test, as a script",
    "program": "a coding agent; the user's program that a command starts",
    "policy": "the policy; the command that checks one",
    "runs": "of any agent; of LangChain's",
    "settings": "of detectors; of the telemetry; of the store",
    "store": "the cells; the doctor's findings about them",
}
"""The names that several modules have, each in a room of its own."""


def test_a_class_name_has_one_meaning():
    """A reader who searches for it finds one class. Names with an underscore are known in their file only."""
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_a_module_name_stands_twice_for_a_reason_only():
    """The list has each name that several rooms have, and no other."""
    names = Counter(path.stem for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__"))
    assert {name for name, times in names.items() if times > 1} == set(ROOMS_OF_MODULES)


def broad(node) -> bool:
    """True if a handler catches ``Exception``, ``BaseException``, or all."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(kind is None or getattr(kind, "id", "") in ("Exception", "BaseException") for kind in kinds)


def unshielded() -> set[str]:
    """File and function of each broad ``except`` that reports nothing to the shield, and raises nothing again."""
    found = set()
    for path in FILES:
        functions = [one for one in ast.walk(tree(path)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        reporting = SHIELDS | {one.name for one in functions if called(one) & SHIELDS}
        for handler in filter(broad, ast.walk(tree(path))):
            raises = any(isinstance(one, ast.Raise) and one.exc is None for one in ast.walk(handler))
            if not (called(handler) & reporting or raises):
                found.add(f"{named(path)}:{function_of(handler)}")
    return found


def test_every_broad_except_ends_in_the_shield():
    """A fault of the package is counted and logged; the exceptions are listed with their reason."""
    assert sorted(unshielded() - NOT_SHIELDED.keys()) == []


def test_the_list_of_other_broad_excepts_is_current():
    """An entry whose ``except`` is gone is removed from the list."""
    assert sorted(NOT_SHIELDED.keys() - unshielded()) == []


CATCHES_TIME_LIMITS = {"Exception", "BaseException", "AttributeError", "KeyError", "LookupError", "OSError",
                       "RuntimeError", "TimeoutError", "TypeError", "ValueError"}  # fmt: skip
"""Classes that the exception of a signal handler may be an instance of."""
APART = ("cli/", "hooks/client.py", "hooks/home.py", "hooks/interrupt.py", "hooks/jsonc.py", "hooks/registration.py",
         "hooks/server.py", "report/", "testing/", "spans/otlp.py")  # fmt: skip
"""Files that do not run in the user's program."""


def test_every_except_passes_the_exceptions_of_signal_handlers():
    """An ``except`` that could catch one ends in the shield, in ``pass_interrupt``, or in the program's generator."""
    found = set()
    for path in FILES:
        attempts = [one for one in ast.walk(tree(path)) if isinstance(one, ast.Try)]
        for attempt in attempts if not named(path).startswith(APART) else ():
            if not any(map(called, attempt.body)):
                continue  # signal handlers run at calls only
            for handler in attempt.handlers:
                kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                catches = any(kind is None or getattr(kind, "id", "") in CATCHES_TIME_LIMITS for kind in kinds)
                raises = any(isinstance(one, ast.Raise) and one.exc is None for one in ast.walk(handler))
                if catches and not raises and not called(handler) & {"take", "pass_interrupt"}:
                    found.add(f"{named(path)}:{function_of(handler)}")
    assert sorted(found) == []


def test_every_exception_to_a_linter_carries_its_reason():
    """``noqa`` and ``type: ignore`` are followed by the reason, on the same line."""
    comment = re.compile(r"#\s*(noqa|type:\s*ignore)(?P<rest>.*)")
    reason = re.compile(r": [A-Z0-9, ]+ - \S|\[[a-z, -]+\]  # (noqa: [A-Z0-9, ]+ - )?\w")
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (match := comment.search(line)) and not reason.match(match["rest"])
    ]
    assert not found, "\n".join(found)


MODEL_TEXT = "engine/sentences.py"
"""The frame of the sentences that a model reads."""

ON_THE_WAY_OF_A_CALL = ("engine/", "guard/", "messages.py", "turns/",
                        "instrumentation/")  # fmt: skip
OF_POLICIES = ("engine/policy/", "engine/settings.py", "engine/rule.py")
"""Their sentences are about the mistakes in a policy."""
PARTS_OF_ROWS = (
    "Detector",
    "Sentences",
    "About",
    "Preset",
    "Setting",
    "Setting.count",
    "Setting.seconds",
    "Setting.number",
    "Setting.share",
)
"""The sentences of a mode are in its row, and those of another system in its preset."""
NOT_FOR_THE_MODEL = {
    "An error occurred while running the tool": "the SDK's own text, which is recognised",
    "I encountered an error": "CrewAI's own text, which is recognised",
    "I tried reusing the same input": "as above",
    "The run was ended, in a class after which calls are settled.": "the docstring of a class that is made at run time",
    "The run was ended, in a class that the event loop lets out.": "the docstring of a class that is made at run time",
    "The run was ended, in a class the SDK lets out.": "the docstring of a class that is made at run time",
}
SENTENCE = re.compile(r"\b[A-Za-z][a-z']*(?: [a-z']+,?){3,}")


def for_developers(node: ast.Constant) -> bool:
    """True for docstrings, and for the texts of log lines, warnings and exceptions."""
    for parent in parents(node):
        if isinstance(parent, ast.Expr) and parent.value is node:
            return True
        if isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assign) and "msg" in ast.unparse(parent.targets)):
            return True
        if isinstance(parent, ast.Call) and re.match(r"\w*logger\.|warnings?\.|shield", ast.unparse(parent.func)):
            return True
        if isinstance(parent, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in parent.bases):
            return True
    return False


def in_docs(node: ast.Constant) -> bool:
    """True for the words of a framework's row in the docs."""
    return any(isinstance(parent, ast.keyword) and parent.arg in ("notes", "turns") for parent in parents(node))


def in_row(path: Path, node: ast.Constant) -> bool:
    """True for the texts in the row of a detector."""
    return named(path).startswith("engine/detectors/") and any(
        isinstance(parent, ast.Call) and ast.unparse(parent.func) in PARTS_OF_ROWS for parent in parents(node)
    )


def sentences(path: Path) -> list[str]:
    texts = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [
        f"{named(path)}:{node.lineno}: {node.value}"
        for node in texts
        if SENTENCE.match(node.value)
        and node.value not in NOT_FOR_THE_MODEL
        and not (for_developers(node) or in_row(path, node) or in_docs(node))
    ]


def test_sentences_to_the_model_are_in_one_file_and_in_the_rows():
    """On the way of a call no other file holds four words of English that are neither a log line nor an error."""
    files = [
        path
        for path in FILES
        if named(path).startswith(ON_THE_WAY_OF_A_CALL) and not named(path).startswith((MODEL_TEXT, *OF_POLICIES))
    ]
    found = [sentence for path in files for sentence in sentences(path)]
    assert not found, "\n".join(found)


def test_the_search_for_sentences_finds_some():
    """The rule above would find the sentences of the file that holds them."""
    assert len(sentences(PACKAGE / MODEL_TEXT)) > 10


def importers(package: str) -> set[str]:
    """The files that import a package when they run, not only for type checking."""
    found = set()
    for path in FILES:
        if package not in path.read_text("utf-8"):
            continue
        for node in ast.walk(tree(path)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            typing = any(isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test) for one in parents(node))
            if not typing and any(f"{name}.".startswith(f"{package}.") for name in names):
                found.add(named(path))
    return found


def test_one_file_of_the_guard_imports_the_sdk():
    """A program without the SDK is guarded, too. The demo, the recorder and the testing kit need it to export spans.

    ``component_names`` runs before the program, and reads a table of the SDK if it is there.
    """
    others = ("cli/demo/", "cli/watch/", "testing/")
    guard = {name for name in importers("opentelemetry.sdk") if not name.startswith(others)}
    assert guard == {"telemetry/processor.py", "component_names.py"}


def test_two_files_import_wrapt():
    """All patches are made, and undone, in one place, and one listens to the imports of the program."""
    assert importers("wrapt") == {"instrumentation/imports.py", "instrumentation/patching.py"}


CLOCKS = re.compile(r"(perf_counter|monotonic|process_time|thread_time|time)(_ns)?|default_timer|timeit|now|utcnow")
OF_A_CLOCK = {"time", "timeit", "datetime"}
READ_A_CLOCK = {"tests/stack/harness/process.py": "the deadline of a wait for another program"}
"""Tests that read a clock, with the reason."""


def clocks(path: Path) -> set[str]:
    """The functions of clocks that a file names, as ``time.monotonic`` or imported from there."""
    text, found = path.read_text("utf-8"), set()
    for node in ast.walk(ast.parse(text)) if any(name in text for name in OF_A_CLOCK) else ():
        if isinstance(node, ast.Attribute) and OF_A_CLOCK & set(ast.unparse(node.value).split(".")):
            found.add(node.attr)
        if isinstance(node, ast.ImportFrom) and node.module in OF_A_CLOCK:
            found |= {one.name for one in node.names}
    return {name for name in found if CLOCKS.fullmatch(name)}


def test_no_test_reads_a_clock():
    """A test that measures no time cannot fail on a busy machine: costs are counted in steps, calls or bytes."""
    reading = {path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("*.py")) if clocks(path)}
    assert reading == READ_A_CLOCK.keys()


SHORT = {
    "version.py": "the build reads it without importing the package",
    "launch.py": "importing it is its effect, so nothing else may need to import it",
    "engine/history/bounded.py": "the bounded sets that state and statistics share",
}
"""Files of less than 20 lines, with the reason."""


def test_no_file_is_a_sliver():
    """A file under 20 lines is part of another idea; the exceptions are listed with their reason."""
    short = {named(path) for path in FILES if len(path.read_text("utf-8").splitlines()) < 20}
    assert sorted({name for name in short if not name.endswith("__init__.py")} - SHORT.keys()) == []


MIRRORED = ("engine/values", "engine/tools", "engine/history", "engine/policy", "policy_files", "guard", "turns",
            "spans", "store", "telemetry", "instrumentation", "cli")  # fmt: skip
OF_MANY_MODULES = {
    "instrumentation/test_call_frames.py": "the files and frames of one call, over all rooms",
    "instrumentation/test_every_fault.py": "breaks the functions of all rooms one by one",
    "instrumentation/test_faults.py": "faults of all rooms",
    "instrumentation/test_signals.py": "a signal strikes in all rooms",
    "store/test_counts.py": "each call of a shared turn counts once",
    "store/test_faults.py": "shared turns while their store fails",
    "store/test_stale.py": "what a process refuses that cannot know what another one has changed",
    "store/test_shared_turns.py": "programs whose steps run in several processes",
    "telemetry/test_secrets.py": "every signal of a program",
}
"""Tests of what several modules do together."""


def test_tests_mirror_the_package():
    """In each room ``test_x.py`` or ``test_x_more.py`` tests a module or folder ``x`` of the same room."""
    found = []
    for room in MIRRORED:
        modules = {path.stem for path in (PACKAGE / room).iterdir()} - {"__init__", "__pycache__"}
        for path in sorted((ROOT / "tests" / room).glob("test_*.py")):
            name = path.stem.removeprefix("test_")
            mirrors = any(name == module or name.startswith(f"{module}_") for module in modules)
            if not mirrors and f"{room}/{path.name}" not in OF_MANY_MODULES:
                found.append(f"{room}/{path.name}")
    assert not found, "\n".join(found)


WITHOUT_A_TEST = 63
"""A module that only its users test has no test of its name. Lower the number when you write one; never raise it."""


def test_no_more_modules_are_without_a_test_of_their_name():
    """A reader finds the test of a module by its name, in the same room."""
    tests = {path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    without = []
    for path in FILES:
        module = path.relative_to(PACKAGE).with_suffix("")
        prefix = f"{module.parent.as_posix()}/test_{module.name}".removeprefix("./")
        is_tested = any(test == f"{prefix}.py" or test.startswith(f"{prefix}_") for test in tests)
        if module.name != "__init__" and not is_tested:
            without.append(module.as_posix())
    assert len(without) == WITHOUT_A_TEST, "\n".join([str(len(without)), *without])
